"""A transaction of PostgreSQL, in as few round trips as it has statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import structlog
from sqlalchemy.sql.expression import Executable

from workhook.storage import pipeline
from workhook.storage.connection_cache import DRIVER_ERRORS, terminate
from workhook.storage.database import DeferredRead, DeferredWrite, Row, Transaction
from workhook.storage.signals import Signals
from workhook.storage.statements import Compiler, Params, Statement, joined

log = structlog.get_logger(__name__)


class Asked(NamedTuple):
    """A statement with its values in the driver's order; `planned_once`: see `Statement`."""

    sql: str
    arguments: list[Any]
    planned_once: bool | None


class PostgresTransaction(Transaction):
    """It begins with its first statement, and ends with its last (`storage.pipeline`): neither costs a trip."""

    dialect = "postgresql"

    def __init__(self, connection: Any, compiler: Compiler, signals: Signals) -> None:
        super().__init__(signals)
        self._connection = connection
        self._compile = compiler
        self._is_open = False

    async def _ready_for(self, sql: str, planned_once: bool | None) -> None:
        if self.deferred or self.deferred_read is not None:
            await self.flush()
        await self._prepare(sql, planned_once)

    async def _prepare(self, sql: str, planned_once: bool | None) -> None:
        begin, self._is_open = not self._is_open, True
        await pipeline.prepare(self._connection, sql, begin=begin, planned_once=planned_once)

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        if self.deferred or self.deferred_read is not None:
            await self.flush()
        return await self._fetch_with_deferred(statement, params)

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        known = self._compile(statement)
        arguments = known.arguments(params)
        await self._ready_for(known.sql, known.planned_once)
        row: Row | None = await self._connection.fetchrow(known.sql, *arguments)
        return row

    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        known = self._compile(statement)
        arguments = known.arguments(params)
        await self._ready_for(known.sql, known.planned_once)
        tag: str = await self._connection.execute(known.sql, *arguments)
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        if rows:
            await self.flush()
            await self.run_step(self._compile(statement), rows)

    async def run_step(self, known: Statement, rows: Sequence[Params]) -> None:
        step = as_one(known, rows)
        if step is None:
            await self._prepare(known.sql, known.planned_once)
            await self._connection.executemany(known.sql, [known.arguments(row) for row in rows])
        else:
            await self._prepare(step.sql, step.planned_once)
            await self._connection.execute(step.sql, *step.arguments)

    async def run_last(self, asked: Asked) -> Sequence[Row]:
        """With the COMMIT. A statement that is alone is a transaction without BEGIN and COMMIT."""
        rows: Sequence[Row]
        if self._is_open:
            rows = await pipeline.fetch_and_commit(
                self._connection, asked.sql, asked.arguments, planned_once=asked.planned_once
            )
            self._is_open = False
        else:
            await pipeline.prepare(self._connection, asked.sql, planned_once=asked.planned_once)
            rows = await self._connection.fetch(asked.sql, *asked.arguments)
        return rows

    async def flush(self) -> None:
        if self.deferred or self.deferred_read is not None:
            question, self.deferred_read = self.deferred_read, None
            asked = self._together(question)
            rows = await self.run_last(asked) if self.is_ending else await self._ask(asked)
            if question is not None:
                question.then(rows)
        elif self.is_ending and self._is_open:
            await pipeline.commit(self._connection)
            self._is_open = False

    async def roll_back(self) -> None:
        """Raises nothing of the driver's: what was raised before counts, a cancellation above all."""
        if not self._is_open:
            return
        try:
            await self._connection.execute("ROLLBACK")
        except DRIVER_ERRORS as error:
            log.warning("not_rolled_back", error=str(error) or type(error).__name__)  # the server does it by itself
            terminate(self._connection)

    async def _fetch_with_deferred(self, statement: Executable, params: Params | None) -> Sequence[Row]:
        return await self._ask(self._together(DeferredRead(statement, params, _pass_over)))

    async def _ask(self, asked: Asked) -> Sequence[Row]:
        await self._prepare(asked.sql, asked.planned_once)
        rows: Sequence[Row] = await self._connection.fetch(asked.sql, *asked.arguments)
        return rows

    def _together(self, question: DeferredRead | None) -> Asked:
        """One statement, of what waits and what is asked."""
        waiting, self.deferred = self.deferred, []
        parts, arguments, plans = self._parts(waiting)
        if question is not None:
            known = self._compile(question.statement)
            sql, arguments = known.sql, arguments + known.arguments(question.params)
            plans.append(known.planned_once)
        else:
            _, sql, _ = parts.pop()
        once = False if False in plans else True if True in plans else None
        return Asked(joined(tuple(parts), sql) if parts else sql, arguments, once)

    def _parts(
        self, waiting: Sequence[DeferredWrite]
    ) -> tuple[list[tuple[str, str, int]], list[Any], list[bool | None]]:
        """What `joined` takes, the values, and which parts are planned once."""
        parts, arguments, plans = [], list[Any](), list[bool | None]()
        for name, statement, rows in waiting:
            known = self._compile(statement)
            asked = as_one(known, rows)
            assert asked is not None, f"not a plain INSERT: {known.sql}"
            parts.append((name, asked.sql, len(asked.arguments)))
            arguments += asked.arguments
            plans.append(asked.planned_once)
        return parts, arguments, plans


def as_one(known: Statement, rows: Sequence[Params]) -> Asked | None:
    """The step as one statement with its values, if it can be."""
    if len(rows) == 1:
        return Asked(known.sql, known.arguments(rows[0]), known.planned_once)
    sql = known.insert_columns()
    return None if sql is None else Asked(sql, list[Any](known.columns(rows)), known.planned_once)


def _pass_over(rows: Sequence[Row]) -> None:
    return None
