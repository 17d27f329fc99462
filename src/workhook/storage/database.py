"""What the rest of the program knows of a database."""

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

TRIES = 5  # of a transaction that the database rolls back; a deadlock is found after a second
PAUSE_MAX_S = 0.02  # before the second try; twice as long before each further one


class DeferredWrite(NamedTuple):
    """A queued write. `name`: the table from which a statement sent with it reads its RETURNING rows."""

    name: str
    statement: Executable
    rows: Sequence[Params]


class DeferredRead(NamedTuple):
    """A SELECT that is sent with the queued writes; `then` gets its rows."""

    statement: Executable
    params: Params | None
    then: Callable[[Sequence[Row]], None]


log = structlog.get_logger(__name__)


class Row(Protocol):
    """A row of either driver: values by column name or position."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def keys(self) -> Any: ...
    def __len__(self) -> int: ...


class UniqueViolation(Exception):
    """An insert or update met a row that must be unique. The transaction cannot be used further."""


class ConditionFailed(Exception):
    """A condition that a statement requires (`dialects.required`) does not hold, so nothing of it was done."""


class RolledBack(Unavailable):
    """The database rolled the whole transaction back because of concurrent ones: a retry can succeed at once.

    `reason`: `deadlock`, `serialization`, `locked`; `schema`: a migration changed what a statement returns."""

    def __init__(self, reason: str, message: str = "The database is busy.") -> None:
        super().__init__(message, code="database_unavailable")
        self.reason = reason


class Reader(Protocol):
    """Reads: a `Database` reads what is committed, a `Transaction` also what it wrote itself."""

    @abstractmethod
    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        rows = await self.fetch_all(statement, params)
        return rows[0] if rows else None

    async def fetch_row(self, statement: Executable, params: Params | None = None) -> Row:
        """Fetch the row that the statement always has: an aggregate, or `INSERT … RETURNING`."""
        row = await self.fetch_one(statement, params)
        assert row is not None, "the statement always has a row"
        return row

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        """`fetch_all` for a query that may look at many rows. Outside of transactions it raises
        `storage.slow.QueryTooSlow` when that takes seconds."""
        return await self.fetch_all(statement, params)


class Transaction(Reader):
    """All or nothing. Obtained from `Database.transaction()`; leaving the block commits, an exception rolls back."""

    dialect: str

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self._before_commit: list[Callable[[Transaction], Awaitable[None]]] = []
        self._after_commit: list[Callable[[], None]] = []
        self._locals: dict[type, Any] = {}
        self.deferred: list[DeferredWrite] = []
        self.deferred_read: DeferredRead | None = None
        self.is_ending = False  # no statement follows the deferred ones

    def local(self, kind: type[T]) -> T:
        """Return the transaction's own object of this class, made by the first call."""
        if kind not in self._locals:
            self._locals[kind] = kind()
        found: T = self._locals[kind]
        return found

    @abstractmethod
    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        """Run one statement; return the number of rows it changed."""

    async def insert(self, table: Table, values: Params) -> int:
        """Insert a row. Return its id."""
        row = await self.fetch_row(insert_for_id(table, tuple(values)), values)
        return int(row["id"])

    @abstractmethod
    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        """Run one statement once per row of parameters, in one round trip."""

    def defer(self, statement: Executable, rows: Sequence[Params], *, name: str = "") -> None:
        """Queue a write whose result is not needed. Queued writes are sent together before the next read or at commit.

        They take one round trip. On PostgreSQL they are one statement: no part sees what another part writes, and no
        two parts may change the same row. A conflict with a queued write is a defect and fails at once, on SQLite too
        (`storage.statements`, which does not know what triggers write). Only a plain INSERT takes several rows.
        Database errors are raised where the writes are sent.
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
        """Queue a SELECT that is sent with the queued writes. On PostgreSQL it does not see what they write, but it
        may read the RETURNING rows of a write that has a name, as a table of that name. `then` gets the rows before
        the callbacks after the commit."""
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
        """After the commit, send a signal. `ids` may grow until then."""
        signals = self.signals
        self.after_commit(lambda: signals.send(topic, ids))

    def before_commit(self, step: Callable[[Transaction], Awaitable[None]]) -> None:
        """Run `step` at the end of the transaction. Steps run in the order in which they were added."""
        self._before_commit.append(step)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call once the transaction is durable; never called if it is not."""
        self._after_commit.append(callback)

    async def finish(self) -> None:
        """For engines: run the steps, including those that steps add, and send the queued statements."""
        while self._before_commit:
            await self._before_commit.pop(0)(self)
        self.is_ending = True
        await self.flush()

    def committed(self) -> None:
        """For engines: the transaction is durable. An error in a callback is logged."""
        for callback in self._after_commit:
            try:
                callback()
            except Exception:
                log.exception("after_commit_failed")


class Database(Reader):
    """A database that is open. Close it with `close()`."""

    name: str
    signals: Signals

    @property
    def is_lost(self) -> bool:
        """Tell whether the open file was deleted or replaced, so that writes are lost."""
        return False

    @property
    def apart(self) -> Database:
        """Return the database over a connection with little traffic, for urgent work; one statement at once."""
        return self

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction. The block is left only when the commit is durable.

        Raises `core.errors.Unavailable` when the database cannot be reached or written (`RolledBack` where the same
        again can succeed at once), `UniqueViolation` for a clash.
        """

    @abstractmethod
    def snapshot(self) -> AbstractAsyncContextManager[Reader]:
        """Open a view of one moment over a connection of its own, to read many rows. Raises `Unavailable`."""

    async def in_transaction(self, change: Callable[[Transaction], Awaitable[T]], *, within_s: float = 0) -> T:
        """Run `change` in a transaction and return its result; up to `TRIES` times if the database rolls it back, and
        more often until `within_s` seconds have passed.

        Each try has a new transaction, so no step, callback or signal of an earlier try is left. What `change` does
        outside of the transaction has to bear being repeated. Raises what `transaction` raises.
        """

        async def run() -> T:
            async with self.transaction() as tx:
                return await change(tx)

        return await self._persist(run, within_s)

    async def _persist(self, act: Callable[[], Awaitable[T]], within_s: float = 0) -> T:
        end, number = time.monotonic() + within_s, 0
        while True:
            number += 1
            try:
                return await act()
            except RolledBack as problem:
                last = number >= TRIES and time.monotonic() >= end
                metrics.ROLLED_BACK.labels(problem.reason, "refused" if last else "again").inc()
                cause = str(problem.__cause__ or problem)
                if last:
                    log.error("transaction_given_up", reason=problem.reason, tries=number, cause=cause)
                    raise
                if number <= TRIES:  # those who wait for longer would fill the log
                    log.warning("transaction_rolled_back", reason=problem.reason, tries=number, cause=cause)
            # At random: two that met would meet again.
            longest = PAUSE_MAX_S * 2 ** (min(number, TRIES) - 1)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311  # no secret

    async def write(self, statement: Executable, rows: Sequence[Params]) -> None:
        """Run one statement once per row of parameters in a transaction of its own, in as few round trips as possible.

        Durable when it returns; raises what `transaction` raises.
        """
        async with self.transaction() as tx:
            if len(rows) == 1:
                tx.defer(statement, rows)  # goes with the COMMIT
            else:
                await tx.execute_many(statement, rows)

    @abstractmethod
    async def close(self) -> None: ...
