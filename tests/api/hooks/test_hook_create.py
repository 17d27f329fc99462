"""POST /repos/{owner}/{repo}/hooks and /orgs/{org}/hooks."""

from __future__ import annotations

import hashlib
import hmac
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from tests.api.wire import (
    BAD_URL,
    HOOK_KEYS,
    REPOSITORY_KEYS,
    SECONDS,
    UNUSED,
    Api,
    Place,
    custom,
    invalid,
    new_url,
    refused,
    unknown_event,
)
from tests.delivery.test_request_target import TARGETS
from tests.harness.receiver import Receiver
from tests.harness.server import Server, SharedServer
from tests.harness.waiting import until
from tests.harness.world import World
from workhook.hooks.tables import hooks
from workhook.http.calls import Services
from workhook.identity.tables import audit_log


def test_the_response_for_a_repository(api: Api, repository: Place, server: Server) -> None:
    config = {"url": "http://127.0.0.1:9/answer", "content_type": "json", "secret": "s3cret", "insecure_ssl": "0"}
    response = api.create(repository, config=config, events=["push", "pull_request"], active=False)
    assert response.status_code == 201
    body = response.json()
    url = f"{server.url}{repository.hooks}/{body['id']}"
    assert re.fullmatch(SECONDS, body["created_at"])
    assert body == {
        "type": "Repository",
        "id": body["id"],
        "name": "web",
        "active": False,
        "events": ["push", "pull_request"],
        "config": {**config, "secret": "********"},
        "updated_at": body["created_at"],
        "created_at": body["created_at"],
        "url": url,
        "test_url": f"{url}/test",
        "ping_url": f"{url}/pings",
        "deliveries_url": f"{url}/deliveries",
        "last_response": UNUSED,
    }
    assert set(body) == set(REPOSITORY_KEYS)
    assert 0 < body["id"] < 2**31
    assert response.headers["location"] == url
    assert re.fullmatch(r'"[0-9a-f]{64}"', response.headers["etag"])  # a strong validator
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert response.headers["x-accepted-oauth-scopes"] == "admin:repo_hook, repo, write:repo_hook"


def test_the_response_for_an_organization(api: Api, organization: Place, server: Server) -> None:
    response = api.create(organization, active=False)
    body = response.json()
    url = f"{server.url}{organization.hooks}/{body['id']}"
    assert set(body) == set(HOOK_KEYS)  # neither test_url nor last_response
    assert (response.status_code, response.headers["location"]) == (201, url)
    assert (body["type"], body["url"], body["ping_url"]) == ("Organization", url, f"{url}/pings")
    assert body["config"].keys() == {"url", "content_type", "insecure_ssl"}
    assert response.headers["x-accepted-oauth-scopes"] == "admin:org_hook"


def test_omitted_fields_have_defaults(api: Api, place: Place) -> None:
    url = new_url()
    body = api.post(place.hooks, json={"name": "web", "config": {"url": url}}).json()
    assert (body["active"], body["events"]) == (True, ["push"])
    assert body["config"] == {"url": url, "content_type": "form", "insecure_ssl": "0"}


@pytest.mark.parametrize(("events", "shown"), [([], ["push"]), (["*"], ["*"]), (["push", "push"], ["push"])])
def test_events_are_normalized(api: Api, place: Place, events: list[str], shown: list[str]) -> None:
    assert api.hook(place, events=events)["events"] == shown


def test_only_the_name_web_is_valid(api: Api, place: Place) -> None:
    body: dict[str, Any] = {"config": {"url": new_url()}, "active": False}
    fault = {"resource": "Hook", "field": "name", "code": "invalid"}
    invalid(api.post(place.hooks, json={**body, "name": "xxx"}), {**fault, "value": "xxx"})
    absent = api.post(place.hooks, json=body)
    if place.kind == "repository":
        assert (absent.status_code, absent.json()["name"]) == (201, "web")
    else:
        invalid(absent, {**fault, "value": None})


@pytest.mark.one_database
@pytest.mark.parametrize(
    "config", [None, {}, {"url": ""}, {"url": None}, {"url": "  "}], ids=["absent", "empty", "blank", "null", "spaces"]
)
def test_a_url_is_required(api: Api, place: Place, config: dict[str, Any] | None) -> None:
    body = {"name": "web"} if config is None else {"name": "web", "config": config}
    invalid(api.post(place.hooks, json=body), custom("url cannot be blank", "url"))


def test_an_empty_body_is_missing_a_url(api: Api, repository: Place) -> None:
    invalid(api.post(repository.hooks), custom("url cannot be blank", "url"))


@pytest.mark.one_database
@pytest.mark.parametrize(
    "url",
    [
        "example.com", "//example.com/", "http:///x", "http://",
        "http://example.com:0/", "http://example.com:65536/", "http://[::1/",
        "http://example.com/ö", "http://exämple.com/", "http://example.com/a b", "http://example.com/%zz",
        "http://example.com/{x}", "http://example.com/\r\nX: y", "http://127.1/", "http://2130706433/",
        "http://0x7f.0.0.1/",
    ],
)  # fmt: skip
def test_an_invalid_url_is_refused(api: Api, place: Place, url: str) -> None:
    invalid(api.create(place, config={"url": url}), custom(BAD_URL, "url"))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/a?b=c&d=%C3%B6#e", "https://127.0.0.1/", "http://127.0.0.1:9/" + "a" * 4000,
        "HTTP://127.0.0.1:9/UPPER",
    ],
)  # fmt: skip
def test_a_url_is_stored_unchanged(api: Api, place: Place, url: str) -> None:
    hook = api.hook(place, config={"url": url})
    assert api.read(hook["url"])["config"]["url"] == url


def test_a_url_that_is_too_long_is_refused(api: Api, place: Place) -> None:
    url = "http://127.0.0.1:9/" + "a" * 4096
    invalid(api.create(place, config={"url": url}), custom("url is longer than 4096 characters", "url"))


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("localhost", "localhost"), ("LOCALHOST:3000", "localhost"), ("a.localhost", "a.localhost"),
        ("127.0.0.1", "127.0.0.1"), ("10.1.2.3", "10.1.2.3"), ("192.168.0.1:8080", "192.168.0.1"),
        ("169.254.169.254", "169.254.169.254"), ("[::1]", "::1"), ("[::ffff:127.0.0.1]", "::ffff:7f00:1"),
        ("100.64.0.1", "100.64.0.1"), ("0.0.0.0", "0.0.0.0"), ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
    ],
)  # fmt: skip
def test_a_private_address_is_refused_by_default(closed: tuple[Server, Api, Place], host: str, named: str) -> None:
    _, api, place = closed
    response = api.create(place, config={"url": f"http://{host}/x"})
    message = (
        f"url is not supported because it isn't reachable over the public Internet ({named}). To deliver to a private"
        " network, start the server with --allow-network."
    )
    invalid(response, custom(message, "url"))


@pytest.fixture(scope="module")
def closed(backend: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a server without the test settings: private addresses are refused, and an event has at most 20 webhooks."""
    folder = tmp_path_factory.mktemp("closed")
    given = {**backend.new(folder), "delivery_allow_networks": "", "hooks_per_event": 20}
    server = SharedServer(folder, given, command=("serve", "--port", "0", "--no-worker")).start()
    world = server.world()
    with server.client(world.token) as client:
        yield server, Api(client), Place("repository", world)
    server.close()


@pytest.mark.one_database
@pytest.mark.parametrize("names", [["order.paid"], ["push", "Push", "pushes"], [""], ["a\0b"]])
def test_unknown_events_are_refused(api: Api, place: Place, names: list[str]) -> None:
    wrong = [name for name in names if name != "push"]
    invalid(api.create(place, events=names), *(custom(unknown_event(name)) for name in wrong))


def test_some_events_are_limited_to_repositories_or_organizations(api: Api, place: Place) -> None:
    name = "membership" if place.kind == "repository" else "security_and_analysis"
    other = {each["name"]: each["targets"] for each in api.read("/webhook-events")}
    response = api.create(place, events=[name])
    if place.kind in other[name]:
        assert response.status_code == 201
    else:
        places = "repositories" if place.kind == "organization" else "organizations"
        invalid(response, custom(f'Only webhooks of {places} can name the event "{name}".'))


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("config", "message", "field"),
    [
        ({"content-type": "json"}, "Invalid config attribute: content-type", None),
        ({"digest": "x"}, "Invalid config attribute: digest", None),
        ({"content_type": "xml"}, "content_type must be json or form", "content_type"),
        ({"content_type": 1}, "content_type must be json or form", "content_type"),
        ({"insecure_ssl": "2"}, "insecure_ssl must be 0 or 1", "insecure_ssl"),
        ({"insecure_ssl": "true"}, "insecure_ssl must be 0 or 1", "insecure_ssl"),
        ({"insecure_ssl": []}, "insecure_ssl must be 0 or 1", "insecure_ssl"),
        ({"secret": ["a"]}, "secret must be a string", "secret"),
        ({"secret": True}, "secret must be a string", "secret"),
        ({"secret": "a" * 4097}, "secret is longer than 4096 characters", "secret"),
        ({"password": {}}, "password must be a string", "password"),
        ({"username": "a:b"}, "username must be text without colons and control characters", "username"),
        ({"username": "a\nb"}, "username must be text without colons and control characters", "username"),
        ({"header_style": "gitlab"}, "header_style must be github, service, or standard", "header_style"),
        (
            {"previous_secret_expires_in": 60},
            "previous_secret_expires_in requires a new secret",
            "previous_secret_expires_in",
        ),
        ({"retries": 51}, "retries must be a whole number from 0 to 50", "retries"),
        ({"retries": "000000000999999999"}, "retries must be a whole number from 0 to 50", "retries"),
        ({"retries": "-1"}, "retries must be a whole number from 0 to 50", "retries"),
        ({"retries": True}, "retries must be a whole number from 0 to 50", "retries"),
        ({"max_concurrency": 0}, "max_concurrency must be a whole number from 1 to 1000", "max_concurrency"),
        ({"rate_limit": 1.5}, "rate_limit must be a whole number from 1 to 10000", "rate_limit"),
        ({"rate_limit": "1e3"}, "rate_limit must be a whole number from 1 to 10000", "rate_limit"),
        (
            {"previous_secret_expires_in": 604_801},
            "previous_secret_expires_in must be a number of seconds, at most 604800",
            "previous_secret_expires_in",
        ),
    ],
    ids=str,
)
def test_an_invalid_configuration_is_refused(
    api: Api, place: Place, config: dict[str, Any], message: str, field: str | None
) -> None:
    invalid(api.create(place, config=config), custom(message, field))


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"content_type": "application/json"}, {"content_type": "application/json"}),
        ({"content_type": ""}, {"content_type": "form"}),
        ({"content_type": "application/x-www-form-urlencoded"}, {"content_type": "application/x-www-form-urlencoded"}),
        ({"content_type": " JSON"}, {"content_type": "json"}),
        ({"content_type": None}, {"content_type": "form"}),
        *(({"insecure_ssl": value}, {"insecure_ssl": "1"}) for value in (1, "1", True, 1.0)),
        *(({"insecure_ssl": value}, {"insecure_ssl": "0"}) for value in (0, "0", False, None, "")),
        ({"secret": "x"}, {"secret": "********"}),
        ({"secret": 12345}, {"secret": "********"}),
        ({"secret": ""}, {}),
        ({"secret": None}, {}),
        ({"username": "ö", "password": "p"}, {"username": "ö", "password": "********"}),
        ({"header_style": "service"}, {"header_style": "service"}),
        (
            {"header_style": "standard", "secret": "whsec_c2VjcmV0"},
            {"header_style": "standard", "secret": "********"},
        ),
        ({"retries": 0, "rate_limit": 10.0}, {"retries": "0", "rate_limit": "10"}),
        ({"max_concurrency": "3"}, {"max_concurrency": "3"}),
        ({"secret": "x", "previous_secret_expires_in": 60}, {"secret": "********"}),
    ],
    ids=str,
)  # fmt: skip
def test_a_configuration_is_shown_normalized(
    api: Api, place: Place, config: dict[str, Any], shown: dict[str, Any]
) -> None:
    hook = api.hook(place, config=config)
    expected = {"url": hook["config"]["url"], "content_type": "form", "insecure_ssl": "0", **shown}
    assert hook["config"] == api.read(hook["url"])["config"] == api.read(f"{hook['url']}/config") == expected


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("body", "complaints"),
    [
        ({"events": None}, ["For 'properties/events', nil is not an array."]),
        ({"events": "push"}, ["For 'properties/events', \"push\" is not an array."]),
        ({"events": ["push", 1]}, ["For 'properties/events/items', 1 is not a string."]),
        ({"active": "true"}, ["For 'properties/active', \"true\" is not a boolean."]),
        ({"active": None}, ["For 'properties/active', nil is not a boolean."]),
        ({"config": []}, ["For 'properties/config', [] is not an object."]),
        ({"config": "http://127.0.0.1/"}, ["For 'properties/config', \"http://127.0.0.1/\" is not an object."]),
        ({"name": 1}, ["For 'properties/name', 1 is not a string."]),
        (
            {"events": None, "active": 1},
            ["For 'properties/events', nil is not an array.", "For 'properties/active', 1 is not a boolean."],
        ),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused(
    api: Api, place: Place, body: dict[str, Any], complaints: list[str]
) -> None:
    response = api.post(place.hooks, json={"name": "web", "config": {"url": new_url()}, **body})
    assert response.status_code == 422
    assert response.json()["message"] == "\n\n".join(["Invalid request.", *complaints])
    assert set(response.json()) == {"message", "documentation_url", "status"}  # there is no `errors` member


def test_all_errors_are_reported_together(api: Api, organization: Place) -> None:
    body = {"name": "x", "events": ["nope"], "config": {"url": "", "what": 1, "content_type": "xml"}}
    invalid(
        api.post(organization.hooks, json=body),
        {"resource": "Hook", "field": "name", "code": "invalid", "value": "x"},
        custom(unknown_event("nope")),
        custom("url cannot be blank", "url"),
        custom("Invalid config attribute: what"),
        custom("content_type must be json or form", "content_type"),
    )


def test_unknown_fields_outside_the_configuration_are_ignored(api: Api, place: Place) -> None:
    assert "foo" not in api.hook(place, foo="bar", id=1, type="x")


def test_a_duplicate_webhook_is_refused(api: Api, place: Place) -> None:
    url = new_url()
    assert api.create(place, config={"url": url}, events=["push", "issues"], active=False).status_code == 201
    again = custom(f"Hook already exists on this {place.kind}")
    invalid(api.create(place, config={"url": url}, events=["issues", "push"]), again)
    invalid(api.create(place, config={"url": url, "content_type": "form"}, events=["push", "issues"]), again)
    invalid(api.create(place, config={"url": url, "secret": "x"}, events=["push", "issues"], active=False), again)
    for differs in (
        {"config": {"url": url}, "events": ["fork"]},
        {"config": {"url": url, "content_type": "json"}, "events": ["push", "issues"]},
    ):
        assert api.create(place, active=False, **differs).status_code == 201  # type: ignore[arg-type]  # a body
    assert api.create(place.other, config={"url": url}, events=["push", "issues"], active=False).status_code == 201


def test_concurrent_duplicates_create_one_webhook(api: Api, place: Place) -> None:
    url = new_url()
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(api.create, place, config={"url": url}, active=False) for _ in range(8)]
    assert sorted(each.result().status_code for each in made) == [201, *[422] * 7]
    assert len(api.read(place.hooks)) == 1


def test_the_number_of_webhooks_for_an_event_is_limited(closed: tuple[Server, Api, Place]) -> None:
    _, api, place = closed
    url = "https://example.com/"
    for number in range(20):
        made = api.create(
            place, config={"url": f"{url}{number}"}, events=["push", "issues"] if number < 10 else ["push"]
        )
        assert made.status_code == 201
    full = custom('The "push" event cannot have more than 20 hooks')
    invalid(api.create(place, config={"url": f"{url}x"}, events=["push"]), full)
    invalid(api.create(place, config={"url": f"{url}x"}, events=["issues", "push"]), full)
    hook = api.create(place, config={"url": f"{url}x"}, events=["issues"]).json()
    invalid(api.patch(hook["url"], json={"add_events": ["push"]}), full)
    assert api.patch(hook["url"], json={"active": False}).status_code == 200  # its existing events do not count again
    assert api.create(place.other, config={"url": f"{url}x"}, events=["push"]).status_code == 201


def test_a_new_active_hook_is_sent_a_ping(api: Api, place: Place, receiver: Receiver, server: Server) -> None:
    config = {"url": receiver.url, "content_type": "json"}
    hook = api.hook(place, config=config, events=["issues"], active=True)
    [ping] = receiver.wait_for(1)
    payload = ping.payload()
    around = ["repository", "organization"] if place.kind == "repository" else ["organization"]
    assert list(payload) == ["zen", "hook_id", "hook", *around, "sender"]
    assert (ping.event, payload["hook_id"]) == ("ping", hook["id"])
    assert payload["hook"] == hook
    assert payload["organization"]["login"] == place.world.organization
    assert payload["sender"]["login"] == place.world.owner
    if place.kind == "repository":
        assert payload["repository"]["url"] == f"{server.url}{place.path}"


def test_an_inactive_webhook_receives_nothing(api: Api, place: Place, receiver: Receiver) -> None:
    silent = api.hook(place, config={"url": receiver.url + "/silent"}, events=["*"])
    api.hook(place, config={"url": receiver.url + "/loud"}, events=["*"], active=True)
    published = api.post(f"{place.path}/events", json={"event": "push", "payload": {}}).json()
    assert published["deliveries"] == 1
    receiver.wait_for(2)
    assert {each.path for each in receiver.requests} == {"/hook/loud"}
    assert api.read(silent["deliveries_url"]) == []


def test_a_created_webhook_receives_the_next_event(api: Api, place: Place) -> None:
    for expected in range(1, 4):
        api.hook(place, events=["fork"], active=True)
        answer = api.post(f"{place.path}/events", json={"event": "fork", "payload": {}})
        assert answer.json()["deliveries"] == expected


def test_secrets_are_not_stored_in_plain_text(api: Api, place: Place, server: Server) -> None:
    hook = api.hook(place, config={"secret": "very-s3cret", "password": "very-s3cret"})
    api.patch(f"{hook['url']}/config", json={"secret": "very-s3cret-too", "previous_secret_expires_in": 600})

    async def rows(services: Services) -> str:
        statements = (sa.select(hooks).where(hooks.c.id == hook["id"]), sa.select(audit_log))
        return repr([dict(row) for each in statements for row in await services.database.fetch_all(each)])

    stored = server.run(rows)
    assert "hook.create" in stored
    assert "hook.update" in stored
    assert "s3cret" not in stored


# --- hook config -----------------------------------------------------------------------------------------------------
# GET and PATCH …/hooks/{hook_id}/config.


def test_the_configuration_endpoint_masks_the_secret(api: Api, place: Place) -> None:
    url = new_url()
    hook = api.hook(place, config={"url": url, "content_type": "json", "secret": "s"})
    response = api.get(f"{hook['url']}/config")
    assert response.status_code == 200
    assert response.json() == {"url": url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ({}, {}),
        ({"content_type": "form"}, {"content_type": "form"}),
        ({"content_type": ""}, {"content_type": "form"}),
        ({"content_type": None}, {"content_type": "form"}),
        ({"insecure_ssl": True}, {"insecure_ssl": "1"}),
        ({"secret": "other"}, {}),
        ({"secret": "********"}, {}),
        ({"secret": ""}, {"secret": None}),
        ({"secret": None}, {"secret": None}),
        ({"retries": "0"}, {"retries": "0"}),
        ({"max_concurrency": None}, {"max_concurrency": None}),
        ({"password": ""}, {"password": None}),
        ({"header_style": "service"}, {"header_style": "service"}),
        ({"header_style": "standard", "secret": "whsec_c2VjcmV0"}, {"header_style": "standard"}),
    ],
    ids=str,
)
def test_only_the_given_keys_change(api: Api, place: Place, body: dict[str, Any], changes: dict[str, Any]) -> None:
    config = {"content_type": "json", "secret": "s", "password": "p", "max_concurrency": "2"}
    before = api.hook(place, config=config)["config"]
    hook = api.read(place.hooks)[0]
    expected = {name: value for name, value in {**before, **changes}.items() if value is not None}
    response = api.patch(f"{hook['url']}/config", json=body)
    assert (response.status_code, response.json()) == (200, expected)
    assert api.read(hook["url"]) == {**hook, "config": expected, "updated_at": api.read(hook["url"])["updated_at"]}


def test_the_url_can_be_changed_alone(api: Api, place: Place) -> None:
    hook, url = api.hook(place, config={"secret": "s"}), new_url()
    assert api.patch(f"{hook['url']}/config", json={"url": url}).json() == {**hook["config"], "url": url}


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"url": ""}, [custom("url cannot be blank", "url")]),
        ({"url": None}, [custom("url cannot be blank", "url")]),
        ({"url": 5}, [custom("url must be a string", "url")]),
        ({"url": "nope"}, [custom(BAD_URL, "url")]),
        ({"content_type": "xml"}, [custom("content_type must be json or form", "content_type")]),
        ({"config": {}}, [custom("Invalid config attribute: config")]),
        (
            {"a": 1, "insecure_ssl": 7},
            [custom("Invalid config attribute: a"), custom("insecure_ssl must be 0 or 1", "insecure_ssl")],
        ),
    ],
    ids=str,
)
def test_a_refused_change_changes_nothing(
    api: Api, place: Place, body: dict[str, Any], faults: list[dict[str, Any]]
) -> None:
    hook = api.hook(place)
    invalid(api.patch(f"{hook['url']}/config", json={"secret": "new", **body}), *faults)
    assert api.read(hook["url"]) == hook


def test_a_change_cannot_create_a_duplicate(api: Api, place: Place) -> None:
    one, two = api.hook(place), api.hook(place)
    again = custom(f"Hook already exists on this {place.kind}")
    invalid(api.patch(f"{two['url']}/config", json={"url": one["config"]["url"]}), again)


def test_a_new_secret_is_used_at_once(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url, "secret": "one"}, active=True)
    first = receiver.wait_for(1)[0]
    api.patch(f"{hook['url']}/config", json={"secret": "two"})
    api.post(hook["ping_url"])
    second = receiver.wait_for(2)[1]
    for received, secret in ((first, b"one"), (second, b"two")):
        expected = hmac.new(secret, received.body, hashlib.sha256).hexdigest()
        assert received.headers["x-hub-signature-256"] == f"sha256={expected}"


def test_payloads_are_signed_with_both_secrets_until_the_old_one_expires(
    api: Api, place: Place, receiver: Receiver
) -> None:
    one, two, three = (f"whsec_{name}" for name in ("b25l", "dHdv", "dGhyZWVz"))
    config = {"url": receiver.url, "secret": one, "header_style": "standard"}
    hook = api.hook(place, config=config, active=True)
    assert len(receiver.wait_for(1)[0].headers["webhook-signature"].split()) == 1
    api.patch(f"{hook['url']}/config", json={"secret": two, "previous_secret_expires_in": 600})
    api.post(hook["ping_url"])
    assert len(receiver.wait_for(2)[1].headers["webhook-signature"].split()) == 2
    api.patch(f"{hook['url']}/config", json={"secret": three})
    api.post(hook["ping_url"])
    assert len(receiver.wait_for(3)[2].headers["webhook-signature"].split()) == 1


@pytest.mark.one_database
@pytest.mark.parametrize("secret", [None, "", "plain", "whsec_", "whsec_!!!", "whsec_abc", "WHSEC_c2VjcmV0"])
def test_standard_webhooks_require_a_whsec_secret(api: Api, place: Place, secret: str | None) -> None:
    expected = custom("secret must be whsec_ followed by a base64 key if header_style is standard", "secret")
    standard = {"url": new_url(), "header_style": "standard"}
    made = {**standard, "secret": secret}
    refused(api.create(place, config=made), 422, "Validation Failed", expected)
    hook = api.hook(place, config={"url": new_url(), "secret": "plain"})
    refused(api.patch(f"{hook['url']}/config", json={"header_style": "standard"}), 422, "Validation Failed", expected)
    for config in (made, {**standard, "secret": "********"}):
        refused(api.patch(hook["url"], json={"config": config}), 422, "Validation Failed", expected)
    good = api.hook(place, config={**standard, "secret": "whsec_c2VjcmV0"})
    refused(api.patch(f"{good['url']}/config", json={"secret": secret}), 422, "Validation Failed", expected)
    assert api.patch(f"{good['url']}/config", json={"retries": 1}).status_code == 200
    assert api.patch(good["url"], json={"config": {**standard, "secret": "********"}}).status_code == 200
    assert api.patch(f"{good['url']}/config", json={"header_style": "", "secret": secret}).status_code == 200


def test_the_configuration_requires_the_webhooks_owner_in_the_path(api: Api, place: Place) -> None:
    hook = api.hook(place)
    elsewhere = f"{place.other.hooks}/{hook['id']}/config"
    refused(api.get(elsewhere), 404, "Not Found")
    refused(api.patch(elsewhere, json={"secret": "x"}), 404, "Not Found")


def test_a_stored_password_is_not_sent_to_another_server(server: Server, world: World) -> None:
    config = {"url": "http://127.0.0.1:9/a", "username": "ci", "password": "s3cret"}
    with server.client(world.token) as client:
        made = client.post(f"{world.repo_path}/hooks", json={"config": config}).json()
        path = f"{world.repo_path}/hooks/{made['id']}"
        for answer in (
            client.patch(f"{path}/config", json={"url": "http://127.0.0.1:10/a"}),
            client.patch(path, json={"config": {**config, "url": "http://127.0.0.2:9/a", "password": "********"}}),
        ):
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "password"
        assert client.patch(f"{path}/config", json={"url": "http://127.0.0.1:9/b"}).status_code == 200
        moved = client.patch(f"{path}/config", json={"url": "http://127.0.0.1:10/a", "password": "new"})
        assert moved.status_code == 200


def test_a_previous_secret_requires_a_new_secret(server: Server, world: World) -> None:
    with server.client(world.token) as client:
        made = client.post(f"{world.repo_path}/hooks", json={"config": {"url": "http://127.0.0.1:9/r"}}).json()
        path = f"{world.repo_path}/hooks/{made['id']}/config"
        answer = client.patch(path, json={"previous_secret_expires_in": 60})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "previous_secret_expires_in"


@pytest.mark.parametrize("name", ["secret", "password"])
def test_a_mask_without_a_stored_value_is_refused(api: Api, place: Place, name: str) -> None:
    """If the mask were ignored, payloads would silently be unsigned or sent without a password."""
    message = f"{name} is ********, the mask of a stored {name}, but none is stored."
    wrong = custom(f"{message} Send the actual {name} or omit it.", name)
    for more in ({}, {"header_style": "service"}, {"username": "ada"}):
        invalid(api.create(place, config={name: "********", **more}), wrong)
    for mask in ("***", "*", "••••••", "●●●●", " ******** ", "* * *", "∙∙∙", "····", "⬤⬤⬤", "\uff0a\uff0a"):
        invalid(api.create(place, config={name: mask}), wrong)
    hook = api.hook(place)
    url = hook["config"]["url"]
    invalid(api.patch(hook["url"], json={"config": {"url": url, name: "********"}}), wrong)
    invalid(api.patch(f"{hook['url']}/config", json={name: "********"}), wrong)
    assert api.read(hook["url"]) == hook
    api.patch(f"{hook['url']}/config", json={name: "a stored one"})
    for body in ({"secret": "********", "password": "********"}, {name: "********"}):
        answer = api.patch(f"{hook['url']}/config", json=body)
        other = {"secret": "password", "password": "secret"}[name]
        assert answer.status_code == (422 if other in body else 200), answer.text
    assert api.patch(f"{hook['url']}/config", json={name: "•••"}).status_code == 200
    assert api.read(f"{hook['url']}/config")[name] == "********"
    api.patch(f"{hook['url']}/config", json={name: ""})
    invalid(api.patch(f"{hook['url']}/config", json={name: "********"}), wrong)


# --- hook targets ----------------------------------------------------------------------------------------------------
# The URL of a webhook is opaque: it is shown, recorded and requested exactly as it was written.


def test_every_url_is_requested_as_it_was_written(api: Api, organization: Place, receiver: Receiver) -> None:
    base = receiver.url.removesuffix("/hook")
    targets = [each for each in TARGETS if not each.startswith("//")]  # Python's own server shortens these
    hooks = {}
    for number, target in enumerate(targets):
        url = f"{base}{target}"
        config = {"url": url, "content_type": "json" if number % 2 else "form", "retries": "0"}
        hook = api.hook(organization, config=config, events=["fork"], active=True)
        assert hook["config"]["url"] == api.read(f"{hook['url']}/config")["url"] == url
        hooks[target] = hook
    arrived = receiver.wait_for(len(targets))
    assert sorted(each.path for each in arrived) == sorted(targets)
    for target in ("/q?sig=ab%2Fcd%3D&se=2026%3A01", "/a/../b", "/q?"):
        hook = hooks[target]
        [ping] = until(lambda hook=hook: api.read(hook["deliveries_url"]))  # type: ignore[misc]  # called immediately
        assert api.read(f"{hook['deliveries_url']}/{ping['id']}")["url"] == f"{base}{target}"
        assert api.post(f"{hook['deliveries_url']}/{ping['id']}/attempts").status_code == 202
        assert api.post(hook["ping_url"]).status_code == 204
    again = receiver.wait_for(len(targets) + 6)[len(targets) :]
    assert sorted({each.path for each in again}) == sorted(("/q?sig=ab%2Fcd%3D&se=2026%3A01", "/a/../b", "/q?"))


def test_unencoded_characters_are_refused_rather_than_guessed(api: Api, place: Place) -> None:
    bad = custom(BAD_URL, "url")
    for url in ("/ö", "/a b", "/%", "/%zz", '/"', "/\\", "/a\nb", "/{a}", "/q?a=|"):
        invalid(api.create(place, config={"url": f"http://127.0.0.1:9{url}"}), bad)
    for host in ("Example.COM", "XN--BCHER-KVA.example", "a_b.example"):
        url = f"https://{host}/%2f/./?a="
        made = api.hook(place, config={"url": url})
        assert made["config"]["url"] == url
    invalid(api.create(place, config={"url": "https://bücher.example/"}), bad)


def test_the_error_for_an_unusable_url_says_what_to_do(api: Api, place: Place) -> None:
    user = "url must not contain a username, password, or token. Send them as username and password of the "
    user += "configuration; they become an Authorization header."
    for authority in ("user:token@host.example", "token@host.example", ":x@host.example", "@host.example"):
        invalid(api.create(place, config={"url": f"https://{authority}/hook"}), custom(user, "url"))
    for url in ("ftp://x", "ftp://x.example/hook", "ws://x.example/", "javascript:alert(1)", "mailto:a@b.example"):
        invalid(api.create(place, config={"url": url}), custom("url must begin with http:// or https://", "url"))
