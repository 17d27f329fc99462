"""What the rest of the program knows of a database."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

import structlog
from sqlalchemy.sql.expression import Executable

from workhook.core.errors import Unavailable
from workhook.storage import metrics
from workhook.storage.clashes import clash
from workhook.storage.signals import Signals

T = TypeVar("T")

TRIES = 5  # of a transaction that the database rolls back; a deadlock is found after a second
PAUSE_MAX_S = 0.02  # before the second try; twice as long before each further one

# int, str, bytes, float, bool, None, or a list of ints or texts (see `dialects.any_of`); the drivers refuse the rest.
Value = object
Params = Mapping[str, Value]
# A statement that is run once for each of the parameter sets.
Step = tuple[Executable, Sequence[Params]]


class Waiting(NamedTuple):
    """A write that goes along with another statement; `name` is what that one calls its answer."""

    name: str
    statement: Executable
    rows: Sequence[Params]


class Question(NamedTuple):
    """A SELECT that goes along with what waits; `then` gets what it answers."""

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


class RolledBack(Unavailable):
    """The database itself took the transaction back, whole, because of others beside it: the same again can succeed at
    once. `reason`: `deadlock`, `serialization`, `locked`; `schema`: a migration changed what a statement answers."""

    def __init__(self, reason: str, message: str = "The database is busy.") -> None:
        super().__init__(message, code="database_unavailable")
        self.reason = reason


class Reader(Protocol):
    """Reads: a `Database` reads what is committed, a `Transaction` also what it wrote itself."""

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...
    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None: ...
    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...


class Transaction(ABC):
    """All or nothing. Obtained from `Database.transaction()`; leaving the block commits, an exception rolls back."""

    dialect: str

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self._before_commit: list[Callable[[Transaction], Awaitable[None]]] = []
        self._after_commit: list[Callable[[], None]] = []
        self.state: dict[object, Any] = {}
        self.waiting: list[Waiting] = []
        self.question: Question | None = None
        self.is_last_step = False  # the last of the steps before the commit is running
        self.is_ending = False  # nothing will be asked after what waits now

    @abstractmethod
    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...

    @abstractmethod
    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None: ...

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        """In a transaction, which has its connection for itself, like any other read."""
        return await self.fetch_all(statement, params)

    @abstractmethod
    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        """Run one statement; answers the number of rows it changed."""

    @abstractmethod
    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        """Run one statement once per row of parameters, in one trip."""

    def later(self, statement: Executable, rows: Sequence[Params], *, name: str = "") -> None:
        """Write this before anything else is asked of the database, or at the end: whose answer nobody needs.

        All that waits is one trip. On PostgreSQL it is one statement: none of it sees what another part writes, and no
        two may change the same row. So what clashes with what waits already is a mistake of the program, on SQLite too
        (`storage.clashes`, which knows nothing of what triggers write). Several rows only of a plain INSERT. What the
        database raises is raised where it is run.
        """
        if rows:
            self._require_apart(statement)
            if self.question is not None:
                found = clash([statement], self.question.statement)
                assert not found, found
            self.waiting.append(Waiting(name or f"waiting{len(self.waiting)}", statement, rows))

    async def fetch_later(
        self, statement: Executable, params: Params | None, then: Callable[[Sequence[Row]], None]
    ) -> None:
        """`fetch_along`, but it waits as well, and `then` gets the answer: before the callbacks after the commit."""
        if self.question is not None:
            await self.flush()
        self._require_apart(statement)
        self.question = Question(statement, params, then)

    @abstractmethod
    async def flush(self) -> None:
        """Write now what waits; everything else of a transaction does so first, but for `fetch_along`."""

    async def fetch_along(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        """`fetch_all` in the same trip as what waits. On PostgreSQL the statement, a SELECT, does not see what that
        writes, but for the RETURNING of what has a name, which it may read from as if from a table."""
        if self.question is not None:
            await self.flush()
        self._require_apart(statement)
        return await self._fetch_along(statement, params)

    @abstractmethod
    async def _fetch_along(self, statement: Executable, params: Params | None) -> Sequence[Row]: ...

    def _require_apart(self, statement: Executable) -> None:
        found = clash([each.statement for each in self.waiting], statement) if self.waiting else ""
        assert not found, found

    def before_commit(self, step: Callable[[Transaction], Awaitable[None]]) -> None:
        """Run `step` inside the transaction, as its last act. Steps run in the order they were added."""
        self._before_commit.append(step)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call once the transaction is durable; never called if it is not."""
        self._after_commit.append(callback)

    async def finish(self) -> None:
        """For engines: run the steps, including those that steps add, and write what waits."""
        while self._before_commit:
            step = self._before_commit.pop(0)
            self.is_last_step = not self._before_commit
            await step(self)
            self.is_last_step = False
        self.is_ending = True
        await self.flush()

    def committed(self) -> None:
        """For engines: the transaction is durable. What a callback does wrong changes nothing about that."""
        for callback in self._after_commit:
            try:
                callback()
            except Exception:
                log.exception("after_commit_failed")


class Database(ABC):
    """A database that is open. Close it with `close()`."""

    name: str
    signals: Signals

    @property
    def apart(self) -> Database:
        """The same by a way on which little goes, for what must come in time. One thing at a time."""
        return self

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction. The block is left only when the commit is durable.

        Raises `core.errors.Unavailable` when the database cannot be reached or written (`RolledBack` where the same
        again can succeed at once), `UniqueViolation` for a clash.
        """

    async def in_transaction(self, change: Callable[[Transaction], Awaitable[T]]) -> T:
        """What `change` answers, in a transaction of its own; `TRIES` times at most, if the database takes it back.

        Each try has a new transaction, so that no step, callback or signal of an earlier one is left. `change` begins
        anew each time: what it changes outside of the transaction has to bear that. Raises what `transaction` raises.
        """
        return await self._persist(lambda: self._try(change))

    async def write_returning(self, steps: Sequence[Step], last: Executable, params: Params) -> Sequence[Row]:
        """`write`, and the rows of the last statement, which may write as well. It is tried `TRIES` times at most."""
        return await self._persist(lambda: self._write_returning(steps, last, params))

    async def _persist(self, act: Callable[[], Awaitable[T]]) -> T:
        for number in range(1, TRIES):
            try:
                return await act()
            except RolledBack as problem:
                metrics.ROLLED_BACK.labels(problem.reason, "again").inc()
                cause = str(problem.__cause__ or problem)
                log.warning("transaction_rolled_back", reason=problem.reason, tries=number, cause=cause)
            # At random: two that met would meet again.
            await asyncio.sleep(random.uniform(0, PAUSE_MAX_S * 2 ** (number - 1)))  # noqa: S311  # no secret
        try:
            return await act()
        except RolledBack as problem:
            metrics.ROLLED_BACK.labels(problem.reason, "refused").inc()
            cause = str(problem.__cause__ or problem)
            log.error("transaction_given_up", reason=problem.reason, tries=TRIES, cause=cause)
            raise

    async def _try(self, change: Callable[[Transaction], Awaitable[T]]) -> T:
        async with self.transaction() as tx:
            return await change(tx)

    @abstractmethod
    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...

    @abstractmethod
    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None: ...

    @abstractmethod
    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        """`fetch_all` for what may look at many rows. Raises `storage.slow.TooSlow` when that takes seconds."""

    @abstractmethod
    async def write(self, steps: Sequence[Step]) -> None:
        """Run steps of which none needs another's answer in a transaction of their own, in as few trips as possible.

        Durable when it returns; raises what `transaction` raises.
        """

    @abstractmethod
    async def _write_returning(self, steps: Sequence[Step], last: Executable, params: Params) -> Sequence[Row]: ...

    @abstractmethod
    async def close(self) -> None: ...
