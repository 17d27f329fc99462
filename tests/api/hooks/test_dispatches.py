"""POST /repos/{owner}/{repo}/dispatches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.wire import Api, Place, custom, invalid, refused
from tests.harness.receiver import Receiver


def test_a_dispatch_is_sent_as_repository_dispatch(api: Api, repository: Place, receiver: Receiver) -> None:
    api.hook(repository, config={"url": receiver.url, "content_type": "json"}, events=["*"], active=True)
    receiver.wait_for(1)  # the ping: concurrent deliveries arrive in any order
    body = {"event_type": "deploy", "client_payload": {"to": "production", "n": 1}}
    response = api.post(f"{repository.path}/dispatches", json=body)
    assert (response.status_code, response.content) == (204, b"")
    assert "content-type" not in response.headers
    received = receiver.wait_for(2)[1]
    payload = received.payload()
    assert received.event == "repository_dispatch"
    assert list(payload) == [
        "action",
        "branch",
        "client_payload",
        "installation",
        "repository",
        "organization",
        "sender",
    ]
    assert (payload["action"], payload["branch"]) == ("deploy", "main")
    assert payload["client_payload"] == body["client_payload"]


def test_the_client_payload_is_optional(api: Api, repository: Place, receiver: Receiver) -> None:
    api.hook(repository, config={"url": receiver.url, "content_type": "json"}, events=["*"], active=True)
    receiver.wait_for(1)
    assert api.post(f"{repository.path}/dispatches", json={"event_type": "x" * 100}).status_code == 204
    assert receiver.wait_for(2)[1].payload()["client_payload"] == {}


@pytest.mark.parametrize("body", [{}, {"event_type": ""}, {"event_type": "x" * 101}, {"event_type": "a\0"}], ids=str)
def test_an_invalid_event_type_is_refused(api: Api, repository: Place, body: dict[str, Any]) -> None:
    fault = custom("event_type must have 1 to 100 characters", "event_type")
    invalid(api.post(f"{repository.path}/dispatches", json=body), fault)


def test_a_client_payload_has_at_most_ten_properties(api: Api, repository: Place) -> None:
    body = {"event_type": "x", "client_payload": {str(number): number for number in range(10)}}
    assert api.post(f"{repository.path}/dispatches", json=body).status_code == 204
    body["client_payload"]["10"] = 10  # type: ignore[index]  # the object above
    fault = custom("client_payload must have at most 10 properties", "client_payload")
    invalid(api.post(f"{repository.path}/dispatches", json=body), fault)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"event_type": 1}, "For 'properties/event_type', 1 is not a string."),
        ({"event_type": None}, "For 'properties/event_type', nil is not a string."),
        ({"event_type": "x", "client_payload": []}, "For 'properties/client_payload', [] is not an object."),
        ({"event_type": "x", "client_payload": None}, "For 'properties/client_payload', nil is not an object."),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused(
    api: Api, repository: Place, body: dict[str, Any], complaint: str
) -> None:
    refused(api.post(f"{repository.path}/dispatches", json=body), 422, f"Invalid request.\n\n{complaint}")


def test_organizations_have_no_dispatches(api: Api, organization: Place) -> None:
    refused(api.post(f"{organization.path}/dispatches", json={"event_type": "x"}), 404, "Not Found")
