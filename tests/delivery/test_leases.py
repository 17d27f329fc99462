"""The lease of a process: when others are found dead, what keeps it, and what does not."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.delivery.inside import Inside, inside
from tests.delivery.site import numbers
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver, Reply
from tests.harness.waiting import WAIT_S
from workhook.core.clock import now_ms
from workhook.core.config import load
from workhook.core.errors import Unavailable
from workhook.delivery import leased_lanes, leases, membership, metrics, queries, worker
from workhook.delivery.leases import Leases
from workhook.delivery.membership import View
from workhook.hooks.tables import dispatches, workers
from workhook.http.calls import Services
from workhook.storage import Database
from workhook.storage.signals import WORKERS

LEASE_MS = 60_000


@pytest.fixture
async def site(backend: Databases, tmp_path: Path) -> AsyncIterator[Inside]:
    async with inside(backend, tmp_path, serving=True, delivery_lease_s=5) as made:
        yield made


@pytest.fixture
async def calm(backend: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Inside]:
    """Nothing happens but what something makes happen."""
    for module in (leased_lanes, worker):
        monkeypatch.setattr(module, "POLL_MS", 3_600_000)
    monkeypatch.setattr(leases, "BEAT_MS", 3_600_000)
    async with inside(backend, tmp_path, delivery_lease_s=3600) as made:
        yield made


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the clock of the leases shows."""
    now = [1_000_000]
    monkeypatch.setattr(leases, "_clock_ms", lambda: now[0])
    return now


async def holds(probe: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not probe():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def no_lanes() -> Sequence[int]:
    return ()


async def alive(database: Database) -> set[str]:
    return {row["owner"] for row in await database.fetch_all(sa.select(workers.c.owner))}


async def finishes(database: Database, owner: str, hooks: list[int]) -> None:
    """These are what others know to be in flight there."""
    mine = sa.select(workers.c.finishing).where(workers.c.owner == owner)
    end = time.monotonic() + WAIT_S
    while (row := await database.fetch_one(mine)) is None or json.loads(row["finishing"]) != hooks:
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def run_out(database: Database, owner: str) -> None:
    """As while nobody could write."""
    async with database.transaction() as tx:
        await tx.execute(sa.update(workers).where(workers.c.owner == owner).values(seen_until=1))


# --- after the database was away -------------------------------------------------------------------------------------


async def test_who_joins_gives_the_others_the_time_of_a_lease(services: Services, moment: list[int]) -> None:
    """They live, and could not renew while the database was away."""
    here, joins = Leases(services.database, LEASE_MS), Leases(services.database, LEASE_MS)
    await here.renew(no_lanes)
    epoch = here.epoch
    await run_out(services.database, here.owner)
    await joins.renew(no_lanes)
    assert await alive(services.database) == {here.owner, joins.owner}
    here.look_now()
    moment[0] += LEASE_MS // 2
    await here.renew(no_lanes)
    assert here.epoch == epoch


async def test_who_could_not_renew_gives_the_others_the_time_of_a_lease(
    services: Services, moment: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own lease had not ended yet."""
    here, other = Leases(services.database, LEASE_MS), Leases(services.database, LEASE_MS)
    for each in (here, other, here):
        each.look_now()
        await each.renew(no_lanes)

    async def is_away(*_: object) -> bool:
        raise Unavailable("The database cannot be used right now.")

    moment[0] += LEASE_MS // 2
    with monkeypatch.context() as away:
        away.setattr(membership, "renew", is_away)
        with pytest.raises(Unavailable):
            await here.renew(no_lanes)
    await run_out(services.database, other.owner)
    await here.renew(no_lanes)
    assert await alive(services.database) == {here.owner, other.owner}
    moment[0] += LEASE_MS - 1
    await here.renew(no_lanes)
    assert other.owner in await alive(services.database)
    moment[0] += LEASE_MS // 2
    await here.renew(no_lanes)
    assert await alive(services.database) == {here.owner}


async def test_who_stops_and_has_lost_its_lease_does_not_ask_all_the_time(services: Services) -> None:
    stops, other = Leases(services.database, LEASE_MS), Leases(services.database, LEASE_MS)
    for each in (stops, other):
        await each.renew(no_lanes)
    async with services.database.transaction() as tx:
        await membership.remove(tx, [stops.owner])
        await membership.raise_generation(tx)
    stops.leave_soon()
    await stops.renew(no_lanes)
    stops.look_now()  # something has landed
    await stops.renew(no_lanes)
    assert not stops.time_to_renew()
    assert await alive(services.database) == {other.owner}


# --- what keeps it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_it_is_renewed_while_others_have_all_connections(site: Inside) -> None:
    database = site.services.database
    async with site.delivering() as made, AsyncExitStack() as requests:
        for _ in range(site.services.settings.database_connections - 1):
            tx = await requests.enter_async_context(database.transaction())
            await tx.fetch_one(sa.select(1))
        before = made._leased.leases.good_until
        await holds(lambda: made._leased.leases.good_until > before + 100)
        row = await tx.fetch_one(
            sa.text(
                "SELECT count(*) AS n FROM pg_stat_activity"
                " WHERE datname = current_database() AND backend_type = 'client backend'"
            )
        )
        assert row is not None
        assert row["n"] <= site.services.settings.database_connections


async def test_it_ends_when_the_worker_hangs(site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others could deliver what it does not."""
    read, reads, go_on = queries.due_dispatches, asyncio.Event(), asyncio.Event()

    async def hang(*given: Any) -> Any:
        reads.set()
        await go_on.wait()
        return await read(*given)

    hung = metrics.TROUBLE.labels("hung")
    before = hung._value.get()
    await site.hooks([receiver.url])
    async with site.delivering() as made:
        await holds(lambda: made.state == "ok")
        monkeypatch.setattr(queries, "due_dispatches", hang)
        monkeypatch.setattr(made, "accepts_dispatches", lambda: False)  # a lane that it knows would take it unread
        await site.publish(1)
        await asyncio.wait_for(reads.wait(), WAIT_S)
        patience = worker.SILENT_S, worker.HUNG_S
        try:
            worker.SILENT_S = worker.HUNG_S = 0.5  # no turn ends any more
            await holds(lambda: not made._leased.leases.good)
            assert "has not looked for work" in made.state
            assert hung._value.get() == before + 1
        finally:
            worker.SILENT_S, worker.HUNG_S = patience
            go_on.set()
        await holds(lambda: made.state == "ok")
        await holds(lambda: numbers(receiver))
    assert numbers(receiver) == [1]


async def test_a_process_that_can_not_renew_says_so(site: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_away(*_: object) -> bool:
        raise Unavailable("The database cannot be used right now.")

    async with site.delivering() as made:
        await holds(lambda: made.state == "ok")
        with monkeypatch.context() as away:
            away.setattr(membership, "renew", is_away)
            await holds(lambda: "database" in made.state)
        await holds(lambda: made.state == "ok")


# --- what it tells the worker ----------------------------------------------------------------------------------------


async def test_what_others_left_is_begun_at_once(calm: Inside, receiver: Receiver) -> None:
    database = calm.services.database
    hooks = await calm.hooks([f"{receiver.url}?{number}" for number in range(8)])
    async with calm.delivering() as made:
        lease, lanes = made._leased.leases, made._leased.leases.membership
        await holds(lambda: lanes.settled)
        async with database.transaction() as tx:
            generation = await membership.join(tx, "elsewhere/1/x", 3_600_000)
        lease.look_now()
        await holds(lambda: lanes.generation == generation and lanes.settled)
        await calm.publish(1)
        await holds(lambda: len(numbers(receiver)) == sum(map(lanes.is_own, hooks)))
        async with database.transaction() as tx:
            await membership.remove(tx, ["elsewhere/1/x"])
            await membership.raise_generation(tx)
        lease.look_now()
        await holds(lambda: len(numbers(receiver)) == len(hooks))
    assert numbers(receiver) == [1] * len(hooks)


async def test_retries_that_another_made_are_known_in_pages(
    calm: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found one by one, each would wait for the next search."""
    monkeypatch.setattr(leased_lanes, "TIMES", 4)
    hooks = await calm.hooks([receiver.url], max_concurrency=1)
    for number in range(20):
        await calm.publish(number)
    database, now = calm.services.database, now_ms()
    rows = await database.fetch_all(
        sa.select(dispatches.c.id).where(dispatches.c.hook_id == hooks[0]).order_by(dispatches.c.id)
    )
    async with database.transaction() as tx:
        for number, row in enumerate(rows[-20:]):
            due = {"attempts": 1, "retries": 1, "next_attempt_at": now + 200 * (number - 5)}
            await tx.execute(sa.update(dispatches).where(dispatches.c.id == row["id"]).values(**due))
    async with calm.delivering():
        await holds(lambda: len(numbers(receiver)) == 20)
    assert numbers(receiver) == list(range(20))


async def test_others_hear_at_once_that_nothing_of_their_lane_is_in_flight(calm: Inside, receiver: Receiver) -> None:
    """They wait for that, to begin."""
    database, go_on = calm.services.database, threading.Event()
    receiver.reply = lambda _: Reply() if go_on.wait(WAIT_S) else Reply(status=500)
    (hook,) = await calm.hooks([receiver.url])
    async with calm.delivering() as made:
        lease = made._leased.leases
        await holds(lambda: lease.membership.settled)
        await calm.publish(1)
        await holds(lambda: numbers(receiver))
        other = next(name for name in map(str, count()) if View(1, [lease.owner, name]).owner_of(hook) == name)
        async with database.transaction() as tx:
            await membership.join(tx, other, 3_600_000)
        database.signals.send(WORKERS, (0,))
        try:
            await finishes(database, lease.owner, [hook])
        finally:
            go_on.set()
        await finishes(database, lease.owner, [])


def test_who_dies_is_replaced_within_twelve_seconds() -> None:
    """As the settings come: others look when a lease ends, at the latest a moment later. One missed beat ends none."""
    lease_ms = load({}, {}).delivery_lease_s * 1000
    assert lease_ms + leases.UNSETTLED_MS + leased_lanes.POLL_MS <= 12_000
    assert lease_ms > 2 * leases.BEAT_MS
