"""Keeps PostgreSQL connections at hand between two uses.

Acquiring from asyncpg's pool takes a timer and a task, together three times the CPU of a short statement. So a
connection that was used without an error is kept for the next caller. Callers that wait for the pool come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any

import asyncpg
import structlog

from workhook.storage import dialects, pipeline

ACQUIRE_TIMEOUT_S = 5.0
KEPT_S = 60.0  # then the pool gets the kept connections back, and closes those that nobody uses for some minutes

DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the driver raises; the last one when the server ends a connection just before it is used."""

log = structlog.get_logger(__name__)


def terminate(connection: Any) -> None:
    """Close the connection without telling the server. The pool may have done so already."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


class ConnectionCache:
    """The connections of a pool; `connect()` is the only way to one."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._kept: list[Any] = []
        self._waiting = 0
        self._closed = False

    def connect(self) -> _Connected:
        """`async with cache.connect() as connection`. Raises driver errors as `dialects.postgresql_problem` does."""
        return _Connected(self)

    def idle(self) -> int:
        """The number of connections that nobody uses."""
        return len(self._kept) + int(self._pool.get_idle_size())

    async def acquire(self) -> Any:
        while self._kept:
            connection = self._kept.pop()
            if _is_open(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
        finally:
            self._waiting -= 1

    async def release(self, connection: Any, *, failed: bool) -> None:
        """`failed`: the block raised, so the pool has to end any statement that is still running."""
        if failed or self._waiting or self._closed:
            await self._pool.release(connection)
        else:
            self._kept.append(connection)

    async def release_idle(self) -> None:
        """Give the kept connections back to the pool every `KEPT_S` seconds, for ever."""
        while True:
            await asyncio.sleep(KEPT_S)
            await self._release_kept()

    async def close(self) -> None:
        """Give the kept connections back to the pool, and keep none from now on."""
        self._closed = True
        await self._release_kept()

    async def _release_kept(self) -> None:
        while self._kept:
            await self._pool.release(self._kept.pop())


class _Connected:
    """See `ConnectionCache.connect`. A class, because a generator's context manager takes more CPU."""

    def __init__(self, cache: ConnectionCache) -> None:
        self._cache = cache

    async def __aenter__(self) -> Any:
        try:
            self._connection = await self._cache.acquire()
        except DRIVER_ERRORS as error:
            raise dialects.postgresql_problem(error) from error
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            pipeline.forget(self._connection)
        # After an error of the client a running statement never ends.
        if isinstance(error, asyncpg.InternalClientError) or dialects.is_read_only(error):
            terminate(self._connection)
        try:
            await self._cache.release(self._connection, failed=error is not None)
        except DRIVER_ERRORS as trouble:
            if error is None:
                raise dialects.postgresql_problem(trouble) from trouble
            # The first error counts: a cancellation must not become something that is tried again.
            log.warning("connection_not_given_back", error=str(trouble) or type(trouble).__name__)
        _raise_as_problem(error)


class ListeningConnection:
    """The connection that listens, used by one caller at a time; a pooled one while it is not connected."""

    def __init__(self, pooled: ConnectionCache) -> None:
        self._pooled = pooled
        self._turn = asyncio.Lock()
        self.connection: Any = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Raises as `ConnectionCache.connect` does."""
        async with self._turn:
            connection = self.connection
            if connection is None or connection.is_closed():
                async with self._pooled.connect() as other:
                    yield other
                return
            try:
                yield connection
            except BaseException as error:
                pipeline.forget(connection)
                # Unless the server answered, a statement may still be running. The connection is made anew.
                if not isinstance(error, asyncpg.PostgresError) or dialects.is_read_only(error):
                    connection.terminate()
                _raise_as_problem(error)
                raise


def _raise_as_problem(error: BaseException | None) -> None:
    """Raise what a driver's error means to the program; return for every other error."""
    if isinstance(error, DRIVER_ERRORS) and (problem := dialects.postgresql_problem(error)) is not error:
        raise problem from error


def _is_open(connection: Any) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # it ended, and the pool has it already
        return False
