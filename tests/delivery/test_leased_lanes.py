"""Many lanes with work: few of them are loaded at once, and all of them are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from tests.delivery.rows import PLAIN_HOOK, columns, fill_lanes
from tests.harness.receiver import Receiver
from tests.harness.waiting import WAIT_S
from tests.harness.world import make_world
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.delivery import leased_lanes, queries
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.worker import Worker
from workhook.events.tables import events
from workhook.hooks.tables import dispatches, hooks, workers
from workhook.http.calls import Services
from workhook.identity.queries import find_repository
from workhook.storage import Row
from workhook.storage.metadata import insert_into

HOOKS, EVENTS = 30, 3


@pytest.fixture
async def filled(services: Services, receiver: Receiver) -> Services:
    """Every hook has as many events waiting."""
    world = await make_world(services)
    now = now_ms()
    async with services.database.transaction() as tx:
        repository = await find_repository(tx, world.organization, world.repository)
        assert repository is not None
        place = {"account_id": repository.owner.id, "repository_id": repository.id}
        await tx.execute_many(
            insert_into(hooks, *columns(hooks)),
            [
                {**place, **PLAIN_HOOK, "id": n, "active": True, "events": '["push"]', "version": 1, "created_at": now,
                 "updated_at": now, "config": json.encode_text({"url": f"{receiver.url}?{n}", "content_type": "json"})}
                for n in range(1, HOOKS + 1)
            ],
        )  # fmt: skip
        await fill_lanes(tx, range(1, HOOKS + 1))
        await tx.execute_many(
            insert_into(events, *columns(events)),
            [
                {**place, "id": 1000 + n, "name": "push", "action": None, "payload": b'{"number":%d}' % n, "size": 12,
                 "created_at": now, "actor_id": None, "installation_id": None, "listed": True, "published": False,
                 "traceparent": None}
                for n in range(EVENTS)
            ],
        )  # fmt: skip
        await tx.execute_many(
            insert_into(dispatches, *(name for name in columns(dispatches) if name != "id")),
            [
                {"event_id": 1000 + n, "hook_id": hook, "guid": new_guid(), "attempts": 0, "retries": 0, "wanted": 0,
                 "next_attempt_at": now, "created_at": now}
                for n in range(EVENTS)
                for hook in range(1, HOOKS + 1)
            ],
        )  # fmt: skip
    return services


@pytest.fixture
async def new_worker(filled: Services) -> AsyncIterator[Callable[[], Worker]]:
    senders: list[Sender] = []
    workers: list[Worker] = []

    def make() -> Worker:
        senders.append(Sender(AddressPolicy(filled.settings.delivery_allow_networks), SendSettings(timeout_s=40)))
        workers.append(Worker(filled, senders[-1]))
        return workers[-1]

    yield make
    for worker in workers:
        await worker.stop(30)
    for sender in senders:
        await sender.close()


async def test_lanes_take_turns_in_few_places(
    new_worker: Callable[[], Worker], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_lanes, "PAGE", 4)
    monkeypatch.setattr(leased_lanes, "PLACES", 5)
    worker = new_worker()
    places = worker._leased._places = 5
    await worker.start()
    end = time.monotonic() + WAIT_S
    while len(receiver.events("push")) < HOOKS * EVENTS:
        assert len(worker._leased.lanes) <= places
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    came = sorted((each.path, each.payload()["number"]) for each in receiver.events("push"))
    assert len(set(came)) == len(came) == HOOKS * EVENTS


async def test_what_is_due_later_is_begun_together(new_worker: Callable[[], Worker]) -> None:
    """Never before its time, and little later."""
    leased, now = new_worker()._leased, now_ms()
    leased._poll_at = now + leased_lanes.POLL_MS
    assert leased.next_at == leased._poll_at
    begun = set()
    for at in range(now + 400, now, -1):  # each is the first then
        leased._later.add(1, at)
        assert at <= leased.next_at < at + leased_lanes.TOGETHER_MS
        begun.add(leased.next_at)
    assert len(begun) <= 400 / leased_lanes.TOGETHER_MS + 1


async def test_the_lease_is_renewed_while_a_read_takes_long(
    filled: Services, new_worker: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise others would find the process dead, and send again what it has in flight."""
    reads, go_on = asyncio.Event(), asyncio.Event()
    read = queries.due_dispatches

    async def slow(*given: Any) -> Sequence[Row]:
        reads.set()
        await go_on.wait()
        return await read(*given)

    async def lease_ends() -> int:
        row = await filled.database.fetch_one(sa.select(workers.c.seen_until))
        assert row is not None
        return int(row["seen_until"])

    monkeypatch.setattr(queries, "due_dispatches", slow)
    await new_worker().start()
    await asyncio.wait_for(reads.wait(), WAIT_S)
    before, end = await lease_ends(), time.monotonic() + WAIT_S
    try:
        while await lease_ends() <= before:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
    finally:
        go_on.set()
