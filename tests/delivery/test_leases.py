"""The lease of a process: when it is renewed, when it ends, and when other processes are found dead."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.delivery.inside import Inside, inside
from tests.delivery.site import numbers
from tests.harness.databases import Databases
from tests.harness.depth import deep
from tests.harness.receiver import Receiver, Reply
from tests.harness.waiting import WAIT_S
from workhook.core.clock import now_ms
from workhook.core.config import load
from workhook.core.errors import Unavailable
from workhook.delivery import lane_assignment, leased_lanes, leases, metrics, queries, worker
from workhook.delivery.lane_assignment import VIEWS_MAX, LaneAssignment, Snapshot, View, WorkerRow
from workhook.delivery.leases import Leases
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
    """Yield a site in which nothing happens periodically."""
    for module in (leased_lanes, worker):
        monkeypatch.setattr(module, "POLL_MS", 3_600_000)
    monkeypatch.setattr(leases, "BEAT_MS", 3_600_000)
    async with inside(backend, tmp_path, delivery_lease_s=3600) as made:
        yield made


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace the clock of the leases; the only item is its time in milliseconds."""
    now = [1_000_000]
    monkeypatch.setattr(leases, "_clock_ms", lambda: now[0])
    return now


async def wait_until(probe: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not probe():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def no_lanes() -> Sequence[int]:
    return ()


async def live_owners(database: Database) -> set[str]:
    return {row["owner"] for row in await database.fetch_all(sa.select(workers.c.owner))}


async def wait_for_in_flight(database: Database, owner: str, hooks: list[int]) -> None:
    """Wait until the other processes know that lanes of these hooks are in flight at `owner`."""
    mine = sa.select(workers.c.finishing).where(workers.c.owner == owner)
    end = time.monotonic() + WAIT_S
    while (row := await database.fetch_one(mine)) is None or json.loads(row["finishing"]) != hooks:
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def expire_lease(database: Database, owner: str) -> None:
    """Expire a lease, as happens while the database is unavailable."""
    async with database.transaction() as tx:
        await tx.execute(sa.update(workers).where(workers.c.owner == owner).values(seen_until=1))


# --- After the database was unavailable ------------------------------------------------------------------------------


async def test_a_joining_process_gives_expired_ones_a_lease_period_to_renew(
    services: Services, fake_clock: list[int]
) -> None:
    """They are alive but could not renew while the database was unavailable."""
    here, joins = Leases(services.database, LEASE_MS), Leases(services.database, LEASE_MS)
    await here.renew(no_lanes)
    epoch = here.epoch
    await expire_lease(services.database, here.owner)
    await joins.renew(no_lanes)
    assert await live_owners(services.database) == {here.owner, joins.owner}
    here.poll_soon()
    fake_clock[0] += LEASE_MS // 2
    await here.renew(no_lanes)
    assert here.epoch == epoch


async def test_a_process_that_could_not_renew_gives_expired_ones_a_lease_period(
    services: Services, fake_clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own lease has not ended yet."""
    here, other = Leases(services.database, LEASE_MS), Leases(services.database, LEASE_MS)
    for each in (here, other, here):
        each.poll_soon()
        await each.renew(no_lanes)

    async def is_away(*_: object) -> bool:
        raise Unavailable("The database cannot be used right now.")

    fake_clock[0] += LEASE_MS // 2
    with monkeypatch.context() as away:
        away.setattr(lane_assignment, "renew", is_away)
        with pytest.raises(Unavailable):
            await here.renew(no_lanes)
    await expire_lease(services.database, other.owner)
    await here.renew(no_lanes)
    assert await live_owners(services.database) == {here.owner, other.owner}
    fake_clock[0] += LEASE_MS - 1
    await here.renew(no_lanes)
    assert other.owner in await live_owners(services.database)
    fake_clock[0] += LEASE_MS // 2
    await here.renew(no_lanes)
    assert await live_owners(services.database) == {here.owner}


async def test_a_stopping_process_without_a_lease_does_not_poll_constantly(services: Services) -> None:
    stops, other = Leases(services.database, LEASE_MS), Leases(services.database, LEASE_MS)
    for each in (stops, other):
        await each.renew(no_lanes)
    async with services.database.transaction() as tx:
        await lane_assignment.remove(tx, [stops.owner])
    stops.begin_leaving()
    await stops.renew(no_lanes)
    stops.poll_soon()  # an attempt has ended
    await stops.renew(no_lanes)
    assert not stops.time_to_renew()
    assert await live_owners(services.database) == {other.owner}


# --- Renewal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_the_lease_is_renewed_while_requests_use_all_connections(site: Inside) -> None:
    database = site.services.database
    async with site.delivering() as made, AsyncExitStack() as requests:
        for _ in range(site.services.settings.database_connections - 1):
            tx = await requests.enter_async_context(database.transaction())
            await tx.fetch_one(sa.select(1))
        before = made._leased.leases.valid_until
        await wait_until(lambda: made._leased.leases.valid_until > before + 100)
        row = await tx.fetch_one(
            sa.text(
                "SELECT count(*) AS n FROM pg_stat_activity"
                " WHERE datname = current_database() AND backend_type = 'client backend'"
            )
        )
        assert row is not None
        assert row["n"] <= site.services.settings.database_connections


async def test_the_lease_ends_when_the_worker_hangs(
    site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others can then deliver what the worker does not."""
    read, reads, go_on = queries.due_dispatches, asyncio.Event(), asyncio.Event()

    async def hang(*given: Any) -> Any:
        reads.set()
        await go_on.wait()
        return await read(*given)

    hung = metrics.TROUBLE.labels("hung")
    before = hung._value.get()
    await site.hooks([receiver.url])
    async with site.delivering() as made:
        await wait_until(lambda: made.state == "ok")
        monkeypatch.setattr(queries, "due_dispatches", hang)
        monkeypatch.setattr(made, "accepts_dispatches", lambda: False)  # prevents delivery from memory
        await site.publish(1)
        await asyncio.wait_for(reads.wait(), WAIT_S)
        patience = worker.SILENT_S, worker.HUNG_S
        try:
            worker.SILENT_S = worker.HUNG_S = 0.5  # every turn now counts as hung
            await wait_until(lambda: not made._leased.leases.is_valid)
            assert "has not looked for work" in made.state
            assert hung._value.get() == before + 1
        finally:
            worker.SILENT_S, worker.HUNG_S = patience
            go_on.set()
        await wait_until(lambda: made.state == "ok")
        await wait_until(lambda: numbers(receiver))
    assert numbers(receiver) == [1]


async def test_a_process_that_cannot_renew_reports_it(site: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_away(*_: object) -> bool:
        raise Unavailable("The database cannot be used right now.")

    async with site.delivering() as made:
        await wait_until(lambda: made.state == "ok")
        with monkeypatch.context() as away:
            away.setattr(lane_assignment, "renew", is_away)
            await wait_until(lambda: "database" in made.state)
        await wait_until(lambda: made.state == "ok")


# --- Signals to the worker --------------------------------------------------------------------------------------------


async def test_lanes_that_others_left_are_served_immediately(calm: Inside, receiver: Receiver) -> None:
    database = calm.services.database
    hooks = await calm.hooks([f"{receiver.url}?{number}" for number in range(8)])
    async with calm.delivering() as made:
        lease, lanes = made._leased.leases, made._leased.leases.assignment
        await wait_until(lambda: lanes.settled)
        async with database.transaction() as tx:
            generation = await lane_assignment.join(tx, "elsewhere/1/x", 3_600_000)
        lease.poll_soon()
        await wait_until(lambda: lanes.generation == generation and lanes.settled)
        await calm.publish(1)
        await wait_until(lambda: len(numbers(receiver)) == sum(map(lanes.is_own, hooks)))
        async with database.transaction() as tx:
            await lane_assignment.remove(tx, ["elsewhere/1/x"])
        lease.poll_soon()
        await wait_until(lambda: len(numbers(receiver)) == len(hooks))
    assert numbers(receiver) == [1] * len(hooks)


async def test_retries_recorded_by_another_process_are_read_in_pages(
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
        await wait_until(lambda: len(numbers(receiver)) == 20)
    assert numbers(receiver) == list(range(20))


async def test_others_learn_immediately_that_nothing_of_their_lane_is_in_flight(
    calm: Inside, receiver: Receiver
) -> None:
    """The new owner of the lane waits for this before it starts."""
    database, go_on = calm.services.database, threading.Event()
    receiver.reply = lambda _: Reply() if go_on.wait(WAIT_S) else Reply(status=500)
    (hook,) = await calm.hooks([receiver.url])
    async with calm.delivering() as made:
        lease = made._leased.leases
        await wait_until(lambda: lease.assignment.settled)
        await calm.publish(1)
        await wait_until(lambda: numbers(receiver))
        other = next(name for name in map(str, count()) if View(1, [lease.owner, name]).owner_of(hook) == name)
        async with database.transaction() as tx:
            await lane_assignment.join(tx, other, 3_600_000)
        database.signals.send(WORKERS, (0,))
        try:
            await wait_for_in_flight(database, lease.owner, [hook])
        finally:
            go_on.set()
        await wait_for_in_flight(database, lease.owner, [])


def test_a_dead_process_is_replaced_within_twelve_seconds() -> None:
    """With the default settings, others look when a lease ends or a moment later.

    One missed heartbeat does not end a lease.
    """
    lease_ms = load({}, {}).delivery_lease_s * 1000
    assert lease_ms + leases.UNSETTLED_MS + leased_lanes.POLL_MS <= 12_000
    assert lease_ms > 2 * leases.BEAT_MS


# --- Membership ------------------------------------------------------------------------------------------------------
# No lane is ever served by two processes, however their reads and actions interleave. The processes and the rows of
# `workers` are in memory here. Time passes in steps; a process reads all rows at one moment and may act on what it has
# read at any later one.


LANES = range(1, 13)
LEASE = 10
PROCESSES = 3


@dataclass
class Row:
    epoch: int
    until: int
    acknowledged: int
    finishing: frozenset[int] = frozenset()
    leaving: bool = False


@dataclass
class Process:
    """The state which `Leases` and `LeasedLanes` have in a real process."""

    owner: str
    assignment: LaneAssignment
    epoch: int = 0
    good_until: int = 0
    in_flight: Counter[int] = field(default_factory=Counter)  # attempts of the current lease
    left_over: Counter[int] = field(default_factory=Counter)  # attempts of earlier leases, which end by themselves
    read: Snapshot | None = None  # a snapshot that the process has not yet acted on
    leaving: bool = False

    def lose(self) -> None:
        self.epoch = self.good_until = 0
        self.assignment.clear()
        self.left_over += self.in_flight
        self.in_flight.clear()
        self.read = None


class Processes(RuleBasedStateMachine):
    """`rows` is the table of workers; `generation` is its generation number."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.generation = 0
        self.rows: dict[str, Row] = {}
        self.processes: list[Process] = []

    def _seen(self) -> Snapshot:
        members = [
            WorkerRow(owner, row.epoch, row.until - self.now, row.acknowledged, row.finishing, row.leaving)
            for owner, row in self.rows.items()
        ]
        return Snapshot(self.generation, members)

    def _row(self, process: Process) -> Row | None:
        row = self.rows.get(process.owner)
        return row if row is not None and process.epoch and row.epoch == process.epoch else None

    @precondition(lambda self: len(self.processes) < PROCESSES)
    @rule(target=made)
    def a_process_starts(self) -> Process:
        owner = f"p{len(self.processes)}"
        self.processes.append(Process(owner, LaneAssignment(owner)))
        return self.processes[-1]

    @rule(process=made)
    def beat(self, process: Process) -> None:
        """Renew the lease, or join again if others have removed the process."""
        may = process.assignment.may_work_on
        finishing = frozenset(lane for lane in process.in_flight if not may(lane))
        row = self._row(process)
        if row is None and process.leaving:
            process.lose()
            return
        if row is None:
            process.lose()
            self.generation += 1
            process.epoch = self.generation
            self.rows[process.owner] = Row(self.generation, self.now + LEASE, self.generation)
        else:
            row.until, row.acknowledged, row.finishing = self.now + LEASE, process.assignment.generation, finishing
        process.good_until = self.now + LEASE
        process.read = self._seen()

    @rule(process=made)
    def look(self, process: Process) -> None:
        process.read = self._seen()

    @rule(process=made)
    def act(self, process: Process) -> None:
        """Act on the last snapshot, which may be old."""
        seen, process.read = process.read, None
        if seen is None or process.epoch == 0:
            return
        if not any((each.owner, each.epoch) == (process.owner, process.epoch) for each in seen.members):
            process.lose()
        else:
            process.assignment.apply(seen)

    @rule(process=made)
    def turn(self, process: Process) -> None:
        """Renew and act without a delay in between."""
        self.beat(process)
        self.act(process)

    @rule(process=made)
    def remove_dead(self, process: Process) -> None:
        dead = [owner for owner, row in self.rows.items() if row.until < self.now and owner != process.owner]
        for owner in dead:
            del self.rows[owner]
        if dead:
            self.generation += 1

    @rule(process=made)
    def leave_soon(self, process: Process) -> None:
        row = self._row(process)
        if row is not None and not process.leaving:
            process.leaving = row.leaving = True
            self.generation += 1

    @rule(process=made)
    def leave(self, process: Process) -> None:
        """Leave if nothing is in flight."""
        if not process.in_flight and self._row(process) is not None:
            del self.rows[process.owner]
            self.generation += 1
            process.lose()

    @rule(process=made, lanes=st.sets(st.sampled_from(LANES)))
    def start(self, process: Process, lanes: set[int]) -> None:
        for lane in lanes:
            good = self.now < process.good_until and not process.leaving
            if good and process.assignment.may_work_on(lane) and not process.left_over[lane]:
                process.in_flight[lane] += 1

    @rule(process=made, lanes=st.sets(st.sampled_from(LANES)))
    def land(self, process: Process, lanes: set[int]) -> None:
        for lane in lanes:
            process.in_flight[lane] -= 1
            process.left_over[lane] -= 1
        process.in_flight, process.left_over = +process.in_flight, +process.left_over

    @rule(steps=st.integers(1, LEASE))
    def time_passes(self, steps: int) -> None:
        self.now += steps

    @invariant()
    def no_lane_is_served_by_two_processes(self) -> None:
        """Assert that at most one process with a valid lease serves a lane. Attempts of removed leases do not count."""
        for lane in LANES:
            workers = [
                each.owner
                for each in self.processes
                if self.now < each.good_until and (each.in_flight[lane] or each.assignment.may_work_on(lane))
            ]
            assert len(workers) <= 1, (lane, workers)

    def teardown(self) -> None:
        """Assert that every lane has exactly one owner after the last change."""
        living = [each for each in self.processes if each.epoch and self._row(each) is not None]
        for each in living:
            each.in_flight.clear()
        for _ in range(3):
            for each in living:
                self.beat(each)
                self.act(each)
        for owner in set(self.rows) - {each.owner for each in living}:
            raise AssertionError(f"nobody is {owner}")
        if any(not each.leaving for each in living):
            assert all(sum(each.assignment.may_work_on(lane) for each in living) == 1 for lane in LANES)


def test_no_lane_is_ever_served_by_two_processes() -> None:
    run_state_machine_as_test(Processes, settings=settings(max_examples=deep(200, 3000), stateful_step_count=50))


OWNERS = st.lists(st.text("abcdef", min_size=1), min_size=2, max_size=6, unique=True)


@given(OWNERS, st.data())
def test_only_the_lanes_of_a_leaving_process_change_owner(owners: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(owners))
    before, after = View(1, owners), View(2, [each for each in owners if each != gone])
    for lane in LANES:
        if before.owner_of(lane) != gone:
            assert after.owner_of(lane) == before.owner_of(lane)


def test_lanes_are_distributed_about_evenly() -> None:
    view = View(1, [f"host/{number}/x" for number in range(4)])
    shares = Counter(view.owner_of(lane) for lane in range(10_000))
    assert all(2200 < share < 2800 for share in shares.values())


def established_and_newcomer() -> tuple[LaneAssignment, LaneAssignment]:
    """Return an established process and one that joins."""
    here, newcomer = LaneAssignment("a"), LaneAssignment("b")
    here.apply(Snapshot(1, [WorkerRow("a", 1, 10, 1, frozenset())]))
    return here, newcomer


def test_a_new_process_waits_for_attempts_in_flight() -> None:
    here, newcomer = established_and_newcomer()
    lane = next(lane for lane in LANES if View(2, ["a", "b"]).owner_of(lane) == "b")
    other = next(each for each in LANES if View(2, ["a", "b"]).owner_of(each) == "b" and each != lane)
    coming = [WorkerRow("a", 1, 10, 1, frozenset()), WorkerRow("b", 2, 10, 2, frozenset())]
    newcomer.apply(Snapshot(2, coming))
    assert not newcomer.may_work_on(lane)
    assert newcomer.is_own(lane)
    here.apply(Snapshot(2, coming))
    assert not here.may_work_on(lane)
    finishing = [WorkerRow("a", 1, 10, 2, frozenset({lane})), WorkerRow("b", 2, 10, 2, frozenset())]
    newcomer.apply(Snapshot(2, finishing))
    assert not newcomer.may_work_on(lane)
    assert newcomer.may_work_on(other)
    assert not newcomer.settled
    newcomer.apply(Snapshot(2, [WorkerRow("a", 1, 10, 2, frozenset()), WorkerRow("b", 2, 10, 2, frozenset())]))
    assert newcomer.may_work_on(lane)
    assert newcomer.settled


def test_a_stopping_process_keeps_only_lanes_with_attempts_in_flight() -> None:
    here, other = established_and_newcomer()
    both = [WorkerRow("a", 1, 10, 2, frozenset()), WorkerRow("b", 2, 10, 2, frozenset())]
    for each in (here, other):
        each.apply(Snapshot(2, both))
    lane, further = [lane for lane in LANES if here.is_own(lane)][:2]
    other.apply(Snapshot(3, [WorkerRow("a", 1, 10, 3, frozenset({lane}), leaving=True), both[1]]))
    assert not other.may_work_on(lane)
    assert other.may_work_on(further)


def test_old_views_are_dropped_if_a_process_never_acknowledges() -> None:
    here, _ = established_and_newcomer()
    for generation in range(2, 3 * VIEWS_MAX):
        here.apply(
            Snapshot(
                generation, [WorkerRow("a", 1, 10, generation, frozenset()), WorkerRow("b", 2, 10, 1, frozenset())]
            )
        )
    assert not any(here.may_work_on(lane) for lane in LANES)
