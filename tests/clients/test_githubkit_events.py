"""Deliveries are parsed by githubkit's webhook models, which refuse a payload that lacks a key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from githubkit import webhooks
from pydantic import ValidationError

from tests.clients.octokit_examples import load_examples
from tests.clients.support import SECRET, publish
from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.world import World
from workhook.events.catalog import CATALOG

pytestmark = pytest.mark.one_database


def _hook(client: httpx.Client, root: str, receiver: Receiver, *events: str) -> None:
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET}
    answer = client.post(f"{root}/hooks", json={"name": "web", "config": config, "events": list(events)})
    assert answer.status_code == 201, answer.text


def _parsed(received: Received) -> Any:
    assert webhooks.verify(SECRET, received.body, received.headers["x-hub-signature-256"])
    return webhooks.parse(received.headers["x-github-event"], received.body)


def _root(world: World, kind: str) -> str:
    return world.repo_path if kind == "repository" else world.org_path


# Keys that GitHub's JSON schemas of payloads require, but not these models.
REQUIRED = {"has_downloads", "is_template", "web_commit_signoff_required", "custom_properties"}


@pytest.mark.parametrize("kind", ["repository", "organization"])
def test_a_ping_is_parsed(server: Server, world: World, receiver: Receiver, kind: str) -> None:
    with server.client(world.token) as client:
        _hook(client, _root(world, kind), receiver, "star")
    (ping,) = receiver.wait_for(1)
    parsed = _parsed(ping)
    assert parsed.organization.login == world.organization
    assert parsed.organization.events_url == f"{server.url}/orgs/{world.organization}/events"
    assert parsed.sender.login == world.owner
    pictures = [parsed.organization.avatar_url, parsed.sender.avatar_url]
    if kind == "repository":
        assert parsed.repository.full_name == f"{world.organization}/{world.repository}"
        assert ping.payload()["repository"].keys() >= REQUIRED
        pictures.append(parsed.repository.owner.avatar_url)
    assert set(pictures) == {f"{server.url}/static/icon.svg"}, "octocrab parses it as a URL, which cannot be empty"


WHOLE_ORGANIZATION = {
    "login", "id", "node_id", "url", "repos_url", "events_url", "hooks_url", "issues_url", "members_url",
    "public_members_url", "avatar_url", "description",
}  # fmt: skip


def test_organization_events_describe_the_organization_completely(
    server: Server, world: World, receiver: Receiver
) -> None:
    with server.client(world.token) as client:
        _hook(client, world.org_path, receiver, "*")
        body = {"title": "Care", "organization": world.organization}
        assert client.post("/api/v1/services", json=body).status_code == 200
        assert client.post("/api/v1/projects", json={**body, "title": "New"}).status_code == 200
        publish(client, world, "star", {"action": "created"})
    for received in receiver.wait_for(4):
        organization = json.loads(received.body)["organization"]
        assert organization.keys() >= WHOLE_ORGANIZATION, received.event


def _dispatch(client: httpx.Client, world: World) -> None:
    answer = client.post(f"{world.repo_path}/dispatches", json={"event_type": "deploy", "client_payload": {"to": "b"}})
    assert answer.status_code == 204, answer.text


def test_a_dispatch_differs_only_in_its_missing_installation(server: Server, world: World, receiver: Receiver) -> None:
    with server.client(world.token) as client:
        _hook(client, world.repo_path, receiver, "*")  # webhooks cannot subscribe to this event by name
        _dispatch(client, world)
    receiver.wait_for(lambda requests: len(requests) == 2)
    (dispatch,) = receiver.events("repository_dispatch")
    payload = json.loads(dispatch.body)
    assert payload["installation"] is None, "no app made the webhook"
    with pytest.raises(ValidationError) as caught:  # GitHub describes only payloads sent to its own apps
        webhooks.parse("repository_dispatch", dispatch.body)
    assert {each["loc"][0] for each in caught.value.errors()} == {"installation"}
    told = {**payload, "installation": {"id": 1, "node_id": "I_1"}}
    parsed = webhooks.parse("repository_dispatch", json.dumps(told).encode())
    assert parsed.client_payload is not None


def _parses(event: str, payload: Mapping[str, Any]) -> bool:
    try:
        webhooks.parse(event, json.dumps(payload).encode())
    except ValidationError:
        return False
    return True


ADDED = ("repository", "organization", "sender")
READABLE_MIN = 100


@pytest.mark.whole
def test_members_added_to_published_events_are_complete(server: Server, world: World, receiver: Receiver) -> None:
    """Publish every example that the models can parse, without the members that the server adds."""
    every = [(event, payload) for event, payload in load_examples() if event in CATALOG and _parses(event, payload)]
    assert len(every) > READABLE_MIN
    with server.client(world.token) as client:
        _hook(client, world.org_path, receiver, "*")
        for event, payload in every:
            kept = {name: value for name, value in payload.items() if name not in ADDED}
            root = world.repo_path if "repository" in payload else world.org_path
            answer = client.post(f"{root}/events", json={"event": event, "payload": kept})
            assert answer.status_code == 202, f"{event}: {answer.text}"
    arrived = receiver.wait_for(len(every) + 1)
    unread = [each.event for each in arrived if not _parses(each.event, json.loads(each.body))]
    assert unread == []
