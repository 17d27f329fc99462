"""The unmodified Octokit: its REST client against the server, and its webhook library as the receiver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients import octokit
from tests.clients.node_receiver import NodeReceiver
from tests.clients.support import SECRET, history, publish
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World

pytestmark = pytest.mark.one_database


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_the_rest_client_manages_webhooks(server: Server, world: World, receiver: Receiver, prefix: str) -> None:
    octokit.run(
        "rest.mjs",
        base_url=server.url + prefix,
        token=world.token,
        owner=world.organization,
        repo=world.repository,
        receiver=receiver.url,
    )
    assert {each.path for each in receiver.requests} == {"/hook/repository", "/hook/organization"}
    assert octokit.verified(receiver.requests, "s3cret") == [True] * 6


@pytest.fixture(scope="module")
def node_receiver() -> Iterator[NodeReceiver]:
    receiver = NodeReceiver("receiver.mjs")
    yield receiver
    receiver.close()


def test_the_receiver_verifies_deliveries(server: Server, world: World, node_receiver: NodeReceiver) -> None:
    payload = {"action": "opened", "issue": {"title": 'Zoë 世界 \u2028 \\ " </script>'}}
    hooks = []
    with server.client(world.token) as client:
        for style in ("github", None):
            url = f"{node_receiver.url}/{style or 'service'}"
            config = {"url": url, "content_type": "json", "secret": SECRET, "header_style": style}
            answer = client.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["issues"]})
            assert answer.status_code == 201, answer.text
            hooks.append(f"{world.repo_path}/hooks/{answer.json()['id']}")
            ping = node_receiver.next()
            assert (ping["name"], ping["payload"]["hook_id"]) == ("ping", answer.json()["id"])
        assert publish(client, world, "issues", payload) == 2
    events = [node_receiver.next(), node_receiver.next()]
    for event in events:
        assert event["name"] == "issues"
        assert {name: event["payload"][name] for name in payload} == payload
        assert event["payload"]["repository"]["full_name"] == world.full_name
    deliveries = [history(server, world, hook, 2) for hook in hooks]
    assert {each["guid"] for items in deliveries for each in items if each["event"] == "issues"} == {
        each["id"] for each in events
    }
    assert {each["status"] for items in deliveries for each in items} == {"OK"}


@pytest.mark.parametrize("style", ["github", None])
def test_the_receiver_refuses_another_secret(
    server: Server, world: World, node_receiver: NodeReceiver, style: str | None
) -> None:
    config = {"content_type": "json", "secret": f"not {SECRET}", "header_style": style, "retries": "0"}
    with server.client(world.token) as client:
        url = f"{node_receiver.url}/{style or 'service'}"
        answer = client.post(f"{world.repo_path}/hooks", json={"config": {**config, "url": url}})
        hook = f"{world.repo_path}/hooks/{answer.json()['id']}"
        assert history(server, world, hook, 1)[0]["status"] == "Invalid HTTP Response: 400"
        # With the right secret, Octokit accepts the same delivery.
        client.patch(f"{hook}/config", json={"secret": SECRET})
        first = history(server, world, hook, 1)[0]
        assert client.post(f"{hook}/deliveries/{first['id']}/attempts").status_code == 202
    event = node_receiver.next()
    assert (event["name"], event["id"]) == ("ping", first["guid"])
