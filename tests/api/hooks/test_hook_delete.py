"""DELETE …/hooks/{hook_id}."""

from __future__ import annotations

from tests.api.wire import Api, Place, refused
from tests.harness.receiver import Receiver


def test_a_webhook_is_deleted(api: Api, place: Place) -> None:
    hook, other = api.hook(place), api.hook(place)
    response = api.delete(hook["url"])
    assert (response.status_code, response.content) == (204, b"")
    assert "content-type" not in response.headers
    expected = "admin:repo_hook, repo" if place.kind == "repository" else "admin:org_hook"
    assert response.headers["x-accepted-oauth-scopes"] == expected
    assert api.read(place.hooks) == [other]


def test_every_endpoint_of_a_deleted_webhook_is_not_found(api: Api, place: Place) -> None:
    hook = api.hook(place)
    assert api.delete(hook["url"]).status_code == 204
    for method, path in (
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/config"), ("PATCH", "/config"), ("POST", "/pings"),
        ("GET", "/deliveries"), ("GET", "/deliveries/1"), ("POST", "/deliveries/1/attempts"),
        ("POST", "/deliveries/redeliver"), ("GET", "/health"),
    ):  # fmt: skip
        refused(api.request(method, hook["url"] + path), 404, "Not Found")


def test_a_deleted_webhook_can_be_created_again(api: Api, place: Place) -> None:
    hook = api.hook(place)
    api.delete(hook["url"])
    again = api.hook(place, config={"url": hook["config"]["url"]})
    assert again["id"] > hook["id"]  # IDs are never reused


def test_a_deleted_webhook_receives_nothing(api: Api, place: Place, receiver: Receiver) -> None:
    gone = api.hook(place, config={"url": receiver.url + "/gone"}, events=["fork"], active=True)
    receiver.wait_for(1)
    api.delete(gone["url"])
    assert api.post(f"{place.path}/events", json={"event": "fork", "payload": {}}).json()["deliveries"] == 0


def test_deletion_requires_the_webhooks_owner_in_the_path(api: Api, place: Place) -> None:
    hook = api.hook(place)
    refused(api.delete(f"{place.other.hooks}/{hook['id']}"), 404, "Not Found")
    assert api.read(hook["url"]) == hook
