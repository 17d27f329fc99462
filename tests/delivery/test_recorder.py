"""The recorder: which outcomes share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.unit.lane_kit import lane_with
from workhook.core.clock import now_ms
from workhook.delivery import record
from workhook.delivery.attempt import Finished
from workhook.delivery.record import OVERLAP_MIN, SEVERAL, Recorder
from workhook.delivery.send import Outcome
from workhook.http.calls import Services


class Batches:
    """A recorder with attempts in flight that end when a test says so."""

    def __init__(self, services: Services) -> None:
        self.in_flight = 0
        self.sizes: list[int] = []
        self._lane = lane_with(1, waiting=100)
        self._wrote = asyncio.Event()
        self.recorder = Recorder(services.database, self._recorded, lambda: self.in_flight)

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
            work = self._lane.ready.popleft()
            self.recorder.add(Finished(self._lane, work, self._lane.hook, outcome, {}, now_ms(), None))

    async def written(self, count: int) -> None:
        while sum(self.sizes) < count:
            self._wrote.clear()
            await self._wrote.wait()


@pytest.fixture
async def batches(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Batches]:
    """One that would linger for ever."""
    monkeypatch.setattr(record, "LINGER_S", 3600)
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
    monkeypatch.setattr(record, "LINGER_S", 0.001)
    batches.in_flight = 100
    batches.end(2)
    await batches.written(2)


async def test_at_the_end_nobody_lingers(batches: Batches) -> None:
    batches.in_flight = 100
    batches.end(3)
    await batches.recorder.stop(30)
    assert sum(batches.sizes) == 3
