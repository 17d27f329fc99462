"""The recorder: which outcomes share a transaction, and what it does when nobody knows whether one took place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.lane_kit import lane_with
from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.core.ids import new_guid
from workhook.delivery import membership, outcome_writer, queries
from workhook.delivery.attempt import FinishedAttempt
from workhook.delivery.lanes import UNRECORDED, PendingAttempt
from workhook.delivery.outcome_writer import OVERLAP_MIN, SEVERAL, OutcomeWriter
from workhook.delivery.queries import DELIVERY_COLUMNS, DeliveryRow, attempts_of, record
from workhook.delivery.send import Outcome
from workhook.hooks.tables import deliveries, dispatches
from workhook.http.calls import Services
from workhook.storage.metadata import insert_into

_insert = insert_into(
    dispatches, "id", "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at"
)


class Batches:
    """A recorder with attempts in flight that end when a test says so."""

    def __init__(self, services: Services) -> None:
        self.in_flight = 0
        self.sizes: list[int] = []
        self.lane = lane_with(1, waiting=100)
        self._wrote = asyncio.Event()
        self.recorder = OutcomeWriter(services.database, self._recorded, lambda: self.in_flight)

    def _recorded(self, batch: Sequence[FinishedAttempt]) -> None:
        self.in_flight -= len(batch)
        self.sizes.append(len(batch))
        self._wrote.set()

    def end(self, count: int, *, ok: bool = True) -> None:
        for _ in range(count):
            outcome = Outcome(
                status="OK" if ok else "timed out",
                status_code=200 if ok else 504,
                response_headers={},
                response_body=b"",
                duration_ms=1,
                retry_after=None,
                ok=ok,
            )
            work = self.lane.ready.popleft()
            self.recorder.add(FinishedAttempt(self.lane, work, self.lane.hook, outcome, {}, now_ms(), None))

    async def written(self, count: int) -> None:
        while sum(self.sizes) < count:
            self._wrote.clear()
            await self._wrote.wait()


@pytest.fixture
async def batches(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Batches]:
    """One that would linger for ever."""
    monkeypatch.setattr(outcome_writer, "LINGER_S", 3600)
    batches = Batches(services)
    batches.recorder.start()
    yield batches
    await batches.recorder.stop(30)


async def turns() -> None:
    """The recorder has its turns."""
    await asyncio.wait({asyncio.create_task(asyncio.to_thread(len, ()))})


async def test_a_failure_is_written_at_once_since_it_has_a_slot(batches: Batches) -> None:
    batches.in_flight = SEVERAL
    batches.end(1, ok=False)
    await batches.written(1)
    assert batches.sizes == [1]


async def test_the_only_attempt_is_written_at_once(batches: Batches) -> None:
    batches.in_flight = 1
    batches.end(1)
    await batches.written(1)


async def test_a_success_waits_for_others(batches: Batches) -> None:
    batches.in_flight = 2
    batches.end(1)
    await turns()
    assert batches.sizes == []
    batches.lane.failing_since = now_ms()  # otherwise a failure is news of the receiver
    batches.end(1, ok=False)
    await batches.written(2)


async def test_a_success_is_written_at_once_where_its_lane_lacks_records(batches: Batches) -> None:
    """A webhook that takes one delivery at a time would wait for others with every third one."""
    batches.lane = lane_with(1, waiting=100, max_concurrency="1")
    for _ in range(1 + UNRECORDED):
        work = batches.lane.take(0)
        assert isinstance(work, PendingAttempt)
        batches.lane.mark_answered(work)
    batches.in_flight = 2  # with none but this one it would be written in any case
    batches.end(1)
    await batches.written(1)


async def test_with_several_in_flight_failures_wait_for_each_other(batches: Batches) -> None:
    batches.in_flight = OVERLAP_MIN
    batches.lane.failing_since = now_ms()
    for _ in range(OVERLAP_MIN - SEVERAL + 1):
        batches.end(1, ok=False)
        await turns()
    await batches.written(OVERLAP_MIN - SEVERAL + 1)
    assert batches.sizes == [OVERLAP_MIN - SEVERAL + 1]


async def test_a_full_batch_waits_for_nobody(batches: Batches) -> None:
    batches.in_flight = 100
    batches.end(OVERLAP_MIN)
    await batches.written(OVERLAP_MIN)
    assert sum(batches.sizes) == OVERLAP_MIN


async def test_they_wait_no_longer_than_that(batches: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_writer, "LINGER_S", 0.001)
    batches.in_flight = 100
    batches.end(2)
    await batches.written(2)


async def test_at_the_end_nobody_lingers(batches: Batches) -> None:
    batches.in_flight = 100
    batches.end(3)
    await batches.recorder.stop(30)
    assert sum(batches.sizes) == 3


@pytest.mark.parametrize("trouble", [Unavailable("The database does not answer."), RuntimeError("a defect")])
async def test_a_commit_whose_answer_is_lost_is_not_made_again(
    batches: Batches, services: Services, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """Nor when the first look whether it took place fails, but the next write would not."""
    count, now = 3, now_ms()
    common = {"hook_id": 1, "attempts": 0, "retries": 0, "wanted": 0, "next_attempt_at": now, "created_at": now}
    works = list(batches.lane.ready)[:count]
    async with services.database.transaction() as tx:
        rows = [{**common, "id": each.id, "event_id": each.event_id, "guid": each.guid} for each in works]
        await tx.execute_many(_insert, rows)
        batches.lane.epoch = await membership.join(tx, "me", 60_000)
    monkeypatch.setattr(outcome_writer, "record", once(queries.record, Unavailable("The connection broke.")))
    monkeypatch.setattr(outcome_writer, "attempts_of", once(queries.attempts_of, trouble))
    batches.end(count)
    await batches.recorder.stop(30)
    found = await services.database.fetch_all(
        sa.select(deliveries.c.dispatch_id, deliveries.c.redelivery).order_by(deliveries.c.id)
    )
    assert [(row["dispatch_id"], bool(row["redelivery"])) for row in found] == [(each.id, False) for each in works]


def once(function: Any, trouble: Exception) -> Any:
    """It takes place each time; of the first, the caller is told that there was `trouble`."""
    calls = 0

    async def broken(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = await function(*arguments)
        if calls == 1:
            raise trouble
        return answer

    return broken


# --- outcome queries -------------------------------------------------------------------------------------------------
# What is recorded of an attempt whose process has lost its lease, or that another has recorded as well.


def outcome(dispatch_id: int, *, redelivery: bool = False) -> DeliveryRow:
    row = dict.fromkeys(DELIVERY_COLUMNS, 1) | {
        "dispatch_id": dispatch_id, "guid": f"g{dispatch_id}", "event": "push", "action": None, "throttled_at": None,
        "redelivery": redelivery, "status": "OK", "url": "http://x/", "request_headers": b"{}",
        "response_headers": b"{}", "response_body": b"",
    }  # fmt: skip
    return tuple(row.values())


@pytest.fixture
async def epoch(services: Services) -> int:
    """The lease of a process; dispatches 1 to 3 are due."""
    now = now_ms()
    common = {"hook_id": 1, "attempts": 0, "retries": 0, "wanted": 0, "next_attempt_at": now, "created_at": now}
    async with services.database.transaction() as tx:
        await tx.execute_many(_insert, [{**common, "id": n, "event_id": n, "guid": new_guid()} for n in (1, 2, 3)])
        return await membership.join(tx, "me", 60_000)


async def recorded(services: Services) -> list[tuple[int, bool]]:
    """Dispatches and whether each attempt at them was a repeat, in the order of their records."""
    rows = await services.database.fetch_all(
        sa.select(deliveries.c.dispatch_id, deliveries.c.redelivery).order_by(deliveries.c.id)
    )
    return [(row["dispatch_id"], bool(row["redelivery"])) for row in rows]


async def test_a_first_attempt(services: Services, epoch: int) -> None:
    late = await record(
        services.database, [outcome(3), outcome(1)], [(n, 0, 0, 1, None, epoch) for n in (3, 1)], {}, now_ms()
    )
    assert late == set()
    assert await recorded(services) == [(3, False), (1, False)]
    assert await attempts_of(services.database, [1, 2, 3]) == {1: 1, 2: 0, 3: 1}


async def test_of_a_lease_that_is_lost(services: Services, epoch: int) -> None:
    """Another has it in flight: that one's is the first, whichever is recorded first."""
    async with services.database.transaction() as tx:
        await membership.remove(tx, ["me"])
        other = await membership.join(tx, "other", 60_000)
    retry_at = now_ms() + 1000
    assert await record(services.database, [outcome(1)], [(1, 0, 0, 1, retry_at, epoch)], {}, now_ms()) == {1}
    assert await attempts_of(services.database, [1]) == {1: 0}
    assert await record(services.database, [outcome(1)], [(1, 0, 0, 1, None, other)], {}, now_ms()) == set()
    assert await recorded(services) == [(1, True), (1, False)]
    row = await services.database.fetch_one(sa.select(dispatches.c.next_attempt_at).where(dispatches.c.id == 1))
    assert row is not None
    assert row["next_attempt_at"] is None  # by the one that has the lane


async def test_what_another_has_recorded(services: Services, epoch: int) -> None:
    """In one batch with what nobody else has."""
    await record(services.database, [outcome(2)], [(2, 0, 0, 1, None, epoch)], {}, now_ms())
    batch = [outcome(1), outcome(2), outcome(3)]
    late = await record(services.database, batch, [(n, 0, 0, 1, None, epoch) for n in (1, 2, 3)], {}, now_ms())
    assert late == {2}
    assert await recorded(services) == [(2, False), (1, False), (2, True), (3, False)]
    assert await attempts_of(services.database, [1, 2, 3]) == {1: 1, 2: 1, 3: 1}


async def test_stopping_has_a_single_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(OutcomeWriter):
        async def _run(self) -> None:
            await asyncio.Event().wait()

    async def wait(tasks: set[asyncio.Task[None]], **limits: float) -> tuple[set[Any], set[Any]]:
        timeouts.append(limits["timeout"])
        return set(), tasks

    database: Any = None
    timeouts: list[float] = []
    times = iter((100.0, 100.3))
    writer = Stuck(database, lambda _: None, lambda: 0)
    writer.start()
    monkeypatch.setattr(outcome_writer, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(asyncio, "wait", wait)
    await writer.stop(0.5)
    assert timeouts == [0.5, pytest.approx(0.2)]
