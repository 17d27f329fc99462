"""A queue in which organizations take turns at long-running jobs, such as those that need their own process."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class QueueFull(Exception):
    """Too many jobs are waiting."""


class FairQueue:
    """A queue that runs at most `at_once` jobs, and at most one per organization, whose organizations take turns.

    At most `waiting_max` jobs wait, and at most `waiting_max_each` of them for one organization.
    """

    def __init__(self, at_once: int, waiting_max: int, waiting_max_each: int) -> None:
        self._at_once = at_once
        self._waiting_max, self._waiting_max_each = waiting_max, waiting_max_each
        self._running: set[int] = set()
        self._waiting: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def slot(self, account_id: int) -> AsyncIterator[None]:
        """Wait for the organization's turn and hold its slot. Raises `QueueFull`."""
        if account_id in self._running or len(self._running) >= self._at_once:
            await self._wait(account_id)
        else:
            self._running.add(account_id)
        try:
            yield
        finally:
            self._running.discard(account_id)
            self._start_next()

    async def _wait(self, account_id: int) -> None:
        queue = self._waiting.setdefault(account_id, deque())
        if len(self) >= self._waiting_max or len(queue) >= self._waiting_max_each:
            self._drop_empty(account_id)
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in queue:
                queue.remove(turn)
                self._drop_empty(account_id)
            elif not turn.cancelled():  # canceled just as it got its turn: pass the turn on
                self._running.discard(account_id)
                self._start_next()
            raise

    def _start_next(self) -> None:
        """Give free slots to the organizations whose last turn was longest ago."""
        for account_id in [each for each in self._waiting if each not in self._running]:
            if len(self._running) >= self._at_once:
                return
            queue = self._waiting[account_id]
            while queue and (turn := queue.popleft()):
                if not turn.done():  # otherwise its request was canceled in the meantime
                    turn.set_result(None)
                    self._running.add(account_id)
                    break
            self._waiting.move_to_end(account_id)
            self._drop_empty(account_id)

    def _drop_empty(self, account_id: int) -> None:
        if not self._waiting.get(account_id, True):
            del self._waiting[account_id]
