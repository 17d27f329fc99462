"""POST …/deliveries/{delivery_id}/attempts and …/deliveries/redeliver."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.wire import NOBODYS_ID, Api, Place, invalid, refused
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import MANUAL_MOST
from tests.harness.waiting import until
from workhook.core.text import counted


def deliveries(api: Api, hook: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Wait until the webhook has `count` deliveries, and return them."""
    address = f"{hook['deliveries_url']}?per_page=100"
    return until(lambda: found if len(found := api.read(address)) >= count else [])


def create_hook_with_events(
    api: Api, place: Place, receiver: Receiver, *, failing: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Create a webhook with a ping and three events, the last `failing` of which failed."""
    hook = api.hook(place, config={"url": receiver.url, "retries": "0"}, events=["*"], active=True)
    deliveries(api, hook, 1)
    for number in range(3):
        code = 500 if number >= 3 - failing else 200
        receiver.reply = lambda received, code=code: Reply(code)  # type: ignore[misc]  # called immediately
        api.post(f"{place.path}/events", json={"event": "push", "payload": {"number": number}})
        deliveries(api, hook, number + 2)
    receiver.reply = lambda received: Reply()
    return hook, deliveries(api, hook, 4)


def is_done(answer: dict[str, Any]) -> bool:
    """Return whether the job is done: so few deliveries are processed before the response is sent."""
    job = answer["job"]
    assert job["finished_at"] == job["updated_at"] >= job["created_at"]
    return (job["state"], job["queued"], job["percent"]) == ("done", answer["queued"], 100)


def queued(response: httpx.Response) -> int:
    assert response.status_code == 202
    assert is_done(response.json())
    number: int = response.json()["queued"]
    return number


def test_a_delivery_is_redelivered(api: Api, place: Place, receiver: Receiver) -> None:
    hook, [_, wanted, *_] = create_hook_with_events(api, place, receiver)
    response = api.post(f"{hook['deliveries_url']}/{wanted['id']}/attempts")
    assert (response.status_code, response.content) == (202, b"{}")
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert response.headers["content-length"] == "2"
    again = deliveries(api, hook, 5)[0]
    assert again["guid"] == wanted["guid"]
    assert (again["redelivery"], wanted["redelivery"]) == (True, False)
    assert again["id"] > wanted["id"]
    one, two = (each for each in receiver.requests if each.guid == wanted["guid"])
    assert one.body == two.body
    assert api.get(hook["deliveries_url"], params={"redelivery": "true"}).json() == [again]


def test_a_redelivery_can_be_delivered_again(api: Api, place: Place, receiver: Receiver) -> None:
    hook, [wanted, *_] = create_hook_with_events(api, place, receiver)
    for count in (5, 6):
        newest = deliveries(api, hook, count - 1)[0]
        assert api.post(f"{hook['deliveries_url']}/{newest['id']}/attempts").status_code == 202
        assert deliveries(api, hook, count)[0]["guid"] == wanted["guid"]


def test_two_requests_redeliver_twice(api: Api, place: Place, receiver: Receiver) -> None:
    hook, [wanted, *_] = create_hook_with_events(api, place, receiver)
    for _ in range(2):
        api.post(f"{hook['deliveries_url']}/{wanted['id']}/attempts")
    assert [each["guid"] for each in deliveries(api, hook, 6)[:2]] == [wanted["guid"]] * 2


@pytest.mark.parametrize(
    ("body", "queued"),
    [
        (None, 2),
        ({}, 2),
        ({"status": None}, 2),
        ({"status": "failure"}, 2),
        ({"status": "success"}, 2),
        ({"event": "ping"}, 1),
        ({"event": "push"}, 3),
        ({"event": "push", "status": "success"}, 1),
        ({"event": ""}, 0),
        ({"event": "fork"}, 0),
        ({"since": "2000-01-01T00:00:00Z"}, 4),
        ({"until": "2000-01-01T00:00:00Z"}, 0),
        ({"ids": [1.0, 2**53 - 1]}, 0),
    ],
    ids=str,
)
def test_a_filter_selects_the_deliveries_to_redeliver(
    failing: tuple[Api, dict[str, Any], list[dict[str, Any]]], body: dict[str, Any] | None, queued: int
) -> None:
    api, hook, _ = failing
    response = api.post(f"{hook['deliveries_url']}/redeliver", json=body)
    assert (response.status_code, response.json()["queued"]) == (202, queued)
    assert is_done(response.json())


@pytest.fixture
def failing(api: Api, repository: Place, receiver: Receiver) -> tuple[Api, dict[str, Any], list[dict[str, Any]]]:
    hook, made = create_hook_with_events(api, repository, receiver, failing=2)
    return api, hook, made


def test_each_selected_event_is_redelivered_once(failing: tuple[Api, dict[str, Any], list[dict[str, Any]]]) -> None:
    api, hook, made = failing
    failed = {each["guid"] for each in made if each["status"] != "OK"}
    assert queued(api.post(f"{hook['deliveries_url']}/redeliver")) == 2
    again = deliveries(api, hook, 6)[:2]
    assert {each["guid"] for each in again} == failed
    assert all(each["redelivery"] and each["status"] == "OK" for each in again)
    # An event with several attempts counts once.
    assert queued(api.post(f"{hook['deliveries_url']}/redeliver", json={"event": "push"})) == 3


def test_deliveries_can_be_selected_by_id(failing: tuple[Api, dict[str, Any], list[dict[str, Any]]]) -> None:
    api, hook, made = failing
    ids = [made[0]["id"], made[3]["id"]]
    assert queued(api.post(f"{hook['deliveries_url']}/redeliver", json={"ids": ids})) == 2
    assert {each["guid"] for each in deliveries(api, hook, 6)[:2]} == {made[0]["guid"], made[3]["guid"]}


def test_deliveries_of_other_webhooks_are_not_redelivered(
    failing: tuple[Api, dict[str, Any], list[dict[str, Any]]], repository: Place
) -> None:
    api, _, made = failing
    for place in (repository, repository.other):
        other = api.hook(place)
        address = f"{other['deliveries_url']}/redeliver"
        assert queued(api.post(address, json={"ids": [each["id"] for each in made]})) == 0
        refused(api.post(f"{other['deliveries_url']}/{made[0]['id']}/attempts"), 404, "Not Found")


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"status": "bad"}, "status", "status must be success or failure"),
        ({"since": "x"}, "since", "since must be a time such as 2026-11-20T09:00:00Z"),
        ({"until": ""}, "until", "until must be a time such as 2026-11-20T09:00:00Z"),
        ({"ids": []}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),  # nothing failed, so no job is started
        ({"ids": ["1"]}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),
        ({"ids": [0]}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),
        ({"ids": [2**53]}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),
        ({"ids": [True]}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),
        ({"ids": [1.5]}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),
        ({"ids": [1] * 1001}, "ids", "ids must be an array of 1 to 1,000 delivery IDs"),
        ({"event": "a\0b"}, "event", "event must not contain NUL"),
        ({"stauts": "failure"}, "stauts", "Invalid filter: stauts"),  # ignoring it would redeliver everything
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_invalid_filter_is_refused(api: Api, place: Place, body: dict[str, Any], field: str, message: str) -> None:
    hook = api.hook(place)
    fault = {"field": field, "code": "invalid", "message": message}
    invalid(api.post(f"{hook['deliveries_url']}/redeliver", json=body), fault)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"status": 1}, "For 'properties/status', 1 is not a string."),
        ({"ids": "1"}, "For 'properties/ids', \"1\" is not an array."),
        ({"event": ["push"]}, "For 'properties/event', [\"push\"] is not a string."),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused(api: Api, place: Place, body: dict[str, Any], complaint: str) -> None:
    hook = api.hook(place)
    response = api.post(f"{hook['deliveries_url']}/redeliver", json=body)
    refused(response, 422, f"Invalid request.\n\n{complaint}")


def test_unknown_deliveries_and_webhooks_are_not_found(api: Api, place: Place) -> None:
    hook = api.hook(place)
    for path in ("1/attempts", "abc/attempts", f"{2**63}/attempts"):
        refused(api.post(f"{hook['deliveries_url']}/{path}"), 404, "Not Found")
    refused(api.post(f"{place.hooks}/999999/deliveries/redeliver"), 404, "Not Found")


def test_the_limit_per_minute_states_when_to_try_again(api: Api, place: Place) -> None:
    """Each webhook has one limit for pings, tests and redeliveries. The requests may span two minutes."""
    hook, other = api.hook(place), api.hook(place)
    body = {"ids": [NOBODYS_ID]}
    answers = [api.post(f"{hook['deliveries_url']}/redeliver", json=body) for _ in range(MANUAL_MOST + 1)]
    answers += [api.post(hook["ping_url"]) for _ in range(MANUAL_MOST + 1)]
    assert {each.status_code for each in answers[:MANUAL_MOST]} == {202}
    [first, *_] = limited = [each for each in answers if not each.is_success]
    for each in limited:
        wait_s = int(each.headers["retry-after"])
        assert 1 <= wait_s <= 61
        message = f"at most {MANUAL_MOST} pings, tests, and redeliveries a minute for one webhook"
        wait = counted(wait_s, "second")
        refused(each, 403, f"You have exceeded a secondary rate limit: {message}. Try again in {wait}.")
    assert int(first.headers["x-ratelimit-remaining"]) > 0, "another limit is the reason"
    assert api.post(other["ping_url"]).status_code == 204


def test_a_loop_over_failed_deliveries_is_not_limited(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda _: Reply(500)
    hook = api.hook(place, config={"url": receiver.url, "retries": "0"}, active=True)
    [ping] = until(lambda: api.read(hook["deliveries_url"]))
    attempts = f"{hook['deliveries_url']}/{ping['id']}/attempts"
    assert {api.post(attempts).status_code for _ in range(131)} == {202}
