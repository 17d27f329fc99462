"""The interface of a database to the rest of the program."""

from __future__ import annotations

import asyncio
import random
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

import structlog
from sqlalchemy import Table
from sqlalchemy.sql.expression import Executable

from workhook.core.errors import Unavailable
from workhook.storage import metrics
from workhook.storage.metadata import insert_for_id
from workhook.storage.signals import Signals
from workhook.storage.statements import Params, find_conflict

T = TypeVar("T")

TRIES = 5  # attempts at a transaction that the database rolls back; detecting a deadlock takes a second
PAUSE_MAX_S = 0.02  # before the second attempt; doubled for each further one


class DeferredWrite(NamedTuple):
    """A queued write. `name` is the table from which a statement sent with it can read its RETURNING rows."""

    name: str
    statement: Executable
    rows: Sequence[Params]


class DeferredRead(NamedTuple):
    """A SELECT that is sent with the queued writes. `then` receives its rows."""

    statement: Executable
    params: Params | None
    then: Callable[[Sequence[Row]], None]


log = structlog.get_logger(__name__)


class Row(Protocol):
    """A row of either driver, with values by column name or position."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def keys(self) -> Any: ...
    def __len__(self) -> int: ...


class UniqueViolation(Exception):
    """An insert or update violated a unique constraint. The transaction can no longer be used."""


class ConditionFailed(Exception):
    """A condition required by a statement (`dialects.required`) does not hold. The statement had no effect."""


class RolledBack(Unavailable):
    """The database rolled back the whole transaction because of concurrent ones. An immediate retry can succeed.

    `reason` is `deadlock`, `serialization`, `locked`, or `schema` if a migration changed the columns of a statement.
    """

    def __init__(self, reason: str, message: str = "The database is busy.") -> None:
        super().__init__(message, code="database_unavailable")
        self.reason = reason


class Reader(Protocol):
    """Read access. A `Database` reads committed data, and a `Transaction` also its own writes."""

    @abstractmethod
    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        rows = await self.fetch_all(statement, params)
        return rows[0] if rows else None

    async def fetch_row(self, statement: Executable, params: Params | None = None) -> Row:
        """Fetch a row that always exists, such as that of an aggregate or of `INSERT … RETURNING`."""
        row = await self.fetch_one(statement, params)
        assert row is not None, "the statement always has a row"
        return row

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        """Run a query that may scan many rows. Outside of transactions, raises `QueryTooSlow` after a few seconds."""
        return await self.fetch_all(statement, params)


class Transaction(Reader):
    """An atomic unit of work from `Database.transaction()`. Leaving the block commits; an exception rolls back."""

    dialect: str

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self._before_commit: list[Callable[[Transaction], Awaitable[None]]] = []
        self._after_commit: list[Callable[[], None]] = []
        self._locals: dict[type, Any] = {}
        self.deferred: list[DeferredWrite] = []
        self.deferred_read: DeferredRead | None = None
        self.is_ending = False  # no statement follows the deferred ones

    def get_local(self, kind: type[T]) -> T:
        """Return the transaction's own instance of this class, created on first use."""
        if kind not in self._locals:
            self._locals[kind] = kind()
        found: T = self._locals[kind]
        return found

    @abstractmethod
    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        """Run one statement and return the number of changed rows."""

    async def insert(self, table: Table, values: Params) -> int:
        row = await self.fetch_row(insert_for_id(table, tuple(values)), values)
        return int(row["id"])

    @abstractmethod
    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        """Run one statement once per row of parameters, in one round trip."""

    def defer(self, statement: Executable, rows: Sequence[Params], *, name: str = "") -> None:
        """Queue a write whose result is not needed. Queued writes are sent together before the next read or at commit.

        Only then are database errors raised. On PostgreSQL the writes are one statement, so no part sees the writes of
        another part, and no two parts may change the same row. A conflict is a bug and fails immediately, on SQLite too
        (`storage.statements`, which does not know the writes of triggers). Only a plain INSERT may have several rows.
        """
        if rows:
            self._check_conflicts(statement)
            if self.deferred_read is not None:
                conflict = find_conflict([statement], self.deferred_read.statement)
                assert not conflict, conflict
            self.deferred.append(DeferredWrite(name or f"deferred{len(self.deferred)}", statement, rows))

    async def defer_fetch(
        self, statement: Executable, params: Params | None, then: Callable[[Sequence[Row]], None]
    ) -> None:
        """Queue a SELECT that is sent with the queued writes.

        On PostgreSQL it does not see them, but it can read the RETURNING rows of a named write as a table with that
        name. `then` receives the rows before the after-commit callbacks run.
        """
        if self.deferred_read is not None:
            await self.flush()
        self._check_conflicts(statement)
        self.deferred_read = DeferredRead(statement, params, then)

    @abstractmethod
    async def flush(self) -> None:
        """Send the queued statements now. Every other method does so first."""

    def _check_conflicts(self, statement: Executable) -> None:
        conflict = find_conflict([each.statement for each in self.deferred], statement) if self.deferred else ""
        assert not conflict, conflict

    def signal(self, topic: str, ids: Collection[int]) -> None:
        """Send a signal after the commit. `ids` may grow until then."""
        signals = self.signals
        self.after_commit(lambda: signals.send(topic, ids))

    def before_commit(self, step: Callable[[Transaction], Awaitable[None]]) -> None:
        """Run `step` at the end of the transaction. Steps run in the order in which they were added."""
        self._before_commit.append(step)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is durable. It is never called if the transaction fails."""
        self._after_commit.append(callback)

    async def finish(self) -> None:
        """Run the steps, including steps added by steps, and send the queued statements. Called by engines."""
        while self._before_commit:
            await self._before_commit.pop(0)(self)
        self.is_ending = True
        await self.flush()

    def committed(self) -> None:
        """Run the callbacks, now that the transaction is durable. Their errors are logged. Called by engines."""
        for callback in self._after_commit:
            try:
                callback()
            except Exception:
                log.exception("after_commit_failed")


class Database(Reader):
    name: str
    signals: Signals

    @property
    def is_lost(self) -> bool:
        """Return whether the open file was deleted or replaced, which means that writes are lost."""
        return False

    @property
    def low_traffic(self) -> Database:
        """Return the database over a low-traffic connection, for urgent work. Runs one statement at a time."""
        return self

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Begin a write transaction. The block is left only after the commit is durable.

        Raises `Unavailable` (`RolledBack` if an immediate retry can succeed) and `UniqueViolation` for a duplicate.
        """

    @abstractmethod
    def snapshot(self) -> AbstractAsyncContextManager[Reader]:
        """Open a view of one moment on a separate connection, to read many rows. Raises `Unavailable`."""

    async def in_transaction(self, change: Callable[[Transaction], Awaitable[T]], *, within_s: float = 0) -> T:
        """Run `change` in a transaction and return its result. Raises the same errors as `transaction`.

        If the database rolls the transaction back, `change` is retried in a new one: up to `TRIES` attempts in all, and
        beyond that until `within_s` seconds have passed. Side effects of `change` outside of the transaction must be
        repeatable.
        """

        end, number = time.monotonic() + within_s, 0
        while True:
            number += 1
            try:
                async with self.transaction() as tx:
                    return await change(tx)
            except RolledBack as problem:
                last = number >= TRIES and time.monotonic() >= end
                metrics.ROLLED_BACK.labels(problem.reason, "refused" if last else "again").inc()
                error = str(problem.__cause__ or problem)
                if last:
                    log.error("transaction_abandoned", reason=problem.reason, tries=number, error=error)
                    raise
                if number <= TRIES:  # longer waits would flood the log
                    log.warning("transaction_rolled_back", reason=problem.reason, tries=number, error=error)
            # Random, because two transactions that collided would otherwise collide again.
            longest = PAUSE_MAX_S * 2 ** (min(number, TRIES) - 1)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311  # not a secret

    async def write(self, statement: Executable, rows: Sequence[Params]) -> None:
        """Run one statement once per row of parameters in its own transaction, in as few round trips as possible.

        Durable on return. Raises the same errors as `transaction`.
        """
        async with self.transaction() as tx:
            if len(rows) == 1:
                tx.defer(statement, rows)  # sent with the COMMIT
            else:
                await tx.execute_many(statement, rows)

    @abstractmethod
    async def close(self) -> None: ...
