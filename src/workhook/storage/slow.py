"""Reads that may scan very many rows. They run a few at a time, separate from other reads, and with a time limit.

Other reads, such as the authentication of every request, must not wait for one user's search.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from workhook.core.errors import Unavailable
from workhook.storage.database import Row

AT_ONCE = 2
TIMEOUT_S = 5.0  # for its turn, and again for the read itself
_STEPS = 20_000  # of SQLite's virtual machine between clock checks, about a millisecond


class QueryTooSlow(Unavailable):
    """The read was aborted."""

    code = "too_slow"

    def __init__(self) -> None:
        super().__init__("The search takes too long. Narrow it down, or try again later.", retry_after_s=10)


@asynccontextmanager
async def turn(free: asyncio.Semaphore) -> AsyncIterator[None]:
    """Wait for a turn among `AT_ONCE` slow reads. Raises `QueryTooSlow` after `TIMEOUT_S`."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await free.acquire()
    except TimeoutError:
        raise QueryTooSlow() from None
    try:
        yield
    finally:
        free.release()


def fetch_sqlite(connection: sqlite3.Connection, sql: str, arguments: Sequence[object]) -> Sequence[Row]:
    """Run a read. Raises `QueryTooSlow` after `TIMEOUT_S`."""
    end = time.monotonic() + TIMEOUT_S
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        return connection.execute(sql, arguments).fetchall()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise QueryTooSlow() from error
        raise
    finally:
        connection.set_progress_handler(None, 0)
