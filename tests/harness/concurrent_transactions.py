"""Transactions that run concurrently with an open one, to test lock waits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import asyncpg

from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from workhook.http.calls import Services
from workhook.storage import Transaction

Work = Callable[[Transaction], Awaitable[object]]


class Beside:
    """Runs `work` in its own transaction while another one is open."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.watcher: asyncpg.Connection | None = None

    async def begin(self, work: Work) -> asyncio.Task[object]:
        """Start `work`. Return once it is done or, on PostgreSQL, waits for a lock."""
        before = await self._waiting()
        task = asyncio.create_task(self._do(work))
        async with asyncio.timeout(WAIT_S):
            while self.watcher is not None and not task.done() and await self._waiting() <= before:
                await asyncio.wait({task}, timeout=0.01)
        return task

    async def _do(self, work: Work) -> object:
        async with self._services.database.transaction() as tx:
            return await work(tx)

    async def _waiting(self) -> int:
        if self.watcher is None:
            return 0
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return int(await self.watcher.fetchval(waits))


@contextmanager
def held(server: Server, lock: str) -> Iterator[None]:
    """Hold a lock in another connection: the write lock on SQLite, or the result of the statement `lock` on
    PostgreSQL."""
    url = server.settings.get("database_url")
    if url is None:
        with closing(sqlite3.connect(server.data / "workhook.db", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
        return
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        try:
            runner.run(connection.execute("BEGIN"))
            runner.run(connection.execute(lock))
            yield
        finally:
            runner.run(connection.close())


@asynccontextmanager
async def opened(services: Services) -> AsyncIterator[Beside]:
    found = Beside(services)
    if services.settings.database_url is not None:
        found.watcher = await asyncpg.connect(services.settings.database_url)
    yield found
    if found.watcher is not None:
        await found.watcher.close()
