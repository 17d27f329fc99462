"""The attempts that this process has in flight, which lane starts next, and the memory of payloads. No I/O."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workhook.delivery.lanes import DEFAULT_CONCURRENCY, UNRECORDED, Lane, Work


class Slots:
    """At most `limit` attempts. Lanes that wait for a slot take turns: one start each, then the next lane.

    `in_flight` counts the attempts without a record. Those answered with success have no slot any more.
    """

    def __init__(self, limit: int) -> None:
        self.in_flight = 0
        self._unrecorded = 0  # of `in_flight`, answered
        self._limit = limit
        # One hook leaves room for others, however many slots its configuration asks for.
        self._of_one_lane = max(DEFAULT_CONCURRENCY, limit // 2)
        self._slow = 0  # of `in_flight`, to slow receivers
        self._waiting: deque[Lane] = deque()

    @property
    def full(self) -> bool:
        sending = self.in_flight - self._unrecorded
        return sending >= self._limit or self.in_flight >= (1 + UNRECORDED) * self._limit

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, lane: Lane, now: int) -> Work | float | None:
        """`lane.take` if there is a slot; otherwise the lane waits for its turn."""
        if not self._has_room(lane, now):
            self.queue(lane)
            return None
        work = lane.take(now)
        if isinstance(work, Work):
            self.in_flight += 1
            work.started_at = now
            work.slow = lane.is_slow(now)
            self._slow += work.slow
        return work

    def _has_room(self, lane: Lane, now: int) -> bool:
        """Slow receivers together never have more than half of the slots."""
        if self.full or lane.sending >= self._of_one_lane:
            return False
        return self._slow * 2 < self._limit or not lane.is_slow(now)

    def answered(self, lane: Lane, work: Work) -> None:
        """Free the slot of a success before it is recorded."""
        lane.answered(work)
        self._unrecorded += 1
        self._slow -= work.slow

    def free(self, work: Work) -> None:
        """The attempt has its record, or will have none."""
        self.in_flight -= 1
        if work.answered:
            self._unrecorded -= 1
        else:
            self._slow -= work.slow

    def queue(self, lane: Lane) -> None:
        """Let the lane wait behind the others, if it has something ready."""
        if lane.ready and not lane.waiting_for_slot:
            lane.waiting_for_slot = True
            self._waiting.append(lane)

    def next(self) -> Lane:
        """Return the lane that has waited longest. Raises `IndexError` if none waits."""
        lane = self._waiting.popleft()
        lane.waiting_for_slot = False
        return lane


class MemoryBudget:
    """`total` bytes, granted in the order of the requests. A request for more than `total` gets all of it."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes are free, and hold them inside the block."""
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
            if turn.done() and not turn.cancelled():  # it was granted meanwhile
                self._grant(-size)
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
                self._grant()  # later requests may need less
            raise

    def _grant(self, used: int = 0) -> None:
        self._used += used
        while self._waiting and self._used + self._waiting[0][0] <= self._total:
            size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self._used += size
                turn.set_result(None)
