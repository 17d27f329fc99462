"""Peculiarities of app clients: the requests they send and the payload members they read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from tests.api.wire import refused
from tests.clients.support import SECRET, signed_with
from tests.harness.apps import PERMISSIONS, Registered
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

pytestmark = pytest.mark.one_database


@pytest.mark.parametrize("body", [b"null\n", b" null", b"", b"{}"], ids=["go", "null", "none", "empty"])
def test_a_body_without_options_requests_every_granted_permission(
    app: Registered, as_app: httpx.Client, body: bytes
) -> None:
    """go-github and ghinstallation send `null` if their caller passes no options."""
    headers = {"Content-Type": "application/json"} if body else {}
    path = f"/api/v3/app/installations/{app.installation_id}/access_tokens"
    made = as_app.post(path, content=body, headers=headers)
    assert made.status_code == 201, made.text
    assert (made.json()["permissions"], made.json()["repository_selection"]) == (PERMISSIONS, "all")
    refused(as_app.post(path, content=b"[null]"), 400, "Body should be a JSON object")


def test_payloads_name_the_installation_that_created_the_webhook(
    server: Server, world: World, app: Registered, call: Callable[..., httpx.Response], receiver: Receiver
) -> None:
    """Probot and Octokit's App act as the installation in `installation.id` of a payload.

    In payloads for an app's webhook this is the app's own installation, whatever the publisher sent. Payloads for other
    webhooks are unchanged.
    """
    told = {"id": app.installation_id, "node_id": f"I_{app.installation_id}"}
    hooks = {}
    for who, token in (("app", app.token(server)), ("owner", world.token)):
        for kind in ("json", "form"):
            config = {"url": f"{receiver.url}/{who}/{kind}", "content_type": kind, "secret": SECRET}
            made = call(token, "POST", f"{world.repo_path}/hooks", json={"config": config, "events": ["issues"]})
            hooks[who, kind] = made.raise_for_status().json()
    sent: dict[str, Any] = {
        "opened": {"issue": {"title": 'Ein "installation": {"id": 9}', "installation": 9}},
        "edited": {"installation": {"id": 7}},
        "closed": {},
    }
    for action, payload in sent.items():
        body = {"event": "issues", "action": action, "payload": payload}
        assert call(world.token, "POST", f"{world.repo_path}/events", json=body).json()["deliveries"] == 4
    received = receiver.wait_for(16)
    assert all(signed_with(each, SECRET) for each in received)
    for each in received:
        payload, who = each.payload(), each.path.split("/")[2]
        expected = told if who == "app" else sent.get(payload.get("action"), {}).get("installation")
        assert payload.get("installation") == expected, each.path
        assert payload["repository"]["name"] == world.repository
        assert payload.get("issue", {}) == sent.get(payload.get("action"), {}).get("issue", {})

    def recorded(address: str) -> list[dict[str, Any]] | None:
        items: list[dict[str, Any]] = call(world.token, "GET", address).json()
        return items if len(items) == 4 else None

    for who in ("app", "owner"):  # deliveries are recorded a little later, and shown as they were sent
        address = hooks[who, "json"]["deliveries_url"]
        by_guid = {each.guid: each.payload() for each in received if each.path.endswith(f"/{who}/json")}
        items = until(partial(recorded, address)) or []
        assert {item["guid"] for item in items} == set(by_guid)
        for item in items:
            shown = call(world.token, "GET", f"{address}/{item['id']}").json()
            assert shown["request"]["payload"] == by_guid[item["guid"]]
