"""PATCH …/hooks/{hook_id}."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.api.wire import BAD_URL, SECONDS, Api, Place, custom, invalid, new_url, refused, unknown_event
from tests.harness.receiver import Receiver

FULL = {
    "content_type": "json", "secret": "s3cret", "insecure_ssl": "1", "username": "u", "password": "p",
    "header_style": "github", "retries": "2", "max_concurrency": "3", "rate_limit": "4",
}  # fmt: skip


def shown(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, **{name: "********" for name in ("secret", "password") if name in config}}


def test_the_response_is_the_changed_webhook(api: Api, place: Place) -> None:
    before = api.hook(place, config=FULL)
    response = api.patch(before["url"], json={"active": True, "events": ["fork"]})
    assert response.status_code == 200
    after = response.json()
    assert re.fullmatch(SECONDS, after["updated_at"])
    assert after == {**before, "active": True, "events": ["fork"], "updated_at": after["updated_at"]}
    assert list(after) == list(before)
    assert api.read(before["url"]) == after


@pytest.mark.parametrize("body", [{}, {"config": {}}, {"name": "bob"}, {"foo": 1}, {"add_events": []}], ids=str)
def test_a_body_without_changes_changes_nothing(api: Api, place: Place, body: dict[str, Any]) -> None:
    before = api.hook(place, config=FULL, events=["fork"])
    response = api.patch(before["url"], json=body)
    assert (response.status_code, response.json()) == (200, before)


def test_no_body_changes_nothing(api: Api, place: Place) -> None:
    before = api.hook(place)
    assert api.patch(before["url"]).json() == before


def test_a_configuration_replaces_the_old_one(api: Api, place: Place) -> None:
    hook = api.hook(place, config=FULL)
    url = new_url()
    after = api.patch(hook["url"], json={"config": {"url": url}}).json()
    assert after["config"] == {"url": url, "content_type": "form", "insecure_ssl": "0"}
    assert after == api.read(hook["url"])


def test_a_configuration_without_a_url_keeps_it_only_in_repositories(api: Api, place: Place) -> None:
    hook = api.hook(place, config=FULL)
    response = api.patch(hook["url"], json={"config": {"content_type": "form"}})
    if place.kind == "organization":
        invalid(response, custom("url cannot be blank", "url"))
        assert api.read(hook["url"]) == hook
    else:
        url = hook["config"]["url"]
        assert response.json()["config"] == {"url": url, "content_type": "form", "insecure_ssl": "0"}


def test_a_masked_secret_keeps_the_stored_one(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url, "secret": "s3cret", "password": "p"}, active=True)
    [first] = receiver.wait_for(1)
    masked = {"url": receiver.url, "secret": "********", "password": "********", "content_type": "json"}
    after = api.patch(hook["url"], json={"config": masked}).json()
    assert after["config"] == {**masked, "insecure_ssl": "0"}
    api.post(hook["ping_url"])
    second = receiver.wait_for(2)[1]
    assert first.headers["authorization"] == second.headers["authorization"]
    assert "x-hub-signature-256" in second.headers


def test_removing_the_secret_ends_signing(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url, "secret": "s3cret"}, active=True)
    assert "x-hub-signature-256" in receiver.wait_for(1)[0].headers
    api.patch(hook["url"], json={"config": {"url": receiver.url}})
    api.post(hook["ping_url"])
    unsigned = receiver.wait_for(2)[1].headers
    assert "x-hub-signature-256" not in unsigned
    assert "x-hub-signature" not in unsigned


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        (["push"], {"events": ["fork", "issues"]}, ["fork", "issues"]),
        (["fork"], {"events": []}, ["push"]),
        (["push"], {"events": ["*"]}, ["*"]),
        (["push"], {"events": ["fork"], "add_events": ["issues"], "remove_events": ["fork"]}, ["fork"]),
        (["push"], {"add_events": ["issues"]}, ["push", "issues"]),
        (["push"], {"add_events": ["push", "issues", "issues"]}, ["push", "issues"]),
        (["push", "fork"], {"remove_events": ["push"]}, ["fork"]),
        (["push"], {"remove_events": ["push"]}, []),
        (["push"], {"remove_events": ["issues", "whatever"]}, ["push"]),
        # Removals precede additions.
        (["push", "fork"], {"remove_events": ["push"], "add_events": ["push"]}, ["fork", "push"]),
        (["push"], {"remove_events": ["push"], "add_events": ["issues"]}, ["issues"]),
    ],
    ids=str,
)
def test_events_can_be_replaced_added_and_removed(
    api: Api, repository: Place, before: list[str], body: dict[str, Any], after: list[str]
) -> None:
    hook = api.hook(repository, events=before)
    assert api.patch(hook["url"], json=body).json()["events"] == after == api.read(hook["url"])["events"]


def test_an_organization_ignores_add_events_and_remove_events(api: Api, organization: Place) -> None:
    hook = api.hook(organization, events=["push"])
    body = {"add_events": ["issues"], "remove_events": "of the wrong type"}
    assert api.patch(hook["url"], json=body).json() == hook
    assert api.patch(hook["url"], json={"events": ["issues"]}).json()["events"] == ["issues"]


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"events": ["xxx"]}, [custom(unknown_event("xxx"))]),
        ({"add_events": ["xxx"]}, [custom(unknown_event("xxx"))]),
        ({"config": {"url": ""}}, [custom("url cannot be blank", "url")]),
        ({"config": {"url": "nope"}}, [custom(BAD_URL, "url")]),
        ({"config": {"nope": 1, "url": "http://127.0.0.1/"}}, [custom("Invalid config attribute: nope")]),
    ],
    ids=str,
)
def test_a_refused_change_changes_nothing(
    api: Api, repository: Place, body: dict[str, Any], faults: list[dict[str, Any]]
) -> None:
    hook = api.hook(repository)
    invalid(api.patch(hook["url"], json={"active": True, **body}), *faults)
    assert api.read(hook["url"]) == hook


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"events": None}, "For 'properties/events', nil is not an array."),
        ({"active": 1}, "For 'properties/active', 1 is not a boolean."),
        ({"name": None}, "For 'properties/name', nil is not a string."),
        ({"config": None}, "For 'properties/config', nil is not an object."),
        ({"add_events": "push"}, "For 'properties/add_events', \"push\" is not an array."),
        ({"remove_events": [None]}, "For 'properties/remove_events/items', nil is not a string."),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused(
    api: Api, repository: Place, body: dict[str, Any], complaint: str
) -> None:
    hook = api.hook(repository)
    refused(api.patch(hook["url"], json=body), 422, f"Invalid request.\n\n{complaint}")


def test_a_change_cannot_create_a_duplicate(api: Api, place: Place) -> None:
    one, two = api.hook(place, events=["push"]), api.hook(place, events=["fork"])
    invalid(
        api.patch(two["url"], json={"config": {"url": one["config"]["url"]}, "events": ["push"]}),
        custom(f"Hook already exists on this {place.kind}"),
    )
    assert api.patch(two["url"], json={"config": {"url": one["config"]["url"]}}).status_code == 200


def test_a_webhook_can_be_activated_and_deactivated(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url}, events=["fork"])
    event = {"event": "fork", "payload": {}}
    assert api.post(f"{place.path}/events", json=event).json()["deliveries"] == 0
    assert api.patch(hook["url"], json={"active": True}).json()["active"] is True
    assert api.post(f"{place.path}/events", json=event).json()["deliveries"] == 1
    assert [each.event for each in receiver.wait_for(1)] == ["fork"]  # activation sends no ping
    assert api.patch(hook["url"], json={"active": False}).json()["active"] is False
    assert api.post(f"{place.path}/events", json=event).json()["deliveries"] == 0


def test_changes_require_the_webhooks_owner_in_the_path(api: Api, place: Place) -> None:
    hook = api.hook(place)
    refused(api.patch(f"{place.other.hooks}/{hook['id']}", json={"active": True}), 404, "Not Found")
    refused(api.patch(f"{place.hooks}/999999999", json={}), 404, "Not Found")
    assert api.read(hook["url"])["active"] is False
