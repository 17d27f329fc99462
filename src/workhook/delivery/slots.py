"""Accounting for attempts in flight, turns among lanes, and payload memory. No I/O."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workhook.delivery.lanes import DEFAULT_CONCURRENCY, UNRECORDED, Lane, PendingAttempt


class Slots:
    """At most `limit` attempts. Lanes waiting for a slot take turns, one start each.

    `in_flight` counts attempts that are not recorded yet. Successful ones among them no longer occupy a slot.
    """

    def __init__(self, limit: int) -> None:
        self.in_flight = 0
        self._unrecorded = 0  # part of `in_flight`: answered
        self._limit = limit
        # A single hook never takes all slots, whatever concurrency it is configured with.
        self._of_one_lane = max(DEFAULT_CONCURRENCY, limit // 2)
        self._slow = 0  # part of `in_flight`: to slow receivers
        self._waiting: deque[Lane] = deque()

    @property
    def full(self) -> bool:
        sending = self.in_flight - self._unrecorded
        return sending >= self._limit or self.in_flight >= (1 + UNRECORDED) * self._limit

    def __len__(self) -> int:
        return len(self._waiting)

    def start_next(self, lane: Lane, now: int) -> PendingAttempt | float | None:
        """Call `lane.take` if a slot is free; otherwise queue the lane."""
        if not self._has_room(lane, now):
            self.queue(lane)
            return None
        work = lane.take(now)
        if isinstance(work, PendingAttempt):
            self.in_flight += 1
            work.started_at = now
            work.slow = lane.is_slow(now)
            self._slow += work.slow
        return work

    def _has_room(self, lane: Lane, now: int) -> bool:
        """Whether a slot is free for this lane. Slow receivers together never occupy more than half of the slots."""
        if self.full or lane.sending >= self._of_one_lane:
            return False
        return self._slow * 2 < self._limit or not lane.is_slow(now)

    def answered(self, lane: Lane, work: PendingAttempt) -> None:
        """Free the slot of a successful attempt before it is recorded."""
        lane.mark_answered(work)
        self._unrecorded += 1
        self._slow -= work.slow

    def free(self, work: PendingAttempt) -> None:
        self.in_flight -= 1
        if work.answered:
            self._unrecorded -= 1
        else:
            self._slow -= work.slow

    def queue(self, lane: Lane) -> None:
        if lane.ready and not lane.waiting_for_slot:
            lane.waiting_for_slot = True
            self._waiting.append(lane)

    def next(self) -> Lane:
        """Return the lane that has waited longest. Raises `IndexError` if none is waiting."""
        lane = self._waiting.popleft()
        lane.waiting_for_slot = False
        return lane


class MemoryBudget:
    """A budget of `total` bytes, granted in request order. A request for more than `total` is granted `total`."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes are free, then reserve them for the duration of the block."""
        size = min(size, self._total)
        if not self._waiting and self._used + size <= self._total:
            self._used += size
        else:
            await self._granted(size)
        try:
            yield
        finally:
            self._grant(-size)

    async def _granted(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # granted meanwhile
                self._grant(-size)
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
                self._grant()  # later requests may be smaller
            raise

    def _grant(self, used: int = 0) -> None:
        self._used += used
        while self._waiting and self._used + self._waiting[0][0] <= self._total:
            size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self._used += size
                turn.set_result(None)
