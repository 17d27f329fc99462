"""Memory for large payloads: many at once wait for each other rather than for the out-of-memory killer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Budget:
    """`total` bytes. Who asks for more than that alone gets all of it."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Waits until `size` bytes are free, and holds them inside the block."""
        size = min(size, self._total)
        async with self._changed:
            await self._changed.wait_for(lambda: self._used + size <= self._total)
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            async with self._changed:
                self._changed.notify_all()
