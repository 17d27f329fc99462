"""GET …/hooks/{hook_id}/deliveries and …/deliveries/{delivery_id}."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.api.wire import ITEM_KEYS, MILLISECONDS, Api, Place, invalid, refused
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World


def cursors(response: httpx.Response) -> dict[str, str]:
    found = re.findall(r'<([^>]+)>; rel="(\w+)"', response.headers.get("link", ""))
    assert all(url.startswith(str(response.url.copy_with(query=None))) for url, _ in found)
    return {rel: parse_qs(urlsplit(url).query)["cursor"][0] for url, rel in found}


def deliver(api: Api, place: Place, hook: dict[str, Any], count: int, **event: Any) -> list[dict[str, Any]]:
    """Publish `count` events, wait until the webhook has that many more deliveries, and return all of them."""
    before = len(api.read(f"{hook['deliveries_url']}?per_page=100"))
    for number in range(count):
        body = {"event": "push", "payload": {"number": number}, **event}
        assert api.post(f"{place.path}/events", json=body).json()["deliveries"] == 1
    address = f"{hook['deliveries_url']}?per_page=100"
    return until(lambda: found if len(found := api.read(address)) >= before + count else [])


def test_the_list_describes_each_delivery(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url}, events=["issues"], active=True)
    [ping] = until(lambda: api.read(hook["deliveries_url"]))
    issues, first = deliver(api, place, hook, 1, event="issues", action="opened")
    assert first == ping
    assert tuple(issues) == ITEM_KEYS
    assert re.fullmatch(MILLISECONDS, issues["delivered_at"])
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", issues["guid"])
    assert issues["duration"] == round(issues["duration"], 2) >= 0
    assert ping["id"] < issues["id"] < 2**53
    repository_id = api.read(place.path)["id"] if place.kind == "repository" else None
    assert issues == {
        **issues,
        "redelivery": False,
        "status": "OK",
        "status_code": 200,
        "event": "issues",
        "action": "opened",
        "installation_id": None,
        "repository_id": repository_id,
        "throttled_at": None,
        "url": "",
        "dispatch_state": "delivered",
        "attempt": 1,
        "attempts_max": 9,
        "next_attempt_at": None,
    }
    assert (ping["event"], ping["action"]) == ("ping", None)
    assert [each.guid for each in receiver.requests] == [ping["guid"], issues["guid"]]


def test_a_single_delivery_includes_request_and_response(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(202, {"X-Answer": "yes"}, "für dich".encode())
    config = {"url": receiver.url, "content_type": "json", "secret": "s", "username": "u", "password": "p4ss"}
    hook = api.hook(place, config=config, active=True)
    [item] = until(lambda: api.read(hook["deliveries_url"]))
    response = api.get(f"{hook['deliveries_url']}/{item['id']}")
    detail = response.json()
    assert tuple(detail) == (*ITEM_KEYS, "request", "response")
    assert {name: detail[name] for name in ITEM_KEYS} == {**item, "url": receiver.url}
    sent = detail["request"]
    [received] = receiver.requests
    assert sent["payload"] == received.payload()
    assert sent["headers"]["X-Service-Event"] == "ping"
    assert sent["headers"]["X-Service-Delivery"] == item["guid"]
    assert sent["headers"]["X-Service-Hook-ID"] == str(hook["id"])
    assert sent["headers"]["X-Service-Hook-Installation-Target-Type"] == place.kind
    assert sent["headers"]["content-type"] == "application/json"
    assert sent["headers"]["X-Hub-Signature-256"] == received.headers["x-hub-signature-256"]
    assert received.headers["authorization"].startswith("Basic ")
    assert "p4ss" not in response.text
    assert received.headers["authorization"].removeprefix("Basic ") not in response.text
    assert detail["response"]["payload"] == "für dich"
    assert detail["response"]["headers"]["X-Answer"] == "yes"
    texts = [*sent["headers"].values(), *detail["response"]["headers"].values()]
    assert all(isinstance(each, str) for each in texts)


@pytest.mark.parametrize(
    ("code", "status", "shown"),
    [(204, "OK", 204), (301, "Invalid HTTP Response: 301", 301), (403, "Invalid HTTP Response: 403", 403)],
)
def test_the_status_describes_the_response(
    api: Api, place: Place, receiver: Receiver, code: int, status: str, shown: int
) -> None:
    receiver.reply = lambda received: Reply(code, {"Location": "http://127.0.0.1:9/"}, b"")
    hook = api.hook(place, config={"url": receiver.url, "retries": "0"}, active=True)
    [item] = until(lambda: api.read(hook["deliveries_url"]))
    assert (item["status"], item["status_code"]) == (status, shown)
    assert api.read(f"{hook['deliveries_url']}/{item['id']}")["response"]["payload"] == ""


def test_a_refused_connection_is_reported_as_502(api: Api, place: Place) -> None:
    hook = api.hook(place, config={"retries": "0"}, active=True)
    [item] = until(lambda: api.read(hook["deliveries_url"]))
    assert (item["status"], item["status_code"]) == ("failed to connect to host", 502)
    assert api.read(f"{hook['deliveries_url']}/{item['id']}")["response"] == {"headers": {}, "payload": ""}


@pytest.fixture(scope="module")
def history(server: Server) -> Iterator[tuple[Api, dict[str, Any], list[dict[str, Any]]]]:
    """Yield a webhook with 7 deliveries, newest first: the ping and six events, two of which failed."""
    receiver = Receiver()
    receiver.reply = lambda received: Reply(500 if b"%22fail" in received.body else 200)
    world: World = server.world()
    place = Place("repository", world)
    with server.client(world.token) as client:
        api = Api(client)
        hook = api.hook(place, config={"url": receiver.url, "retries": "0"}, events=["*"], active=True)
        until(lambda: api.read(hook["deliveries_url"]))
        deliver(api, place, hook, 2)
        deliver(api, place, hook, 2, event="issues", action="opened", payload={"fail": 1})
        made = deliver(api, place, hook, 2, event="issues", action="closed")
        yield api, hook, made
    receiver.close()


History = tuple[Api, dict[str, Any], list[dict[str, Any]]]


def test_the_newest_delivery_is_listed_first(history: History) -> None:
    _, _, made = history
    ids = [each["id"] for each in made]
    assert ids == sorted(ids, reverse=True)
    assert [each["action"] for each in made] == ["closed", "closed", "opened", "opened", None, None, None]


def test_links_lead_forward_and_back(history: History) -> None:
    api, hook, made = history
    ids = [each["id"] for each in made]
    address: str = hook["deliveries_url"]
    first = api.get(address, params={"per_page": 3})
    assert [each["id"] for each in first.json()] == ids[:3]
    assert cursors(first) == {"next": f"v1_{ids[3]}"}
    second = api.get(address, params={"per_page": 3, "cursor": cursors(first)["next"]})
    assert [each["id"] for each in second.json()] == ids[3:6]
    assert cursors(second) == {"next": f"v1_{ids[6]}", "prev": f"v1_{ids[0]}"}
    third = api.get(address, params={"per_page": 3, "cursor": cursors(second)["next"]})
    assert [each["id"] for each in third.json()] == ids[6:]
    assert cursors(third) == {"prev": f"v1_{ids[3]}"}
    back = api.get(address, params={"per_page": 3, "cursor": cursors(third)["prev"]})
    assert back.json() == second.json()
    assert "link" not in api.get(address).headers


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ({"status": "success"}, [0, 1, 4, 5, 6]),
        ({"status": "failure"}, [2, 3]),
        ({"event": "issues"}, [0, 1, 2, 3]),
        ({"event": "nothing"}, []),
        ({"action": "opened"}, [2, 3]),
        ({"event": "issues", "action": "closed", "status": "success"}, [0, 1]),
        ({"redelivery": "false"}, [0, 1, 2, 3, 4, 5, 6]),
        ({"redelivery": "true"}, []),
        ({"since": "2999-01-01T00:00:00Z"}, []),
        ({"until": "2000-01-01T00:00:00+02:00"}, []),
        ({"unknown": "is ignored"}, [0, 1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_deliveries_can_be_filtered(history: History, query: dict[str, str], kept: list[int]) -> None:
    api, hook, made = history
    assert api.get(hook["deliveries_url"], params=query).json() == [made[each] for each in kept]


def test_deliveries_can_be_filtered_by_guid_and_time(history: History) -> None:
    api, hook, made = history
    address: str = hook["deliveries_url"]
    assert api.get(address, params={"guid": made[2]["guid"]}).json() == [made[2]]
    within = {"since": made[4]["delivered_at"], "until": made[2]["delivered_at"]}
    found = api.get(address, params=within).json()
    assert [each for each in found if each in made[2:5]] == made[2:5]


def test_links_keep_the_filters(history: History) -> None:
    api, hook, made = history
    first = api.get(hook["deliveries_url"], params={"status": "failure", "per_page": 1})
    second = api.get(re.findall("<([^>]+)>", first.headers["link"])[0])
    assert [*first.json(), *second.json()] == made[2:4]
    assert set(cursors(second)) == {"prev"}


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ({"status": "ok"}, "status", "status must be success or failure"),
        ({"redelivery": "1"}, "redelivery", "redelivery must be true or false"),
        ({"since": "yesterday"}, "since", "since must be a time such as 2026-11-20T09:00:00Z"),
        ({"until": "2026-11-20T09:00:00"}, "until", "until must be a time such as 2026-11-20T09:00:00Z"),
        ({"per_page": "x"}, "per_page", "per_page must be a whole number of at least 1"),
    ],
    ids=str,
)
def test_an_invalid_filter_is_refused(history: History, query: dict[str, str], field: str, message: str) -> None:
    api, hook, _ = history
    fault = {"field": field, "code": "invalid", "message": message}
    invalid(api.get(hook["deliveries_url"], params=query), fault)


@pytest.mark.one_database
@pytest.mark.parametrize("cursor", ["x", "", "v1_", "v1_x", "v2_1", "1", "v1_-1", "v1_" + "9" * 40, "v1_1 ", "v1_٣"])
def test_an_invalid_cursor_is_refused(history: History, cursor: str) -> None:
    api, hook, _ = history
    response = api.get(hook["deliveries_url"], params={"cursor": cursor})
    refused(response, 400, "The cursor does not come from a Link header.")


def test_a_cursor_without_its_delivery_still_works(history: History) -> None:
    api, hook, made = history
    beyond = api.get(hook["deliveries_url"], params={"cursor": f"v1_{2**53}"})
    assert beyond.json() == made
    assert api.get(hook["deliveries_url"], params={"cursor": "v1_0"}).json() == []


def test_deliveries_of_other_webhooks_are_not_found(history: History) -> None:
    api, hook, made = history
    hooks = hook["url"].rpartition("/")[0]
    other = api.post(hooks, json={"config": {"url": "http://127.0.0.1:9/"}, "active": False}).json()
    for path in (
        f"{other['deliveries_url']}/{made[0]['id']}",
        f"{hook['deliveries_url']}/{made[0]['id'] + 1_000_000}",
        f"{hook['deliveries_url']}/abc",
        f"{hook['deliveries_url']}/{2**63}",
        f"{hooks}/999999/deliveries",
        f"{hooks}/999999/deliveries/{made[0]['id']}",
    ):
        refused(api.get(path), 404, "Not Found")


def test_deliveries_are_found_only_under_the_webhooks_owner(api: Api, place: Place) -> None:
    hook = api.hook(place, config={"retries": "0"}, active=True)
    [item] = until(lambda: api.read(hook["deliveries_url"]))
    elsewhere = f"{place.other.hooks}/{hook['id']}/deliveries"
    refused(api.get(elsewhere), 404, "Not Found")
    refused(api.get(f"{elsewhere}/{item['id']}"), 404, "Not Found")


# --- pings and tests -------------------------------------------------------------------------------------------------
# POST …/hooks/{hook_id}/pings, and …/tests with its former name …/test.


def test_a_ping_is_sent_to_an_inactive_webhook(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url, "content_type": "json"}, events=["fork"])
    response = api.post(hook["ping_url"])
    assert (response.status_code, response.content) == (204, b"")
    assert "content-type" not in response.headers
    [ping] = receiver.wait_for(1)
    assert ping.event == "ping"
    assert ping.payload()["hook"] == hook
    assert ping.payload()["hook_id"] == hook["id"]
    assert ping.payload()["zen"]


def test_a_ping_is_sent_to_one_webhook_only(api: Api, place: Place, receiver: Receiver) -> None:
    api.hook(place, config={"url": receiver.url + "/other"}, events=["*"], active=True)
    api.hook(place.other, config={"url": receiver.url + "/other"}, events=["*"], active=True)
    receiver.wait_for(2)
    hook = api.hook(place, config={"url": receiver.url + "/mine"}, events=["push"])
    api.post(hook["ping_url"])
    receiver.wait_for(lambda requests: any(each.path == "/hook/mine" for each in requests))
    assert [each.path for each in receiver.requests].count("/hook/other") == 2


@pytest.mark.parametrize("name", ["tests", "test"])
def test_a_test_sends_the_latest_push(api: Api, repository: Place, receiver: Receiver, name: str) -> None:
    hook = api.hook(repository, config={"url": receiver.url, "content_type": "json"}, events=["push"])
    for number in range(2):
        api.post(f"{repository.path}/events", json={"event": "push", "payload": {"number": number}})
    api.post(f"{repository.path}/events", json={"event": "fork", "payload": {}})
    response = api.post(f"{hook['url']}/{name}")
    assert (response.status_code, response.content) == (204, b"")
    [sent] = receiver.wait_for(1)
    assert (sent.event, sent.payload()["number"]) == ("push", 1)
    assert sent.payload()["repository"]["full_name"] == repository.world.full_name


@pytest.mark.parametrize("events", [["*"], ["fork"]], ids=str)
def test_a_test_without_an_earlier_push_sends_nothing(
    api: Api, repository: Place, events: list[str], receiver: Receiver
) -> None:
    hook = api.hook(repository, config={"url": receiver.url}, events=events)
    if events == ["fork"]:
        api.post(f"{repository.path}/events", json={"event": "push", "payload": {}})
    assert api.post(f"{hook['url']}/tests").status_code == 204
    api.post(hook["ping_url"])
    assert [each.event for each in receiver.wait_for(1)] == ["ping"]


def test_organization_webhooks_have_no_test(api: Api, organization: Place) -> None:
    hook = api.hook(organization)
    for name in ("tests", "test"):
        refused(api.post(f"{hook['url']}/{name}"), 404, "Not Found")


def test_pings_and_tests_require_the_webhooks_owner_in_the_path(api: Api, place: Place) -> None:
    hook = api.hook(place)
    refused(api.post(f"{place.other.hooks}/{hook['id']}/pings"), 404, "Not Found")
    refused(api.post(f"{place.hooks}/999999999/pings"), 404, "Not Found")
    if place.kind == "organization":
        refused(api.post(f"{place.other.hooks}/{hook['id']}/tests"), 404, "Not Found")
