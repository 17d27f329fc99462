"""The outcome writer: which outcomes share a transaction, and what happens if the result of a commit is unknown."""

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
from workhook.delivery import lane_assignment, outcome_writer, queries
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
    """An outcome writer with attempts in flight that end when a test says so."""

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
    """Yield a writer that would wait for further outcomes indefinitely."""
    monkeypatch.setattr(outcome_writer, "LINGER_S", 3600)
    batches = Batches(services)
    batches.recorder.start()
    yield batches
    await batches.recorder.stop(30)


async def let_writer_run() -> None:
    """Give the writer a chance to run."""
    await asyncio.wait({asyncio.create_task(asyncio.to_thread(len, ()))})


async def test_a_failure_is_written_immediately_because_it_occupies_a_slot(batches: Batches) -> None:
    batches.in_flight = SEVERAL
    batches.end(1, ok=False)
    await batches.written(1)
    assert batches.sizes == [1]


async def test_the_only_attempt_in_flight_is_written_immediately(batches: Batches) -> None:
    batches.in_flight = 1
    batches.end(1)
    await batches.written(1)


async def test_a_success_waits_for_others_in_flight(batches: Batches) -> None:
    batches.in_flight = 2
    batches.end(1)
    await let_writer_run()
    assert batches.sizes == []
    batches.lane.failing_since = now_ms()  # otherwise the failure would be the first and written immediately
    batches.end(1, ok=False)
    await batches.written(2)


async def test_a_success_is_written_immediately_if_its_lane_waits_for_records(batches: Batches) -> None:
    """A webhook with one slot would otherwise wait for others at every third delivery."""
    batches.lane = lane_with(1, waiting=100, max_concurrency="1")
    for _ in range(1 + UNRECORDED):
        work = batches.lane.take(0)
        assert isinstance(work, PendingAttempt)
        batches.lane.mark_answered(work)
    batches.in_flight = 2  # with only one in flight, it would be written in any case
    batches.end(1)
    await batches.written(1)


async def test_failures_wait_for_each_other_if_several_are_in_flight(batches: Batches) -> None:
    batches.in_flight = OVERLAP_MIN
    batches.lane.failing_since = now_ms()
    for _ in range(OVERLAP_MIN - SEVERAL + 1):
        batches.end(1, ok=False)
        await let_writer_run()
    await batches.written(OVERLAP_MIN - SEVERAL + 1)
    assert batches.sizes == [OVERLAP_MIN - SEVERAL + 1]


async def test_a_full_batch_is_written_immediately(batches: Batches) -> None:
    batches.in_flight = 100
    batches.end(OVERLAP_MIN)
    await batches.written(OVERLAP_MIN)
    assert sum(batches.sizes) == OVERLAP_MIN


async def test_outcomes_wait_at_most_the_linger_time(batches: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_writer, "LINGER_S", 0.001)
    batches.in_flight = 100
    batches.end(2)
    await batches.written(2)


async def test_stopping_writes_everything_immediately(batches: Batches) -> None:
    batches.in_flight = 100
    batches.end(3)
    await batches.recorder.stop(30)
    assert sum(batches.sizes) == 3


@pytest.mark.parametrize("trouble", [Unavailable("The database does not answer."), RuntimeError("a defect")])
async def test_a_commit_with_a_lost_answer_is_not_repeated(
    batches: Batches, services: Services, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """This includes the case that the check whether the commit succeeded fails while the next write would not."""
    count, now = 3, now_ms()
    common = {"hook_id": 1, "attempts": 0, "retries": 0, "wanted": 0, "next_attempt_at": now, "created_at": now}
    works = list(batches.lane.ready)[:count]
    async with services.database.transaction() as tx:
        rows = [{**common, "id": each.id, "event_id": each.event_id, "guid": each.guid} for each in works]
        await tx.execute_many(_insert, rows)
        batches.lane.epoch = await lane_assignment.join(tx, "me", 60_000)
    monkeypatch.setattr(outcome_writer, "record", raising_once(queries.record, Unavailable("The connection broke.")))
    monkeypatch.setattr(outcome_writer, "attempts_of", raising_once(queries.attempts_of, trouble))
    batches.end(count)
    await batches.recorder.stop(30)
    found = await services.database.fetch_all(
        sa.select(deliveries.c.dispatch_id, deliveries.c.redelivery).order_by(deliveries.c.id)
    )
    assert [(row["dispatch_id"], bool(row["redelivery"])) for row in found] == [(each.id, False) for each in works]


def raising_once(function: Any, trouble: Exception) -> Any:
    """Wrap `function` so that it always runs, but raises `trouble` to its first caller."""
    calls = 0

    async def broken(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = await function(*arguments)
        if calls == 1:
            raise trouble
        return answer

    return broken


# --- Outcome queries -------------------------------------------------------------------------------------------------
# Attempts whose process has lost its lease, and attempts that another process has recorded as well.


def outcome(dispatch_id: int, *, redelivery: bool = False) -> DeliveryRow:
    row = dict.fromkeys(DELIVERY_COLUMNS, 1) | {
        "dispatch_id": dispatch_id, "guid": f"g{dispatch_id}", "event": "push", "action": None, "throttled_at": None,
        "redelivery": redelivery, "status": "OK", "url": "http://x/", "request_headers": b"{}",
        "response_headers": b"{}", "response_body": b"",
    }  # fmt: skip
    return tuple(row.values())


@pytest.fixture
async def epoch(services: Services) -> int:
    """Return the epoch of a lease. Dispatches 1 to 3 are due."""
    now = now_ms()
    common = {"hook_id": 1, "attempts": 0, "retries": 0, "wanted": 0, "next_attempt_at": now, "created_at": now}
    async with services.database.transaction() as tx:
        await tx.execute_many(_insert, [{**common, "id": n, "event_id": n, "guid": new_guid()} for n in (1, 2, 3)])
        return await lane_assignment.join(tx, "me", 60_000)


async def recorded(services: Services) -> list[tuple[int, bool]]:
    """Return the recorded deliveries in order: the dispatch ID and whether the delivery is a redelivery."""
    rows = await services.database.fetch_all(
        sa.select(deliveries.c.dispatch_id, deliveries.c.redelivery).order_by(deliveries.c.id)
    )
    return [(row["dispatch_id"], bool(row["redelivery"])) for row in rows]


async def test_a_first_attempt_is_recorded(services: Services, epoch: int) -> None:
    late = await record(
        services.database, [outcome(3), outcome(1)], [(n, 0, 0, 1, None, epoch) for n in (3, 1)], {}, now_ms()
    )
    assert late == set()
    assert await recorded(services) == [(3, False), (1, False)]
    assert await attempts_of(services.database, [1, 2, 3]) == {1: 1, 2: 0, 3: 1}


async def test_an_attempt_of_a_lost_lease_is_recorded_as_a_redelivery(services: Services, epoch: int) -> None:
    """Another has it in flight: that one's is the first, whichever is recorded first."""
    async with services.database.transaction() as tx:
        await lane_assignment.remove(tx, ["me"])
        other = await lane_assignment.join(tx, "other", 60_000)
    retry_at = now_ms() + 1000
    assert await record(services.database, [outcome(1)], [(1, 0, 0, 1, retry_at, epoch)], {}, now_ms()) == {1}
    assert await attempts_of(services.database, [1]) == {1: 0}
    assert await record(services.database, [outcome(1)], [(1, 0, 0, 1, None, other)], {}, now_ms()) == set()
    assert await recorded(services) == [(1, True), (1, False)]
    row = await services.database.fetch_one(sa.select(dispatches.c.next_attempt_at).where(dispatches.c.id == 1))
    assert row is not None
    assert row["next_attempt_at"] is None  # set by the owner of the lane


async def test_an_attempt_recorded_by_another_process_is_recorded_as_a_redelivery(
    services: Services, epoch: int
) -> None:
    """The batch also contains outcomes that no other process has recorded."""
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
