"""Connections of PostgreSQL that stay at hand between two uses.

Each loan of asyncpg's pool takes a timer and a task, together three times the CPU of a short statement. So what was
used without trouble is not given back but kept for the next, until it was not wanted for a moment. Whoever has to wait
waits at the pool, and is served before what is at hand grows.
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
log = structlog.get_logger(__name__)

KEPT_S = 60.0  # then the pool has them again, which closes what nobody wants for some minutes

TROUBLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the driver raises; the last when the server ends a connection just before it is used."""


def end(connection: Any) -> None:
    """Without a word to the server. The pool may have it already."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


class Lender:
    """The connections of a pool. `lend()` is the only way to one."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._at_hand: list[Any] = []
        self._waiting = 0
        self._keeps = True

    def lend(self) -> Loan:
        """`async with lender.lend() as connection`. Raises what a driver's error means to the rest of the program."""
        return Loan(self)

    def idle(self) -> int:
        """Connections that nobody uses."""
        return len(self._at_hand) + int(self._pool.get_idle_size())

    async def take(self) -> Any:
        while self._at_hand:
            connection = self._at_hand.pop()
            if _is_open(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
        finally:
            self._waiting -= 1

    async def give_back(self, connection: Any, *, in_trouble: bool) -> None:
        """`in_trouble`: something was raised meanwhile. The pool sees to a statement that is still under way."""
        if in_trouble or self._waiting or not self._keeps:
            await self._pool.release(connection)
        else:
            self._at_hand.append(connection)

    async def tidy(self) -> None:
        """For ever: give the pool what is at hand, now and then."""
        while True:
            await asyncio.sleep(KEPT_S)
            await self._give_up()

    async def close(self) -> None:
        """Give the pool what is at hand, and from now on whatever comes back."""
        self._keeps = False
        await self._give_up()

    async def _give_up(self) -> None:
        while self._at_hand:
            await self._pool.release(self._at_hand.pop())


class Loan:
    """See `Lender.lend`."""

    def __init__(self, lender: Lender) -> None:
        self._lender = lender

    async def __aenter__(self) -> Any:
        try:
            self._connection = await self._lender.take()
        except TROUBLE as error:
            raise dialects.postgresql_problem(error) from error
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            pipeline.forget(self._connection)
        # Of an error of the client's, whatever is under way does not end any more.
        if isinstance(error, asyncpg.InternalClientError) or dialects.is_read_only(error):
            end(self._connection)
        try:
            await self._lender.give_back(self._connection, in_trouble=error is not None)
        except TROUBLE as trouble:
            if error is None:
                raise dialects.postgresql_problem(trouble) from trouble
            # What was raised before counts: a cancellation is not to become something that is tried again.
            log.warning("connection_not_given_back", error=str(trouble) or type(trouble).__name__)
        if isinstance(error, TROUBLE) and (problem := dialects.postgresql_problem(error)) is not error:
            raise problem from error


class Listening:
    """The one connection that listens, lent to one at a time; one of the pool as long as it is not there."""

    def __init__(self, pooled: Lender) -> None:
        self._pooled = pooled
        self._turn = asyncio.Lock()
        self.connection: Any = None

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Any]:
        """Raises as `Lender.lend` does."""
        async with self._turn:
            connection = self.connection
            if connection is None or connection.is_closed():
                async with self._pooled.lend() as other:
                    yield other
                return
            try:
                yield connection
            except BaseException as error:
                pipeline.forget(connection)
                # Of anything but an answer nobody knows what is still under way. It is made anew.
                if not isinstance(error, asyncpg.PostgresError) or dialects.is_read_only(error):
                    connection.terminate()
                if isinstance(error, TROUBLE) and (problem := dialects.postgresql_problem(error)) is not error:
                    raise problem from error
                raise


def _is_open(connection: Any) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # it ended, and the pool has it already
        return False
