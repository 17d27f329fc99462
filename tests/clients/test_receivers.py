"""The README's webhook, configured only with a secret, delivers to receivers written for GitHub."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from githubkit import webhooks

from tests.clients import octokit
from tests.clients.documented_checks import CHECKS
from tests.clients.node_receiver import NodeReceiver
from tests.clients.support import SECRET, history, publish
from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.world import World

pytestmark = pytest.mark.one_database

README = Path(__file__).parents[2] / "README.md"
PUSH = {"ref": "refs/heads/main", "note": "Grüße, *-._~ 世界 & <b>", "commits": []}


def _config_of_the_readme(**given: Any) -> dict[str, Any]:
    """Return the configuration of the README's first webhook with another URL and secret."""
    found = re.search(r'"config": (\{[^}]*\})', README.read_text())
    assert found is not None
    config: dict[str, Any] = json.loads(found[1])
    assert config.keys() == {"url", "content_type", "secret"}
    return {**config, "secret": SECRET, **given}


def _hook(client: httpx.Client, world: World, **config: Any) -> str:
    body = {"config": _config_of_the_readme(**config), "events": ["push"]}
    answer = client.post(f"{world.repo_path}/hooks", json=body)
    assert answer.status_code == 201, answer.text
    return f"{world.repo_path}/hooks/{answer.json()['id']}"


@pytest.fixture(scope="module", params=["receiver.mjs", "probot.mjs"])
def node_receiver(request: pytest.FixtureRequest) -> Iterator[NodeReceiver]:
    """Yield the middleware of `@octokit/webhooks`, and Probot, in turn."""
    receiver = NodeReceiver(request.param)
    yield receiver
    receiver.close()


def _path_of(receiver: NodeReceiver, request: pytest.FixtureRequest) -> str:
    return f"{receiver.url}/github" if request.node.callspec.params["node_receiver"] == "receiver.mjs" else receiver.url


def test_node_receivers_accept_deliveries(
    server: Server, world: World, node_receiver: NodeReceiver, request: pytest.FixtureRequest
) -> None:
    with server.client(world.token) as client:
        hook = _hook(client, world, url=_path_of(node_receiver, request))
        ping = node_receiver.next()
        assert (ping["name"], ping["payload"]["organization"]["login"]) == ("ping", world.organization)
        publish(client, world, "push", PUSH)
        push = node_receiver.next()
    assert (push["name"], push["payload"]["note"]) == ("push", PUSH["note"])
    deliveries = history(server, world, hook, 2)
    assert [each["status"] for each in deliveries] == ["OK", "OK"]
    assert {each["guid"] for each in deliveries} == {ping["id"], push["id"]}


def test_node_receivers_refuse_another_secret(
    server: Server, world: World, node_receiver: NodeReceiver, request: pytest.FixtureRequest
) -> None:
    with server.client(world.token) as client:
        url = _path_of(node_receiver, request)
        hook = _hook(client, world, url=url, secret=f"not {SECRET}", retries="0")
    assert 400 <= history(server, world, hook, 1)[0]["status_code"] < 500


def _receive(server: Server, world: World, receiver: Receiver, **config: Any) -> list[Received]:
    """Return the requests of a ping and a push."""
    with server.client(world.token) as client:
        _hook(client, world, url=receiver.url, **config)
        publish(client, world, "push", PUSH)
    return list(receiver.wait_for(2))


def test_githubkit_verifies_deliveries(server: Server, world: World, receiver: Receiver) -> None:
    for each in _receive(server, world, receiver):
        assert webhooks.verify(SECRET, each.body, each.headers["x-hub-signature-256"])
        assert not webhooks.verify(f"not {SECRET}", each.body, each.headers["x-hub-signature-256"])
    assert webhooks.parse("ping", receiver.events("ping")[0].body).hook_id


@pytest.mark.parametrize(
    ("name", "content_type"), [(name, each) for name, (_, types) in CHECKS.items() for each in types]
)
def test_deliveries_pass_the_documented_checks(
    server: Server, world: World, receiver: Receiver, name: str, content_type: str
) -> None:
    check, _ = CHECKS[name]
    for each in _receive(server, world, receiver, content_type=content_type):
        assert check(each, SECRET) is None
        assert check(each, f"not {SECRET}") is not None


def test_service_and_github_headers_are_sent_and_recorded(server: Server, world: World, receiver: Receiver) -> None:
    with server.client(world.token) as client:
        hook = _hook(client, world, url=receiver.url)
        (ping,) = receiver.wait_for(1)
        ours = {name: value for name, value in ping.headers.items() if name.startswith("x-service-")}
        theirs = {name.replace("x-service-", "x-github-"): value for name, value in ours.items()}
        assert len(ours) == 5
        assert theirs.items() <= ping.headers.items()
        (delivery,) = history(server, world, hook, 1)
        recorded = client.get(f"{hook}/deliveries/{delivery['id']}").json()["request"]["headers"]
    kept = {name.lower(): value for name, value in recorded.items()}
    assert (ours | theirs).items() <= kept.items()
    assert kept["x-hub-signature-256"] == ping.headers["x-hub-signature-256"]


def test_the_service_header_style_omits_github_headers(server: Server, world: World, receiver: Receiver) -> None:
    for each in _receive(server, world, receiver, header_style="service"):
        assert each.headers["x-service-event"] == each.event
        assert not [name for name in each.headers if name.startswith("x-github-")]


def test_standard_webhooks_are_verified_in_node(server: Server, world: World, receiver: Receiver) -> None:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    other = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    received = _receive(server, world, receiver, header_style="standard", secret=secret)
    lines = [
        json.dumps({"secret": each, "body": base64.b64encode(sent.body).decode(), "headers": sent.headers})
        for each in (secret, other)
        for sent in received
    ]
    assert octokit.run("standard.mjs", input_text="\n".join(lines)).split() == ["true", "true", "false", "false"]
    for each in received:
        assert octokit.verified([each], secret) == [True], "GitHub's signature is sent as well"
