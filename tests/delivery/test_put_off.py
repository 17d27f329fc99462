"""Deliveries that cannot be sent yet, or whose signal was late, keep their place in the lane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.delivery.inside import Inside, inside
from tests.delivery.site import numbers
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.waiting import until
from workhook.core.errors import Unavailable
from workhook.delivery import lane_assignment, queries
from workhook.hooks import commit
from workhook.hooks.tables import dispatches
from workhook.storage import Reader
from workhook.storage.signals import DUE

LARGE = "x" * 100_000  # such a payload is loaded only when its turn comes


@pytest.fixture
async def site(backend: Databases, tmp_path: Path) -> AsyncIterator[Inside]:
    async with inside(backend, tmp_path) as site:
        yield site


async def wait_until(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(until, condition)


async def find_nothing(_: Reader, __: int, ___: int) -> dict[int, int]:
    return {}


async def deliver_first_event(site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver one event in a single lane, then disable the worker's own search."""
    await wait_until(lambda: site.worker is not None and site.worker._leased.leases.assignment.settled)
    await site.publish(0)
    await wait_until(lambda: numbers(receiver) == [0])
    monkeypatch.setattr(queries, "pending_hooks", find_nothing)


async def test_a_dispatch_whose_payload_cannot_be_loaded_is_not_overtaken(
    site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.hooks([receiver.url], max_concurrency=1)
    payloads, begun = queries.payloads, asyncio.Event()

    async def fail_once(reader: Reader, event_ids: Sequence[int]) -> Any:
        if not begun.is_set():
            begun.set()  # set before the wait, because later dispatches may be read meanwhile and load payloads as well
            await wait_until(
                lambda: site.worker and sum(len(lane.ready) for lane in site.worker._leased.lanes.values()) == 2
            )
            raise Unavailable("The connection broke.", code="database_unavailable")
        return await payloads(reader, event_ids)

    async with site.delivering():
        await deliver_first_event(site, receiver, monkeypatch)
        monkeypatch.setattr(queries, "payloads", fail_once)
        await site.publish(1, big=LARGE)
        await begun.wait()
        await site.publish(2)
        await site.publish(3)
        await wait_until(lambda: len(numbers(receiver)) == 4)
        assert numbers(receiver) == [0, 1, 2, 3]


async def test_a_dispatch_of_another_process_is_not_overtaken_if_its_signal_is_late(
    site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.hooks([receiver.url], max_concurrency=1)
    database = site.services.database
    send = database.signals.send
    async with site.delivering():
        await deliver_first_event(site, receiver, monkeypatch)
        with monkeypatch.context() as other:
            other.setattr(commit, "offer", lambda *_: False)
            other.setattr(database.signals, "send", lambda topic, ids: None if topic == DUE else send(topic, ids))
            await site.publish(1)
        async with database.transaction() as tx:
            earlier = dispatches.c.next_attempt_at - 3_600_000
            due = dispatches.c.next_attempt_at.is_not(None)
            await tx.execute(sa.update(dispatches).where(due).values(next_attempt_at=earlier))
        await site.publish(2)
        await wait_until(lambda: len(numbers(receiver)) == 3)
        assert numbers(receiver) == [0, 1, 2]


async def test_a_dispatch_that_waits_while_the_lease_is_lost_is_sent_once(
    site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.hooks([receiver.url], max_concurrency=1)
    payloads, waits, go_on = queries.payloads, asyncio.Event(), asyncio.Event()

    async def wait(reader: Reader, event_ids: Sequence[int]) -> Any:
        found = await payloads(reader, event_ids)
        waits.set()
        await go_on.wait()
        return found

    async with site.delivering() as worker:
        await wait_until(lambda: worker._leased.leases.assignment.settled)
        monkeypatch.setattr(queries, "payloads", wait)
        await site.publish(1, big=LARGE)
        await waits.wait()
        leases = worker._leased.leases
        epoch = leases.epoch
        async with site.services.database.transaction() as tx:  # another process considers this one dead
            await lane_assignment.remove(tx, [leases.owner])
        leases.poll_soon()
        await wait_until(lambda: leases.epoch not in (0, epoch))
        go_on.set()
        await wait_until(lambda: numbers(receiver))
        await site.publish(2)
        await wait_until(lambda: 2 in numbers(receiver))
        assert numbers(receiver) == [1, 2]
