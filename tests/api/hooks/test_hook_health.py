"""GET …/hooks/{hook_id}/health."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.api.wire import MILLISECONDS, Api, Place, refused
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_user, make_world
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms, parse_rfc3339, to_millis_text
from workhook.hooks import health
from workhook.hooks.health import HookHealth, hook_health
from workhook.hooks.history import recorded_at
from workhook.hooks.queries import hooks_by_id
from workhook.hooks.tables import deliveries, dispatches, hooks
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into

KEYS = (
    "active", "off_reason", "since", "deliveries", "capped", "success_rate", "p50_ms", "p95_ms", "buckets", "pending",
    "pending_capped", "oldest_pending_at", "last_failure",
)  # fmt: skip


def deliver(api: Api, place: Place, hook: dict[str, Any], count: int) -> None:
    assert api.post(f"{place.path}/events", json={"event": "push", "payload": {}}).json()["deliveries"] == 1
    until(lambda: len(api.read(hook["deliveries_url"])) >= count)


def test_a_webhook_without_deliveries_has_empty_health(api: Api, place: Place) -> None:
    hook = api.hook(place)
    found = api.read(f"{hook['url']}/health")
    assert tuple(found) == KEYS
    hours = found.pop("buckets")
    assert len(hours) == 24
    assert all((each["succeeded"], each["failed"]) == (0, 0) for each in hours)
    begins = [parse_rfc3339(each["at"]) for each in hours]
    assert begins == [begins[0] + n * HOUR_MS for n in range(24)]
    assert re.fullmatch(MILLISECONDS, found["since"])
    assert found.pop("since") == hours[0]["at"]
    assert abs(begins[0] + DAY_MS - now_ms()) < 60_000
    assert found == {
        "active": False, "off_reason": None, "deliveries": 0, "capped": False, "success_rate": None, "p50_ms": None,
        "p95_ms": None, "pending": 0, "pending_capped": False, "oldest_pending_at": None, "last_failure": None,
    }  # fmt: skip


def test_health_counts_successes_and_failures(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(503 if received.event == "ping" else 200)
    hook = api.hook(place, config={"url": receiver.url}, active=True)
    [ping] = until(lambda: api.read(hook["deliveries_url"]))
    for count in (2, 3, 4):
        deliver(api, place, hook, count)
    found = api.read(f"{hook['url']}/health")
    assert (found["active"], found["off_reason"]) == (True, None)
    assert (found["deliveries"], found["success_rate"]) == (4, 0.75)
    assert (found["buckets"][-1]["succeeded"], found["buckets"][-1]["failed"]) == (3, 1)
    assert 0 <= found["p50_ms"] <= found["p95_ms"]
    failure = {"id": ping["id"], "at": ping["delivered_at"], "status": ping["status"], "status_code": 503}
    assert found["last_failure"] == failure
    assert (found["pending"], found["pending_capped"]) == (1, False), "the ping is to be tried again"
    assert parse_rfc3339(found["oldest_pending_at"]) <= parse_rfc3339(ping["delivered_at"])


def test_health_states_why_a_webhook_is_off(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(410)
    hook = api.hook(place, config={"url": receiver.url}, active=True)
    until(lambda: api.read(hook["url"])["active"] is False)
    address = f"{hook['url']}/health"
    assert api.read(address)["off_reason"] == "The receiver answered 410 Gone."
    assert api.patch(hook["url"], json={"events": ["fork"]}).status_code == 200
    assert api.read(address)["off_reason"] == "The receiver answered 410 Gone."
    other = api.hook(place)
    assert api.read(f"{other['url']}/health")["off_reason"] is None, "another's reason is not its own"
    receiver.reply = lambda received: Reply(200)
    for active in (True, False):
        assert api.patch(hook["url"], json={"active": active}).status_code == 200
        found = api.read(address)
        assert (found["active"], found["off_reason"]) == (active, None)


def test_health_is_refused_to_users_who_cannot_read_the_webhook(api: Api, place: Place, server: Server) -> None:
    path = f"{place.hooks}/{api.hook(place)['id']}/health"
    stranger = server.world()
    with server.client(stranger.token) as client:
        refused(client.get(path), 404, "Not Found")
        elsewhere = f"{Place(place.kind, stranger).hooks}/{path.split('/')[-2]}/health"
        refused(client.get(elsewhere), 404, "Not Found")
    reader = server.run(lambda services: add_user(services, place.world, role="read"))
    with server.client(reader) as client:
        if place.kind == "repository":
            refused(client.get(path), 403, "Must have admin rights to Repository.")
        else:
            assert client.get(path).status_code in (403, 404)
    refused(api.get(f"{place.other.hooks}/{path.split('/')[-2]}/health"), 404, "Not Found")
    for wrong in ("999999", "abc", str(2**63)):
        refused(api.get(f"{place.hooks}/{wrong}/health"), 404, "Not Found")


# --- generated deliveries ---------------------------------------------------------------------------------------------

HOOK, OTHER = 1, 2


async def make_hooks(tx: Transaction, world: World) -> None:
    account = await find_account(tx, world.organization)
    assert account is not None
    names = tuple(column.name for column in hooks.columns)
    common = {
        **dict.fromkeys(names), "account_id": account.id, "active": True, "events": '["push"]',
        "config": '{"url":"http://x/"}', "version": 1, "created_at": now_ms(), "updated_at": now_ms(),
    }  # fmt: skip
    await tx.execute_many(insert_into(hooks, *names), [{**common, "id": number} for number in (HOOK, OTHER)])


async def make_deliveries(tx: Transaction, *made: tuple[int, int, int, int]) -> None:
    """Insert deliveries, each given as the webhook, its age in ms, its duration in ms and its status code.

    IDs are assigned in this order.
    """
    names = tuple(column.name for column in deliveries.columns if column.name != "id")
    now = now_ms()
    rows = [
        {
            **dict.fromkeys(names), "dispatch_id": 1, "hook_id": hook, "event_id": 1, "guid": "g", "event": "push",
            "delivered_at": now - ago, "duration_ms": took, "redelivery": False, "status": f"is {code}",
            "status_code": code, "url": "http://x/", "request_headers": b"{}", "response_headers": b"{}",
            "response_body": b"",
        }
        for hook, ago, took, code in made
    ]  # fmt: skip
    await tx.execute_many(insert_into(deliveries, *names), rows)


async def read_health(services: Services) -> HookHealth:
    [hook] = await hooks_by_id(services.database, [HOOK])
    return await hook_health(services.database, hook)


@pytest.fixture
async def filled(services: Services) -> Services:
    world = await make_world(services)
    async with services.database.transaction() as tx:
        await make_hooks(tx, world)
    return services


async def test_health_covers_the_webhooks_own_deliveries_of_the_last_day(filled: Services) -> None:
    async with filled.database.transaction() as tx:
        await make_deliveries(
            tx,
            (HOOK, 3 * DAY_MS, 7, 500),
            (HOOK, DAY_MS + 30_000, 9_000, 200),  # so close to the boundary that IDs do not decide
            (HOOK, DAY_MS - 30_000, 10, 200),
            (OTHER, 20 * HOUR_MS, 9_000, 500),
            *((HOOK, 5 * HOUR_MS - 1000, took, 200) for took in range(20, 115)),
            (HOOK, 1000, 5_000, 404),
            (OTHER, 500, 9_000, 500),
            *((HOOK, 400, 1_000 + n, 204) for n in range(3)),
        )
    found = await read_health(filled)
    assert (found.deliveries, found.capped) == (100, False)
    assert found.success_rate == 0.99
    # 10, 20 … 114, 1000, 1001, 1002, 5000: the 50th and 95th of a hundred values.
    assert (found.p50_ms, found.p95_ms) == (68, 113)
    counts = {n: (each.succeeded, each.failed) for n, each in enumerate(found.buckets) if each.succeeded or each.failed}
    assert counts == {0: (1, 0), 19: (95, 0), 23: (3, 1)}
    assert found.last_failure is not None
    assert (found.last_failure.status, found.last_failure.status_code) == ("is 404", 404)


async def test_the_last_failure_may_be_older_than_a_day(filled: Services) -> None:
    async with filled.database.transaction() as tx:
        await make_deliveries(tx, (HOOK, 3 * DAY_MS, 7, 500), (OTHER, 1000, 7, 502))
    found = await read_health(filled)
    assert (found.deliveries, found.success_rate, found.p50_ms) == (0, None, None)
    assert found.last_failure is not None
    assert found.last_failure.status_code == 500


async def test_a_delivery_recorded_late_counts_when_it_was_sent(filled: Services) -> None:
    """The ID of the delivery is among the newest, although it was sent the day before yesterday."""
    ago = 2 * DAY_MS
    assert recorded_at(now_ms() - ago, now_ms()) is not None
    async with filled.database.transaction() as tx:
        await make_deliveries(tx, (HOOK, 2000, 7, 200), (HOOK, ago, 7, 500), (HOOK, 1000, 7, 200))
    assert (await read_health(filled)).success_rate == 1


async def test_health_is_capped_at_the_newest_deliveries(filled: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SCAN_MAX", 5)
    async with filled.database.transaction() as tx:
        await make_deliveries(tx, *((HOOK, (20 - n) * HOUR_MS, n, 500) for n in range(1, 6)))
    found = await read_health(filled)
    assert (found.deliveries, found.capped) == (5, False)
    assert found.since == found.buckets[0].at
    async with filled.database.transaction() as tx:
        await make_deliveries(tx, (OTHER, 10, 1, 200), (HOOK, 10, 6, 200))
    found = await read_health(filled)
    assert (found.deliveries, found.capped, found.success_rate) == (5, True, 0.2)
    assert abs(parse_rfc3339(found.since) - (now_ms() - 18 * HOUR_MS)) < 60_000
    assert found.p50_ms == 4


async def test_health_counts_pending_dispatches(filled: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    now = now_ms()
    names = tuple(column.name for column in dispatches.columns)
    common = {"attempts": 1, "retries": 1, "wanted": 0}
    rows = [
        {**common, "id": n, "event_id": n, "guid": f"g{n}", "hook_id": OTHER if n == 1 else HOOK,
         "next_attempt_at": None if n in (2, 3) else now - n, "created_at": now - 10_000 + n}
        for n in range(1, 9)
    ]  # fmt: skip
    async with filled.database.transaction() as tx:
        await tx.execute_many(insert_into(dispatches, *names), rows)
    found = await read_health(filled)
    assert (found.pending, found.pending_capped) == (5, False)
    assert found.oldest_pending_at == to_millis_text(now - 10_000 + 4)
    monkeypatch.setattr(health, "SCAN_MAX", 4)
    found = await read_health(filled)
    assert (found.pending, found.pending_capped) == (4, True)
