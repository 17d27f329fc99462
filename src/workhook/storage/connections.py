"""The connections of PostgreSQL: those of the pool, and the one that listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any

import asyncpg
import structlog

from workhook.storage import dialects, metrics, pipeline

ACQUIRE_TIMEOUT_S = 5.0

DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the driver raises; the last one when the server ends a connection just before it is used."""

log = structlog.get_logger(__name__)


def terminate(connection: Any) -> None:
    """Close the connection without telling the server. The pool may have done so already."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


class PooledConnections:
    """The connections of a pool; `connect()` is the only way to one."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def connect(self) -> _Connected:
        """`async with connections.connect() as connection`. Raises driver errors as `dialects.postgresql_problem`
        does."""
        return _Connected(self.pool)


class _Connected:
    """See `PooledConnections.connect`. A class, because a generator's context manager takes more CPU."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def __aenter__(self) -> Any:
        try:
            self._connection = await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
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
            await self._pool.release(self._connection)
        except DRIVER_ERRORS as trouble:
            # What was done is done, and committed; and of two errors the first counts.
            metrics.NOT_RELEASED.inc()
            log.warning("connection_not_given_back", error=str(trouble) or type(trouble).__name__)
        _raise_as_problem(error)


class ListeningConnection:
    """The connection that listens, used by one caller at a time; a pooled one while it is not connected."""

    def __init__(self, pooled: PooledConnections) -> None:
        self._pooled = pooled
        self._turn = asyncio.Lock()
        self.connection: Any = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Raises as `PooledConnections.connect` does."""
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
