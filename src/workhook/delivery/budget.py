"""Limits the memory of payloads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


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
        await self._take(size)
        try:
            yield
        finally:
            self._give_back(size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self._used + size <= self._total:
            self._used += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was granted meanwhile
                self._give_back(size)
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
                self._grant()  # later requests may need less
            raise

    def _give_back(self, size: int) -> None:
        self._used -= size
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self._used + self._waiting[0][0] <= self._total:
            size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self._used += size
                turn.set_result(None)
