"""Failed deliveries: automatic retries, when they end, and the automatic deactivation of a hook."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterable

import pytest
import sqlalchemy as sa

from tests.delivery.site import Hook, Site, numbers
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.core.clock import DAY_MS, now_ms
from workhook.hooks.tables import deliveries, dispatches, lanes
from workhook.http.calls import Services
from workhook.identity.tables import audit_log

RETRIES = 3  # the server's setting, see conftest


def answering(statuses: Iterable[int], event: str = "push", **headers: str) -> Callable[[Received], Reply]:
    """Return a reply that answers an event with one status after the other, and every other event with 200."""
    coming = iter(statuses)
    return lambda received: Reply(next(coming), headers) if received.event == event else Reply()


def test_a_failure_is_retried_until_it_succeeds(site: Site, receiver: Receiver) -> None:
    receiver.reply = answering([500, 404, 200])
    hook = site.hook(receiver)
    site.publish(7)
    attempts = hook.attempts("push", 3)
    assert [each["status_code"] for each in attempts] == [500, 404, 200]
    assert [each["status"] for each in attempts] == [
        "Invalid HTTP Response: 500", "Invalid HTTP Response: 404", "OK",
    ]  # fmt: skip
    assert [each["redelivery"] for each in attempts] == [False, True, True]
    assert len({each["guid"] for each in attempts}) == 1
    assert len({each["id"] for each in attempts}) == 3
    arrived = receiver.events("push")
    assert {each.guid for each in arrived} == {attempts[0]["guid"]}
    assert len({each.body for each in arrived}) == 1
    assert hook.read()["last_response"] == {"code": 200, "status": "active", "message": "OK"}


def test_retries_end_after_the_last_one(site: Site, receiver: Receiver, other: Receiver) -> None:
    receiver.reply = answering(itertools.repeat(503))
    hook, fine = site.hook(receiver), site.hook(other)
    site.publish(1)
    assert len(hook.attempts("push", 1 + RETRIES)) == 1 + RETRIES
    site.publish(2)  # by its last retry, a fifth attempt at the first event would be due
    assert len(hook.attempts("push", 2 * (1 + RETRIES))) == 2 * (1 + RETRIES)
    assert sorted(numbers(receiver)) == [1] * 4 + [2] * 4
    assert len(fine.attempts("push", 2)) == 2


def test_a_hook_with_0_retries_is_never_retried(site: Site, receiver: Receiver) -> None:
    receiver.reply = answering(itertools.repeat(500))
    hook = site.hook(receiver, retries="0")
    site.publish(1)
    site.publish(2)
    hook.attempts("push", 2)
    assert hook.redeliver(hook.deliveries(event="push")[0]).status_code == 202
    assert len(hook.attempts("push", 3)) == 3
    assert len(receiver.events("push")) == 3


def test_a_hook_may_have_fewer_retries(site: Site, receiver: Receiver) -> None:
    receiver.reply = answering(itertools.repeat(500))
    hook = site.hook(receiver, retries=1)
    site.publish(1)
    hook.attempts("push", 2)
    site.publish(2)
    hook.attempts("push", 4)
    assert sorted(numbers(receiver)) == [1, 1, 2, 2]


async def _planned_delays(services: Services, hook_id: int) -> list[int]:
    """Return the planned delay in milliseconds from the first attempt to the retry, in the order of the events."""
    statement = (
        sa.select(dispatches.c.next_attempt_at - deliveries.c.delivered_at)
        .join_from(dispatches, deliveries, deliveries.c.dispatch_id == dispatches.c.id)
        .where(dispatches.c.hook_id == hook_id, deliveries.c.event == "push")
        .order_by(dispatches.c.id)
    )
    return [row[0] for row in await services.database.fetch_all(statement)]


def test_a_valid_retry_after_at_most_doubles_the_wait(new_server: Callable[..., Server], receiver: Receiver) -> None:
    """Compare the planned times, which do not depend on the speed of the machine."""
    site = Site(new_server(delivery_retry_first_s=1000, delivery_retries=1))
    wishes = {1: "2000", 2: "soon", 3: "86400"}

    def reply_busy(received: Received) -> Reply:
        return (
            Reply(503, {"Retry-After": wishes[received.payload()["number"]]}) if received.event == "push" else Reply()
        )

    receiver.reply = reply_busy
    hook = site.hook(receiver)
    for number in wishes:
        site.publish(number)
    hook.attempts("push", 3)
    first, second, third = site.server.run(lambda services: _planned_delays(services, hook.id))
    assert first == 2_000_000  # twice the step, as requested
    assert 1_000_000 <= second <= 1_200_000
    assert third == 2_000_000  # never more than twice the step
    site.close()


def test_a_retry_waits_for_its_planned_time(new_server: Callable[..., Server], receiver: Receiver) -> None:
    site = Site(new_server(delivery_retry_first_s=1, delivery_retries=1))
    arrivals: dict[int, list[float]] = {}
    wishes = {1: "2", 2: "soon", 3: "86400"}

    def reply_busy(received: Received) -> Reply:
        if received.event != "push":
            return Reply()
        number = received.payload()["number"]
        arrivals.setdefault(number, []).append(time.monotonic())
        return Reply(503, {"Retry-After": wishes[number]})

    receiver.reply = reply_busy
    hook = site.hook(receiver)
    for number in wishes:
        site.publish(number)
    hook.attempts("push", 6)
    waits = {number: second - first for number, (first, second) in arrivals.items()}
    assert waits[1] >= 1.99  # times are truncated to milliseconds
    assert waits[2] >= 0.99
    assert waits[3] >= 1.99
    site.close()


def test_a_failed_connection_is_retried(site: Site, receiver: Receiver) -> None:
    hook = site.hook("http://127.0.0.1:1/", retries=1)
    site.publish(1)
    attempts = hook.attempts("push", 2)
    assert {(each["status"], each["status_code"]) for each in attempts} == {("failed to connect to host", 502)}
    assert hook.detail(attempts[0])["response"] == {"headers": {}, "payload": ""}
    assert hook.detail(attempts[0])["request"]["payload"]["number"] == 1


def _wait_until_inactive(hook: Hook) -> bool:
    return until(lambda: not hook.read()["active"])


def _deactivation_count(site: Site, reason: str) -> int:
    """Return the number of webhooks which the server has counted as deactivated for this reason."""
    with site.server.client(None) as client:
        pattern = rf'^workhook_hooks_turned_off_total{{reason="{reason}"}} (\d+)'
        found = re.search(pattern, client.get("/metrics").text, re.MULTILINE)
    return int(found[1]) if found else 0


def _audit_details(site: Site, hook: Hook) -> list[str]:
    async def read(services: Services) -> list[str]:
        statement = sa.select(audit_log.c.detail).where(
            audit_log.c.target == f"hook/{hook.id}", audit_log.c.action == "hook.deactivate"
        )
        return [row["detail"] for row in await services.database.fetch_all(statement)]

    found: list[str] = site.server.run(read)
    return found


async def _count_pending(services: Services, hook_id: int) -> int:
    statement = sa.select(dispatches.c.id).where(
        dispatches.c.hook_id == hook_id, dispatches.c.next_attempt_at.is_not(None)
    )
    return len(await services.database.fetch_all(statement))


def test_status_410_deactivates_the_hook_and_drops_pending_deliveries(
    site: Site, receiver: Receiver, other: Receiver
) -> None:
    watcher = site.hook(other, ["hook"], of="organization")
    receiver.reply = answering(itertools.repeat(410))
    hook = site.hook(receiver, max_concurrency=1)
    site.publish_many(range(20))
    assert _wait_until_inactive(hook)
    (announced,) = watcher.attempts("hook", 1)
    assert announced["action"] == "deactivated"
    (told,) = other.events("hook")
    assert told.payload()["hook"]["id"] == hook.id
    assert told.payload()["hook"]["active"] is False
    assert "410" in told.payload()["reason"]
    assert told.payload()["repository"]["full_name"] == site.world.full_name
    (detail,) = _audit_details(site, hook)
    assert "410" in json.loads(detail)["reason"]
    assert len(receiver.events("push")) == 1  # the one that was answered with 410
    assert site.publish(99) == 0
    # Dispatches committed during the deactivation are dropped a moment later, before the hook is active again.
    until(lambda: site.server.run(lambda services: _count_pending(services, hook.id)) == 0)
    receiver.reply = answering([])
    hook.patch(active=True)
    hook.configure(max_concurrency=2)
    assert hook.redeliver(hook.deliveries(event="ping")[0]).status_code == 202
    receiver.wait_for(lambda requests: sum(each.event == "ping" for each in requests) == 2)
    assert len(receiver.events("push")) == 1  # neither a dropped dispatch nor a ping for the activation
    assert len(receiver.requests) == 3


def test_concurrent_410_responses_are_announced_and_counted_once(
    site: Site, receiver: Receiver, other: Receiver
) -> None:
    counted = _deactivation_count(site, "gone")
    watcher = site.hook(other, ["hook", "fork"], of="organization", max_concurrency=1)
    receiver.reply = answering(itertools.repeat(410))
    hook = site.hook(receiver)
    site.publish_many(range(30))
    assert _wait_until_inactive(hook)
    site.publish(1, "fork")
    watcher.attempts("fork", 1)  # sent after every earlier announcement
    deactivated = [each for each in watcher.deliveries(event="hook") if each["action"] == "deactivated"]
    assert len(deactivated) == 1
    assert len(_audit_details(site, hook)) == 1
    until(lambda: _deactivation_count(site, "gone") == counted + 1)
    assert len(receiver.events("push")) <= 8


async def _set_failing_since(services: Services, hook_id: int, days: float) -> None:
    async with services.database.transaction() as tx:
        since = now_ms() - round(days * DAY_MS)
        await tx.execute(sa.update(lanes).where(lanes.c.hook_id == hook_id).values(failing_since=since))


@pytest.mark.parametrize(("days", "ends"), [(5.01, True), (4.9, False)])
def test_five_days_without_a_success_deactivate_the_hook(
    new_server: Callable[..., Server], receiver: Receiver, days: float, ends: bool
) -> None:
    server = new_server(delivery_retries=0)
    site = Site(server)
    receiver.reply = answering(itertools.repeat(500))
    hook = site.hook(receiver)
    site.publish(1)
    hook.attempts("push", 1)
    site.close()
    server.stop()
    server.run(lambda services: _set_failing_since(services, hook.id, days))
    server = new_server(delivery_retries=0)
    site = Site(server, site.world)
    hook = Hook(site, hook.shape, hook.path)
    site.publish(2)
    hook.attempts("push", 2)
    if ends:
        assert _wait_until_inactive(hook)
        (detail,) = _audit_details(site, hook)
        assert "five days" in json.loads(detail)["reason"]
        until(lambda: _deactivation_count(site, "failing") == 1)
        hook.patch(active=True)  # which also resets the five days
    assert site.publish(3) == 1
    hook.attempts("push", 3)
    assert site.publish(4) == 1
    hook.attempts("push", 4)
    assert hook.read()["active"] is True
    site.close()


def test_one_success_resets_the_failure_period(new_server: Callable[..., Server], receiver: Receiver) -> None:
    server = new_server(delivery_retries=0)
    site = Site(server)
    receiver.reply = answering([500, 200, 500, 500])
    hook = site.hook(receiver, max_concurrency=1)
    site.publish(1)
    hook.attempts("push", 1)
    server.run(lambda services: _set_failing_since(services, hook.id, 4.9))
    for number in (2, 3, 4):
        site.publish(number)
        hook.attempts("push", number)

    async def failing(services: Services) -> int:
        row = await services.database.fetch_one(sa.select(lanes.c.failing_since).where(lanes.c.hook_id == hook.id))
        assert row is not None
        return int(row["failing_since"])

    assert now_ms() - server.run(failing) < DAY_MS
    assert hook.read()["active"] is True
    site.close()
