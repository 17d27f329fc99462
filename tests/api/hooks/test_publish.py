"""POST /repos/{owner}/{repo}/events and /orgs/{org}/events."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.wire import Api, Place, invalid, refused, unknown_event
from tests.harness.apps import make_app, user_token
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

PUSH = {"event": "push", "payload": {"ref": "refs/heads/main"}}


def event_fault(field: str, message: str, code: str = "custom") -> dict[str, Any]:
    return {"resource": "Event", "field": field, "code": code, "message": message}


def test_the_response_contains_the_id_and_the_number_of_deliveries(api: Api, place: Place) -> None:
    response = api.post(f"{place.path}/events", json=PUSH)
    assert response.status_code == 202
    assert set(response.json()) == {"id", "deliveries"}
    assert response.json()["deliveries"] == 0
    assert isinstance(response.json()["id"], str)


def test_an_event_is_sent_to_every_matching_webhook(api: Api, place: Place) -> None:
    api.hook(place, events=["push"], active=True)
    api.hook(place, events=["*"], active=True)
    api.hook(place, events=["fork"], active=True)
    api.hook(place, events=["push"])  # not active
    api.hook(place.other, events=["push"], active=True)
    # Events of a repository are also sent to its organization's webhooks, but not the reverse.
    expected = 3 if place.kind == "repository" else 2
    assert api.post(f"{place.path}/events", json=PUSH).json()["deliveries"] == expected


def test_the_payload_is_sent_with_action_and_context(
    api: Api, place: Place, receiver: Receiver, server: Server
) -> None:
    api.hook(place, config={"url": receiver.url, "content_type": "json"}, events=["issues"], active=True)
    receiver.wait_for(1)  # the ping: concurrent deliveries arrive in any order
    payload = {"issue": {"title": "Größe 'x' 😀", "n": 1.50, "big": 2**60}, "empty": {}, "null": None}
    api.post(f"{place.path}/events", json={"event": "issues", "action": "opened", "payload": payload})
    received = receiver.wait_for(2)[1]
    sent = received.payload()
    around = ["repository", "organization"] if place.kind == "repository" else ["organization"]
    assert list(sent) == [*payload, "action", *around, "sender"]
    assert {name: sent[name] for name in payload} == payload
    assert (sent["action"], sent["sender"]["login"]) == ("opened", place.world.owner)
    assert sent["organization"]["url"] == f"{server.url}{place.world.org_path}"
    assert "Größe 'x' 😀".encode() in received.body  # not escaped
    assert received.body == json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode()


def test_members_of_the_published_payload_are_kept(api: Api, place: Place, receiver: Receiver) -> None:
    api.hook(place, config={"url": receiver.url, "content_type": "json"}, events=["issues"], active=True)
    receiver.wait_for(1)
    payload = {"sender": 1, "organization": None, "repository": {"x": 2}, "action": "closed"}
    api.post(f"{place.path}/events", json={"event": "issues", "payload": payload})
    assert receiver.wait_for(2)[1].payload() == payload


@pytest.mark.parametrize(
    ("body", "action"),
    [
        ({"payload": {}}, None),
        ({"payload": {"action": "opened"}}, "opened"),
        ({"payload": {"action": 5}}, None),
        ({"payload": {"action": "opened"}, "action": "closed"}, "closed"),
        ({"payload": {}, "action": None}, None),
    ],
    ids=str,
)
def test_the_action_of_the_body_or_payload_is_recorded(
    api: Api, place: Place, receiver: Receiver, body: dict[str, Any], action: str | None
) -> None:
    hook = api.hook(place, config={"url": receiver.url}, events=["issues"])
    api.patch(hook["url"], json={"active": True})
    api.post(f"{place.path}/events", json={"event": "issues", **body})
    receiver.wait_for(1)
    [item] = until(lambda: api.read(hook["deliveries_url"]))
    assert item["action"] == action


def test_apps_cannot_publish_workhooks_own_events(server: Server, world: World) -> None:
    """An installation may publish only code hosting events, in repositories as in organizations."""
    app = make_app(server, world, permissions={"organization_hooks": "write", "repository_hooks": "write"})
    asking = {
        "installation": app.token(server),
        "a user by the app": user_token(server, app, world.owner),
        "an owner": world.token,
    }
    for caller, token in asking.items():
        with server.client(token) as client:
            for path in (world.org_path, world.repo_path):
                for event in ("invoice", "task", "push"):
                    answer = client.post(f"{path}/events", json={"event": event, "payload": {}})
                    by_itself = caller == "installation" and event != "push"
                    assert answer.status_code == (403 if by_itself else 202), (caller, path, event)
                    if by_itself:
                        assert answer.json()["message"].startswith(f"Must have admin rights to publish {event} events")


def test_publishing_an_id_again_creates_no_event(api: Api, place: Place) -> None:
    api.hook(place, events=["push"], active=True)
    body = {**PUSH, "id": "build-17"}
    assert api.post(f"{place.path}/events", json=body).json() == {"id": "build-17", "deliveries": 1}
    assert api.post(f"{place.path}/events", json=body).json() == {"id": "build-17", "deliveries": 1}
    [hook] = api.read(place.hooks)
    api.hook(place, events=["push"], active=True)  # it did not get the event
    assert api.delete(hook["url"]).status_code == 204
    assert api.post(f"{place.path}/events", json=body).json() == {"id": "build-17", "deliveries": 1}
    used = event_fault("id", "Another event was published with this ID within 24 hours")
    changes: tuple[dict[str, Any], ...] = ({"payload": {}}, {"event": "fork"}, {"action": "x"})
    for differs in changes:
        invalid(api.post(f"{place.path}/events", json={**body, **differs}), used)
    assert api.post(f"{place.other.path}/events", json={**body, "payload": {}}).status_code == 202


def test_the_order_of_payload_members_is_irrelevant_to_the_id(api: Api, place: Place) -> None:
    for payload in ({"ref": "a", "head": {"x": 1, "y": 2}}, {"head": {"y": 2, "x": 1}, "ref": "a"}):
        assert api.post(f"{place.path}/events", json={**PUSH, "payload": payload, "id": "x"}).status_code == 202
    invalid(
        api.post(f"{place.path}/events", json={**PUSH, "payload": {"ref": "a", "head": {"x": 2, "y": 1}}, "id": "x"}),
        event_fault("id", "Another event was published with this ID within 24 hours"),
    )


def test_concurrent_requests_with_one_id_create_one_event(api: Api, place: Place) -> None:
    hook = api.hook(place, events=["push"], active=True)
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(api.post, f"{place.path}/events", json={**PUSH, "id": "x"}) for _ in range(8)]
    answers = [each.result() for each in made]
    assert {each.status_code for each in answers} == {202}
    assert [each.json() for each in answers] == [{"id": "x", "deliveries": 1}] * 8
    pushes = until(lambda: api.read(f"{hook['deliveries_url']}?event=push"))
    assert len({each["guid"] for each in pushes}) == 1, "there was one event"


@pytest.mark.parametrize("name", ["x" * 128, "ö", "a/b?c", " "])
def test_valid_ids_are_accepted(api: Api, place: Place, name: str) -> None:
    assert api.post(f"{place.path}/events", json={**PUSH, "id": name}).json()["id"] == name


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, [event_fault(each, f"{each} is required", "missing_field") for each in ("event", "payload")]),
        ({"event": "push"}, [event_fault("payload", "payload is required", "missing_field")]),
        ({"event": "nope", "payload": {}}, [event_fault("event", unknown_event("nope"))]),
        ({"event": "order.paid", "payload": {}}, [event_fault("event", unknown_event("order.paid"))]),
        ({"event": "*", "payload": {}}, [event_fault("event", unknown_event("*"))]),
        ({**PUSH, "id": ""}, [event_fault("id", "id must be 1 to 128 characters long")]),
        ({**PUSH, "id": "x" * 129}, [event_fault("id", "id must be 1 to 128 characters long")]),
        ({**PUSH, "id": "a\0"}, [event_fault("id", "id must not contain NUL")]),
        ({**PUSH, "action": "a\0"}, [event_fault("action", "action must not contain NUL")]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_an_invalid_event_is_refused(
    api: Api, place: Place, body: dict[str, Any], faults: list[dict[str, Any]]
) -> None:
    invalid(api.post(f"{place.path}/events", json=body), *faults)


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"event": 1, "payload": {}}, "For 'properties/event', 1 is not a string."),
        ({"event": "push", "payload": []}, "For 'properties/payload', [] is not an object."),
        ({"event": "push", "payload": None}, "For 'properties/payload', nil is not an object."),
        ({**PUSH, "action": 1}, "For 'properties/action', 1 is not a string."),
        ({**PUSH, "id": 17}, "For 'properties/id', 17 is not a string."),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused(api: Api, place: Place, body: dict[str, Any], complaint: str) -> None:
    refused(api.post(f"{place.path}/events", json=body), 422, f"Invalid request.\n\n{complaint}")


def test_a_body_has_at_most_25_megabytes(api: Api, repository: Place) -> None:
    limit = 25 * 1024 * 1024
    frame = json.dumps({"event": "push", "payload": {"text": ""}}).encode()
    head, tail = frame[:-3], frame[-3:]
    whole = head + b"x" * (limit - len(frame)) + tail
    assert len(whole) == limit
    assert api.post(f"{repository.path}/events", content=whole).status_code == 202
    refused(
        api.post(f"{repository.path}/events", content=whole + b" "),
        413,
        f"The request body is larger than {limit} bytes.",
    )


def test_a_payload_has_at_most_100_levels(api: Api, place: Place) -> None:
    deep = b'{"event":"push","payload":{"a":' + b"[" * 98 + b"]" * 98 + b"}}"
    assert api.post(f"{place.path}/events", content=deep).status_code == 202
    for levels in (99, 975, 200_000):
        deeper = b'{"event":"push","payload":{"a":' + b"[" * levels + b"]" * levels + b"}}"
        message = "Problems parsing JSON: lists and objects may be nested 100 levels deep"
        refused(api.post(f"{place.path}/events", content=deeper), 400, message)


@pytest.mark.parametrize("number", ["1E400", "-1e309", "1" * 400, "9" * 5_000])
def test_a_number_too_large_for_a_double_is_refused(api: Api, place: Place, number: str) -> None:
    message = "Problems parsing JSON: a number is too large for a double. Send it as text"
    body = '{"event":"push","payload":{"a":[%s]}}'
    refused(api.post(f"{place.path}/events", content=body % number), 400, message)
    assert api.post(f"{place.path}/events", content=body % f'"{number}"').status_code == 202


@pytest.mark.parametrize("value", ["NaN", "-Infinity", r'"\ud800"', "01", "1.", "'a'"])
def test_invalid_json_is_refused(api: Api, place: Place, value: str) -> None:
    body = f'{{"event":"push","payload":{{"a":{value}}}}}'
    refused(api.post(f"{place.path}/events", content=body), 400, "Problems parsing JSON")


def test_large_integers_and_repeated_names_are_accepted(api: Api, place: Place) -> None:
    """As with GitHub, an integer keeps its digits and the last of two members with one name counts."""
    body = b'{"event":"push","payload":{"a":123456789012345678901234567890,"b":1,"b":2,"c":1e-400}}'
    assert api.post(f"{place.path}/events", content=body).status_code == 202
