"""Helpers shared by the client tests: manual signature checks and the deliveries of a webhook."""

from __future__ import annotations

import hmac
from typing import Any

import httpx

from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

SECRET = "It's a Secret to Everybody"


def signed_with(received: Received, secret: str) -> bool:
    """Return whether both signatures match the exact body, following GitHub's description of them."""
    for header, digest in (("x-hub-signature-256", "sha256"), ("x-hub-signature", "sha1")):
        expected = f"{digest}={hmac.new(secret.encode(), received.body, digest).hexdigest()}"
        if not hmac.compare_digest(received.headers.get(header, ""), expected):
            return False
    return True


def unsigned(received: Received) -> bool:
    return not any(name.startswith("x-hub-signature") for name in received.headers)


def publish(client: httpx.Client, world: World, event: str, payload: dict[str, Any]) -> int:
    """Publish an event in the repository and return the number of deliveries."""
    answer = client.post(f"{world.repo_path}/events", json={"event": event, "payload": payload})
    assert answer.status_code == 202, answer.text
    return int(answer.json()["deliveries"])


def history(server: Server, world: World, hook_path: str, at_least: int) -> list[dict[str, Any]]:
    """Wait until at least `at_least` deliveries of a webhook are recorded, and return them, newest first."""

    def recorded() -> list[dict[str, Any]] | None:
        answer = client.get(f"{hook_path}/deliveries", params={"per_page": 100})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()
        return items if len(items) >= at_least else None

    with server.client(world.token) as client:
        found = until(recorded)
        assert found is not None
        return found


def arrived(receiver: Receiver, event: str) -> Received:
    """Return the first delivery of an event."""
    receiver.wait_for(lambda requests: any(each.headers.get("x-service-event") == event for each in requests))
    return receiver.events(event)[0]


def pinged(receiver: Receiver, hook_id: int) -> Received:
    """Return the ping that a new active webhook receives."""
    received = receiver.wait_for(lambda requests: any(_is_ping(each, hook_id) for each in requests))
    return next(each for each in received if _is_ping(each, hook_id))


def _is_ping(received: Received, hook_id: int) -> bool:
    return received.headers.get("x-service-event") == "ping" and received.headers["x-service-hook-id"] == str(hook_id)
