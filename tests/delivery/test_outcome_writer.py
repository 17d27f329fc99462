"""The recorder: which outcomes share a transaction, and what it does when nobody knows whether one took place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.lane_kit import lane_with
from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.delivery import membership, outcome_writer, queries
from workhook.delivery.attempt import Finished
from workhook.delivery.outcome_writer import OVERLAP_MIN, SEVERAL, OutcomeWriter
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

    def _recorded(self, batch: Sequence[Finished]) -> None:
        self.in_flight -= len(batch)
        self.sizes.append(len(batch))
        self._wrote.set()

    def end(self, count: int) -> None:
        for _ in range(count):
            outcome = Outcome(
                status="OK",
                status_code=200,
                response_headers={},
                response_body=b"",
                duration_ms=1,
                retry_after=None,
                ok=True,
            )
            work = self.lane.ready.popleft()
            self.recorder.add(Finished(self.lane, work, self.lane.hook, outcome, {}, now_ms(), None))

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


async def test_a_single_outcome_is_written_at_once(batches: Batches) -> None:
    batches.in_flight = SEVERAL
    batches.end(1)
    await batches.written(1)
    assert batches.sizes == [1]


async def test_with_several_in_flight_outcomes_wait_for_each_other(batches: Batches) -> None:
    batches.in_flight = OVERLAP_MIN
    for _ in range(OVERLAP_MIN - SEVERAL + 1):
        batches.end(1)
        await asyncio.wait({asyncio.create_task(asyncio.to_thread(len, ()))})  # the recorder has its turns
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
