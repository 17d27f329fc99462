"""Webhooks with `header_style=standard`, verified by the Standard Webhooks library."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.clients.support import publish
from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

pytestmark = pytest.mark.one_database


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


def verifies(received: Received, secret: str) -> bool:
    try:
        Webhook(secret).verify(received.body, received.headers, json_parse=False)
    except WebhookVerificationError:
        return False
    return True


def create(client: httpx.Client, root: str, url: str, **config: Any) -> str:
    """Create a webhook for star events and return its path."""
    config = {"url": url, "content_type": "json", "header_style": "standard", **config}
    answer = client.post(f"{root}/hooks", json={"name": "web", "config": config, "events": ["star"]})
    assert answer.status_code == 201, answer.text
    assert answer.json()["config"]["header_style"] == "standard"
    return f"{root}/hooks/{answer.json()['id']}"


def next_star(client: httpx.Client, world: World, receiver: Receiver) -> Received:
    """Publish another star event and return its delivery."""
    before = len(receiver.events("star"))
    publish(client, world, "star", {"action": "created", "note": "Grüße"})
    receiver.wait_for(lambda requests: len([each for each in requests if each.event == "star"]) > before)
    return receiver.events("star")[before]


@pytest.mark.parametrize("root", ["repository", "organization"])
def test_the_library_verifies_a_delivery(server: Server, world: World, receiver: Receiver, root: str) -> None:
    secret = new_secret()
    with server.client(world.token) as client:
        create(client, world.repo_path if root == "repository" else world.org_path, receiver.url, secret=secret)
        star = next_star(client, world, receiver)
        payload = Webhook(secret).verify(star.body, star.headers)
        assert (payload["action"], payload["note"]) == ("created", "Grüße")
        assert star.headers["webhook-id"] == star.guid, "the id is the same when the delivery is repeated"
        assert len(star.headers["webhook-signature"].split()) == 1
        assert not verifies(star, new_secret())
        star.body += b" "
        assert not verifies(star, secret)


def test_the_library_verifies_forms(server: Server, world: World, receiver: Receiver) -> None:
    secret = new_secret()
    with server.client(world.token) as client:
        create(client, world.repo_path, f"{receiver.url}/form", secret=secret, content_type="form")
        publish(client, world, "star", {"action": "created"})
    assert all(verifies(each, secret) for each in receiver.wait_for(2))


def test_a_rotation_signs_with_both_secrets(server: Server, world: World, receiver: Receiver) -> None:
    old, new, newest = new_secret(), new_secret(), new_secret()
    with server.client(world.token) as client:
        hook = create(client, world.repo_path, receiver.url, secret=old)
        assert verifies(next_star(client, world, receiver), old)
        change = {"secret": new, "previous_secret_expires_in": 3600}
        answer = client.patch(f"{hook}/config", json=change)
        assert answer.status_code == 200, answer.text
        assert answer.json()["secret"] == "********"
        assert "previous_secret_expires_in" not in answer.json()
        both = next_star(client, world, receiver)
        assert len(both.headers["webhook-signature"].split()) == 2
        assert verifies(both, old)
        assert verifies(both, new)
        # Rotate again with a grace period of one second, after which the older secret is no longer used.
        client.patch(f"{hook}/config", json={"secret": newest, "previous_secret_expires_in": 1})
        assert not verifies(next_star(client, world, receiver), old)
        until(lambda: not verifies(next_star(client, world, receiver), new))
        last = next_star(client, world, receiver)
        assert verifies(last, newest)
        assert len(last.headers["webhook-signature"].split()) == 1


def test_a_rotation_without_a_grace_period_uses_only_the_new_secret(
    server: Server, world: World, receiver: Receiver
) -> None:
    old, new = new_secret(), new_secret()
    with server.client(world.token) as client:
        hook = create(client, world.repo_path, receiver.url, secret=old)
        next_star(client, world, receiver)
        client.patch(f"{hook}/config", json={"secret": new})
        star = next_star(client, world, receiver)
        assert verifies(star, new)
        assert not verifies(star, old)
        too_long = client.patch(f"{hook}/config", json={"secret": old, "previous_secret_expires_in": 604_801})
        assert too_long.status_code == 422
        assert verifies(next_star(client, world, receiver), new)
