"""What the rest of the program knows of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import structlog
from sqlalchemy.sql.expression import Executable

from workhook.storage.signals import Signals

# int, str, bytes, float, bool, None, or a list of ints or texts (see `dialects.any_of`); the drivers refuse the rest.
Value = object
Params = Mapping[str, Value]
# A statement that is run once for each of the parameter sets.
Step = tuple[Executable, Sequence[Params]]


log = structlog.get_logger(__name__)


class Row(Protocol):
    """A row of either driver: values by column name or position."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def keys(self) -> Any: ...
    def __len__(self) -> int: ...


class UniqueViolation(Exception):
    """An insert or update met a row that must be unique. The transaction cannot be used further."""


class Reader(Protocol):
    """Reads: a `Database` reads what is committed, a `Transaction` also what it wrote itself."""

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...
    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None: ...
    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]: ...


class Transaction(ABC):
    """All or nothing. Obtained from `Database.transaction()`; leaving the block commits, an exception rolls back."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self._before_commit: list[Callable[[Transaction], Awaitable[None]]] = []
        self._after_commit: list[Callable[[], None]] = []
        self.state: dict[object, Any] = {}

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

    def before_commit(self, step: Callable[[Transaction], Awaitable[None]]) -> None:
        """Run `step` inside the transaction, as its last act. Steps run in the order they were added."""
        self._before_commit.append(step)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call once the transaction is durable; never called if it is not."""
        self._after_commit.append(callback)

    async def finish(self) -> None:
        """For engines: run the steps, including those that steps add."""
        while self._before_commit:
            await self._before_commit.pop(0)(self)

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

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction. The block is left only when the commit is durable.

        Raises `core.errors.Unavailable` when the database cannot be reached or written, `UniqueViolation` for a clash.
        """

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
    async def close(self) -> None: ...
