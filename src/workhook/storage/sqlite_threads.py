"""Connections of SQLite, each with a thread of its own, and the jobs that are run on them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from workhook.storage import dialects

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

BUSY_TIMEOUT_S = 3.0  # how long another process may hold the write lock before the answer is 503


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """A connection with the settings that durability rests on."""
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    connection.row_factory = sqlite3.Row
    pragmas = ["journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16000"]
    for pragma in [*pragmas, f"busy_timeout={int(BUSY_TIMEOUT_S * 1000)}", f"query_only={int(readonly)}"]:
        connection.execute(f"PRAGMA {pragma}")
    return connection


class Threads:
    """Runs jobs on connections of their own. A job that was submitted runs, even if nobody waits for it any more."""

    def __init__(self, path: Path, count: int, *, readonly: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job[object], asyncio.Future[object]] | None] = SimpleQueue()
        self._connections = [connect(path, readonly=readonly) for _ in range(count)]
        self._threads = [
            Thread(target=self._work, args=(connection,), name="sqlite", daemon=True)
            for connection in self._connections
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job[T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, future))  # type: ignore[arg-type]  # the queue mixes jobs of every result type
        return future

    def _work(self, connection: sqlite3.Connection) -> None:
        while (item := self._jobs.get()) is not None:
            job, future = item
            try:
                outcome: tuple[object, BaseException | None] = (job(connection), None)
            except sqlite3.Error as error:
                outcome = (None, dialects.sqlite_problem(error))
            except BaseException as error:  # noqa: BLE001  # handed to the caller
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop is closed: no caller is left
                self._loop.call_soon_threadsafe(_settle, future, *outcome)

    async def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        for connection in self._connections:
            connection.close()


def _settle(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
