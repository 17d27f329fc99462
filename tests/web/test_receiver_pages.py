"""The built-in receiver, and the page that shows the requests it received."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa

from tests.browser.people import make_team
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.web.places_kit import add_in
from tests.web.webhooks import Office, Visitor, office, text_of
from workhook.delivery.retention import prune
from workhook.hooks.receivers import BODY_MAX_BYTES, KEPT
from workhook.hooks.tables import arrivals
from workhook.http.calls import Services
from workhook.storage.metadata import bigint_param

__all__ = ["office"]
_arrivals_of = sa.select(arrivals.c.id).where(arrivals.c.hook_id == sa.bindparam("hook_id", type_=sa.Integer()))
_age = sa.update(arrivals).where(arrivals.c.id == bigint_param("arrival_id")).values(arrived_at=1)
_EVENT = re.compile(r'class="arrival-event">([^<]*)<')


def make(office: Office, visitor: Visitor | None = None) -> tuple[Visitor, dict[str, Any]]:
    """Create a receiver and wait for the ping. Return the owner's visitor and the receiver's webhook."""
    owner = visitor or office.visitor()
    assert owner.send("/receiver").headers["location"] == f"{owner.base}/receiver"
    [hook] = office.api("GET", f"{office.world.repo_path}/hooks")
    until(lambda: "ping" in events(owner))
    return owner, hook


def events(visitor: Visitor) -> list[str]:
    return _EVENT.findall(visitor.get("/receiver").text)


def post(office: Office, url: str, body: bytes = b"{}", **headers: str) -> httpx.Response:
    """Post like a client without a token."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(office.server.url + urlsplit(url).path, content=body, headers=named, timeout=60)


def test_a_receiver_is_created_once_and_shows_the_ping(office: Office) -> None:
    owner = office.visitor()
    assert "No test webhook yet." in text_of(owner.get("/receiver"))
    owner, hook = make(office, owner)
    assert hook["config"]["url"].startswith(f"{office.server.url}/receive/")
    assert (hook["events"], hook["config"]["content_type"]) == (["*"], "json")
    page = owner.get("/receiver")
    assert "valid signature" in text_of(page)
    assert "x-hub-signature-256" in page.text
    assert "webhook-signature" in page.text
    assert '"zen"' in text_of(page)
    assert f'href="{owner.base}/receiver"' in owner.get(f"/{hook['id']}").text
    owner.send("/receiver")
    assert len(office.api("GET", f"{office.world.repo_path}/hooks")) == 1, "where there is one, it stays"


def test_a_new_card_causes_an_event_and_updates_the_page(office: Office) -> None:
    owner, _ = make(office)
    before = owner.get("/receiver/newest").text
    assert f'data-poll-mark-value="{before}"' in owner.get("/receiver").text
    answer = owner.send("/receiver/card")
    assert answer.headers["location"] == f"{owner.base}/receiver"
    until(lambda: "task" in events(owner))
    assert owner.get("/receiver/newest").text != before
    assert "My first card" in text_of(owner.get("/receiver"))
    assert "My first card" in owner.browser.get(f"/{office.world.full_name}").text


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, "not signed"),
        (
            {"X_Hub_Signature_256": "sha256=" + hmac.new(b"guess", b"{}", hashlib.sha256).hexdigest()},
            "invalid signature",
        ),
        ({"webhook_signature": "v1,AAAA", "webhook_id": "1", "webhook_timestamp": "1"}, "invalid signature"),
    ],
)
def test_unsigned_and_forged_requests_are_marked(office: Office, headers: dict[str, str], told: str) -> None:
    owner, hook = make(office)
    answer = post(office, hook["config"]["url"], b"{}", X_GitHub_Event="forged", **headers)
    assert answer.status_code == 200
    newest = text_of(owner.get("/receiver")).partition("forged")[2].partition("ping")[0]
    assert told in newest
    assert " valid signature" not in newest


def test_hostile_requests_are_escaped(office: Office) -> None:
    owner, hook = make(office)
    body = json.dumps({"text": "<script>alert(1)</script>\u202e"}, ensure_ascii=False).encode()
    post(office, hook["config"]["url"], body, X_GitHub_Event="<b>x</b>", Authorization="Basic c2VjcmV0", Cookie="a=b")
    page = owner.get("/receiver").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\\u202e" in page
    assert "\u202e" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "c2VjcmV0" not in page
    assert "a=b" not in page


def test_the_size_of_a_body_is_limited(office: Office) -> None:
    owner, hook = make(office)
    url = hook["config"]["url"]
    assert post(office, url, b"x" * (BODY_MAX_BYTES + 1), X_GitHub_Event="large").status_code == 413
    assert events(owner) == ["ping"]
    assert post(office, url, b"\xff" * BODY_MAX_BYTES, X_GitHub_Event="large").status_code == 200
    page = owner.get("/receiver")
    assert events(owner) == ["large", "ping"]
    assert "Truncated." in text_of(page)
    assert len(page.content) < 512 * 1024


def test_only_the_newest_requests_are_kept(office: Office) -> None:
    owner, hook = make(office)
    for number in range(KEPT + 3):
        assert post(office, hook["config"]["url"], X_GitHub_Event=f"number-{number}").status_code == 200
    assert events(owner) == [f"number-{number}" for number in reversed(range(3, KEPT + 3))]


@pytest.mark.parametrize("key", ["x", "k" * 43, "k" * 42 + "\u00e9", "a" * 5000])
def test_an_unknown_key_is_not_found(office: Office, key: str) -> None:
    owner, hook = make(office)
    assert post(office, f"http://x/receive/{key}").status_code == 404
    changed = hook["config"]["url"][:-1] + ("a" if hook["config"]["url"][-1] != "a" else "b")
    assert post(office, changed).status_code == 404
    assert httpx.get(hook["config"]["url"]).status_code == 405
    assert events(owner) == ["ping"]


def test_the_key_of_another_organization_is_of_no_use(office: Office) -> None:
    """Anyone who learns the address can send to it, but the signature reveals a foreign webhook."""
    owner, hook = make(office)
    other = Office(office.server, office.server.run(make_team), office.receiver)
    with other._open:
        strange = other.hook(active=True, config={"url": hook["config"]["url"]})
        [ping] = other.deliveries(strange, 1)
        assert ping["status_code"] == 200
        until(lambda: len(events(owner)) == 2)
        assert "invalid signature" in text_of(owner.get("/receiver"))
        stranger = other.visitor()
        assert "No test webhook yet." in text_of(stranger.get("/receiver"))
        for path in ("/receiver", "/receiver/newest"):
            assert stranger.browser.get(f"{owner.base}{path}").status_code == 404


@pytest.mark.parametrize(
    ("place", "status"), [("client", 404), ("stranger", 404), ("read", 403), ("write", 403), ("member", 403)]
)
def test_only_project_admins_can_use_the_receiver(office: Office, place: str, status: int) -> None:
    owner, _ = make(office)
    person = None if place == "stranger" else add_in(office.server, office.world, place)
    if person is None:
        person = office.server.run(make_team).owner
    visitor = office.visitor(person)  # type: ignore[arg-type]  # a link needs no token
    before = len(events(owner))
    for path in ("/receiver", "/receiver/newest"):
        assert visitor.get(path, status=status)
    for path in ("/receiver", "/receiver/card"):
        assert visitor.send(path, status=status)
    assert len(events(owner)) == before


def test_the_receiver_is_deleted_with_its_webhook(office: Office) -> None:
    owner, hook = make(office)
    office.api("DELETE", f"{office.world.repo_path}/hooks/{hook['id']}")
    assert "No test webhook yet." in text_of(owner.get("/receiver"))
    owner.get("/receiver/newest", status=404)
    assert post(office, hook["config"]["url"]).status_code == 404

    async def rows(services: Services) -> int:
        found = await services.database.fetch_all(_arrivals_of, {"hook_id": hook["id"]})
        return len(found)

    assert office.server.run(rows) == 0


def test_received_requests_are_deleted_after_the_retention_period(office: Office) -> None:
    owner, hook = make(office)
    post(office, hook["config"]["url"], X_GitHub_Event="recent")

    async def prune_first(services: Services) -> int:
        async with services.database.transaction() as tx:
            rows = await tx.fetch_all(_arrivals_of, {"hook_id": hook["id"]})
            await tx.execute(_age, {"arrival_id": min(row["id"] for row in rows)})
        return (await prune(services.database, 1000, 1000))["arrivals"]

    assert office.server.run(prune_first) == 1
    assert events(owner) == ["recent"]


def test_a_new_secret_is_used_immediately(office: Office) -> None:
    owner, hook = make(office)
    owner.send(f"/{hook['id']}/secret", secret_kind="make", previous_secret_expires_in="3600", status=200)
    owner.send(f"/{hook['id']}/ping")
    until(lambda: len(events(owner)) == 2)
    assert text_of(owner.get("/receiver")).count("valid signature") == 2


def test_other_addresses_of_the_server_cannot_be_webhooks(new_server: Callable[..., Server]) -> None:
    """On a server with default settings, which reaches no private network except the receiver."""
    server = new_server(delivery_allow_networks="")
    world = server.world()
    hooks = f"{world.repo_path}/hooks"
    with server.client(world.token) as client:
        key = "k" * 43
        for path in (
            "/",
            "/readyz",
            "/metrics",
            "/receive/",
            "/receive/short",
            f"/receive/{key}?x=1",
            f"/receive/{key}/",
        ):
            body = {"config": {"url": server.url + path}}
            refused = client.post(hooks, json=body)
            assert refused.status_code == 422, path
            assert "isn't reachable" in refused.text
        url = f"{server.url}/receive/{key}"
        made = client.post(hooks, json={"config": {"url": url}}).json()
        [ping] = until(lambda: client.get(f"{hooks}/{made['id']}/deliveries").json())
        assert ping["status_code"] == 404, "nobody's receiver"
        for changed in (url[:-1], f"{url}x", url.replace("/receive/", "/login/")):
            assert client.patch(f"{hooks}/{made['id']}", json={"config": {"url": changed}}).status_code == 422
