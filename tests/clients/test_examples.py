"""Every known GitHub payload is published and received unchanged, with valid signatures."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.clients import octokit
from tests.clients.octokit_examples import load_examples
from tests.clients.support import SECRET, signed_with
from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from tests.harness.world import World

pytestmark = pytest.mark.one_database

IN_FLIGHT = 8
CONTEXT = ("repository", "organization", "sender")

Example = tuple[str, dict[str, Any]]


def text_of(value: object) -> str:
    """Return compact JSON, which is identical for two values only if their keys are in the same order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def publish_all(server: Server, token: str, root: str, examples: Sequence[Example]) -> list[int]:
    """Publish the events, several at a time, and return the number of deliveries of each."""
    places = asyncio.Semaphore(IN_FLIGHT)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:

        async def publish(event: str, payload: dict[str, Any]) -> int:
            async with places:
                answer = await client.post(f"{root}/events", json={"event": event, "payload": payload})
            assert answer.status_code == 202, f"{event}: {answer.text}"
            return int(answer.json()["deliveries"])

        return await asyncio.gather(*(publish(*each) for each in examples))


def create_hooks(server: Server, world: World, root: str, url: str) -> None:
    """Create one webhook for JSON and one for forms, both for every event, each with its own path."""
    with server.client(world.token) as client:
        for content_type in ("json", "form"):
            config = {"url": f"{url}/{content_type}", "content_type": content_type, "secret": SECRET}
            answer = client.post(f"{root}/hooks", json={"name": "web", "events": ["*"], "config": config})
            assert answer.status_code == 201, answer.text


def check(received: Sequence[Received], examples: Sequence[Example], context: Sequence[str]) -> list[dict[str, Any]]:
    """Check that the requests are exactly these examples, and return what was added to each payload."""
    expected = Counter(
        (event, text_of(payload), tuple(name for name in context if name not in payload)) for event, payload in examples
    )
    additions = []
    for each in received:
        payload = each.payload()
        items, first = list(payload.items()), max(0, len(payload) - len(context))
        splits = [(dict(items[:at]), tuple(list(payload)[at:])) for at in range(first, len(items) + 1)]
        match = next((split for split in splits if expected[each.event, text_of(split[0]), split[1]]), None)
        assert match, f"{each.event} is not as it was published: {each.body[:2000]!r}"
        expected[each.event, text_of(match[0]), match[1]] -= 1
        additions.append({name: payload[name] for name in match[1]})
    assert not +expected, "some did not arrive"
    return additions


def check_all(receiver: Receiver, world: World, examples: Sequence[Example], context: Sequence[str]) -> None:
    requests = receiver.wait_for(2 * len(examples) + 2, timeout_s=3 * WAIT_S)
    assert len(requests) == 2 * len(examples) + 2, "each once, and two pings"
    assert all(signed_with(each, SECRET) for each in requests)
    guids = Counter(each.guid for each in requests)
    assert set(guids.values()) == {1}
    for content_type in ("json", "form"):
        arrived = [each for each in requests if each.path.endswith(content_type) and each.event != "ping"]
        arrived += [each for each in requests if each.path.endswith(content_type) and each.event == "ping"][1:]
        for added in check(arrived, examples, context):
            for name, value in added.items():
                assert (
                    value["full_name" if name == "repository" else "login"]
                    == {
                        "repository": world.full_name,
                        "organization": world.organization,
                        "sender": world.owner,
                    }[name]
                )
    plain = [each for each in requests if each.path.endswith("json")]
    for each in plain:
        assert each.headers["content-type"] == "application/json"
        assert each.body == text_of(json.loads(each.body)).encode(), "compact, and no character escaped without need"
    assert octokit.verified(plain, SECRET) == [True] * len(plain)
    plain[0].body += b" "
    assert octokit.verified(plain[:1], SECRET) == [False]


async def test_every_example_is_delivered_unchanged(server: Server, world: World, receiver: Receiver) -> None:
    examples = load_examples()
    assert len(examples) == 329
    assert len({event for event, _ in examples}) == 58
    create_hooks(server, world, world.repo_path, receiver.url)
    receiver.wait_for(2)  # the pings, to distinguish them from those among the examples
    counts = await publish_all(server, world.token, world.repo_path, examples)
    assert set(counts) == {2}
    check_all(receiver, world, examples, CONTEXT)


async def test_examples_of_an_organization_are_delivered_unchanged(
    server: Server, world: World, receiver: Receiver
) -> None:
    examples = load_examples()[::10]
    create_hooks(server, world, world.org_path, receiver.url)
    receiver.wait_for(2)
    counts = await publish_all(server, world.token, world.org_path, examples)
    assert set(counts) == {2}
    check_all(receiver, world, examples, ("organization", "sender"))
