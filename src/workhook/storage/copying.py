"""Copies a SQLite file into PostgreSQL: every row as it is, then both sides are read and compared.

It may be stopped at any time: each part of a table is one transaction with the key up to which it goes, and the next
run goes on behind it. A connection that is lost is made again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import asyncpg
import msgspec
import sqlalchemy as sa
import structlog

from workhook.core.errors import Unavailable
from workhook.storage import dialects
from workhook.storage.copy_source import BYTES_A_PART, ROWS_A_PART, CopyRefused, CopySource, Mark, Part, Sum
from workhook.storage.dialects import place
from workhook.storage.migrate import COPYING, HEAD, migrate_postgresql, release_command
from workhook.storage.postgres import DRIVER_ERRORS

CONNECT_TIMEOUT_S = 10.0
_EMPTY = "Give an empty one (`createdb`), or drop this one and make it anew. Nothing was changed."
_TRIGGERS = """SELECT DISTINCT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = to_regnamespace(current_schema()) AND relname = ANY($1::text[])"""
_TABLES = """SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm')
AND relnamespace = to_regnamespace(current_schema()) ORDER BY relname"""


class TableProgress(NamedTuple):
    """`after`: the key up to which the table is copied, None at the beginning."""

    after: list[Any] | None
    done: bool


class Interfered(Exception):
    """Another process copies into the same database."""


class CopyTarget:
    """The PostgreSQL database that a copy is made into. Servers refuse it until the copy is whole.

    Open with `await CopyTarget.open(url, tables)`. Raises what the driver raises.
    """

    def __init__(self, url: str, tables: Sequence[sa.Table], connection: Any) -> None:
        self._url, self._tables, self._connection = url, tables, connection

    @classmethod
    async def open(cls, url: str, tables: Sequence[sa.Table]) -> Self:
        return cls(url, tables, await _connect(url))

    async def open_again(self) -> None:
        self._connection.terminate()
        self._connection = await _connect(self._url)

    async def unfinished(self) -> str | None:
        """The token of the copy that was begun here; None if the database is empty. Raises `CopyRefused`."""
        run = self._connection
        if not await run.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL"):
            if found := [row["relname"] for row in await run.fetch(_TABLES)]:
                raise CopyRefused(f"the database at {place(self._url)} has tables ({', '.join(found[:3])}).", _EMPTY)
            return None
        version = await run.fetchval("SELECT version_num FROM alembic_version")
        if version == COPYING:
            return str(await run.fetchval("SELECT min(token) FROM workhook_copy"))
        if version != HEAD:
            has = f"has schema {version}" if version else "holds no schema"
            raise CopyRefused(
                f"the database at {place(self._url)} {has}, and the file has schema {HEAD}.",
                "Run `workhook migrate` with the newest version on both, or give an empty database.",
            )
        await self._require_empty()
        return None

    async def begin(self, token: str) -> None:
        """Of an empty database: make the tables, and refuse servers from now on. Raises `CopyRefused`."""
        await migrate_postgresql(self._url, lambda: None)  # whoever lists the tables to copy has imported them
        run = self._connection
        async with run.transaction():
            await run.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
            await self._require_empty()
            await run.execute(
                "CREATE TABLE workhook_copy (name text PRIMARY KEY, token text NOT NULL, after bytea,"
                " done boolean NOT NULL)"
            )
            await run.executemany(
                "INSERT INTO workhook_copy VALUES ($1, $2, NULL, false)", [(each.name, token) for each in self._tables]
            )
            await self._triggers("DISABLE")
            await run.execute("UPDATE alembic_version SET version_num = $1", COPYING)

    async def progress_of(self, table: sa.Table) -> TableProgress:
        row = await self._connection.fetchrow("SELECT after, done FROM workhook_copy WHERE name = $1", table.name)
        return TableProgress(msgspec.msgpack.decode(row["after"]) if row["after"] else None, row["done"])

    async def count(self, table: sa.Table) -> int:
        return int(await self._connection.fetchval(f'SELECT count(*) FROM "{table.name}"'))  # noqa: S608  # ours

    async def add(self, table: sa.Table, part: Part, after: list[Any] | None) -> None:
        """The rows and how far it is now, in one transaction. Raises `Interfered` if it is not at `after`."""
        async with self._connection.transaction():
            columns = [each.name for each in table.columns]
            await self._connection.copy_records_to_table(table.name, records=part.rows, columns=columns)
            await self._step(table, after, part.last, done=False)

    async def complete(self, table: sa.Table, after: list[Any] | None) -> None:
        await self._step(table, after, after, done=True)

    async def _step(self, table: sa.Table, before: list[Any] | None, after: list[Any] | None, *, done: bool) -> None:
        tag = await self._connection.execute(
            "UPDATE workhook_copy SET after = $3, done = $4 WHERE name = $1 AND after IS NOT DISTINCT FROM $2",
            table.name,
            _packed(before),
            _packed(after),
            done,
        )
        if tag != "UPDATE 1":
            raise Interfered

    async def sum(self, table: sa.Table, largest: int) -> Sum:
        """`largest`: of a row, in bytes; so few are held at once."""
        listed = ", ".join(f'"{each.name}"' for each in table.columns)
        total, rows = Sum(), list[Any]()
        at_once = max(1, min(ROWS_A_PART, BYTES_A_PART // largest))
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            cursor = self._connection.cursor(f'SELECT {listed} FROM "{table.name}"', prefetch=at_once)  # noqa: S608
            async for row in cursor:
                rows.append(row)
                if len(rows) >= at_once:
                    total, rows = total.plus(rows), []
        return total.plus(rows)

    async def finish(self, numbers: dict[str, int]) -> None:
        """The copy is whole: new rows are numbered from above these on, and servers may come."""
        run = self._connection
        for table in self._tables:
            await run.execute(f'ANALYZE "{table.name}"')
        async with run.transaction():
            if await run.fetchval("SELECT version_num FROM alembic_version") == HEAD:
                return  # the connection was lost after the commit
            for table in self._tables:
                column = table.primary_key.columns[0].name
                sequence = await run.fetchval("SELECT pg_get_serial_sequence(quote_ident($1), $2)", table.name, column)
                if sequence is not None:
                    last = numbers[table.name]
                    await run.fetchval("SELECT setval($1::text::regclass, $2, $3)", sequence, max(last, 1), last > 0)
            await self._triggers("ENABLE")
            await run.execute("DROP TABLE workhook_copy")
            await run.execute("UPDATE alembic_version SET version_num = $1", HEAD)

    async def _triggers(self, verb: str) -> None:
        """What they would write is copied, too."""
        names = [each.name for each in self._tables]
        for row in await self._connection.fetch(_TRIGGERS, names):
            await self._connection.execute(f'ALTER TABLE "{row["relname"]}" {verb} TRIGGER USER')

    async def _require_empty(self) -> None:
        for table in self._tables:
            if await self._connection.fetchval(f'SELECT EXISTS (SELECT 1 FROM "{table.name}")'):  # noqa: S608  # ours
                raise CopyRefused(f"the database at {place(self._url)} is not empty: {table.name} has rows.", _EMPTY)

    async def close(self) -> None:
        await self._connection.close(timeout=CONNECT_TIMEOUT_S)


async def _connect(url: str) -> Any:
    return await asyncpg.connect(**dialects.connect_options(url), timeout=CONNECT_TIMEOUT_S)


def _packed(key: list[Any] | None) -> bytes | None:
    return None if key is None else msgspec.msgpack.encode(key)


T = TypeVar("T")
Progress = Callable[[str, int, int], None]

# Before each further try: a cluster takes half a minute to choose a new primary.
PAUSES_S = (0.5, 1.0, 2.0, *[5.0] * 12)
COPIED, COMPARED = "rows copied", "rows compared"

log = structlog.get_logger(__name__)


class Copied(NamedTuple):
    tables: dict[str, Sum]
    resumed: bool
    place: str


@dataclass
class _Copy:
    source: CopySource
    target: CopyTarget
    tables: Sequence[sa.Table]
    progress: Progress
    rows_a_part: int
    total: int = 0
    done: int = 0
    sums: dict[str, Sum] = field(default_factory=dict)

    async def copy(self) -> None:
        self.total = sum(map(self.source.count, self.tables))
        self.progress(COPIED, 0, self.total)
        for table in self.tables:
            await self._patiently(partial(self._copy_table, table, self.done))

    async def _copy_table(self, table: sa.Table, copied: int) -> None:
        """What of it is not there yet. `copied`: rows of the tables before it."""
        after, done = await self.target.progress_of(table)
        self._show(COPIED, copied + (0 if after is None else await self.target.count(table)))
        if done:
            return
        for part in self.source.parts(table, after, self.rows_a_part):
            await self.target.add(table, part, after)
            after = part.last
            self._show(COPIED, self.done + len(part.rows))
        await self.target.complete(table, after)

    async def compare(self) -> None:
        """Raises `CopyRefused` naming every table that differs."""
        self.done, wrong = 0, []
        self.progress(COMPARED, 0, self.total)
        for table in self.tables:
            ours, largest = self.source.sum(table)
            theirs = await self._patiently(partial(self.target.sum, table, largest))
            self.sums[table.name] = ours
            if ours.rows != theirs.rows:
                wrong.append(f"{table.name} has {ours.rows:,} rows in the file and {theirs.rows:,} in PostgreSQL")
            elif ours != theirs:
                wrong.append(f"{table.name} has other values in PostgreSQL")
            self._show(COMPARED, self.done + ours.rows)
        if wrong:
            raise CopyRefused(
                f"the copy differs from the file: {'; '.join(wrong)}.",
                "Somebody wrote to the database meanwhile. Drop it, make it anew, and run the command again.",
            )

    async def finish(self, mark: Mark) -> None:
        """The file first: if this ends in between, the next run finds both, and only this is left to do."""
        self.source.set_mark(mark._replace(done=True))
        numbers = {
            table.name: self.source.last_number(table)
            for table in self.tables
            if isinstance(table.primary_key.columns[0].type, sa.Integer)
        }
        await self._patiently(partial(self.target.finish, numbers))

    def _show(self, what: str, done: int) -> None:
        self.done = done
        self.progress(what, done, self.total)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """`act` reads how far it is, so it can be begun anew over another connection."""
        for pause_s in PAUSES_S:
            try:
                return await act()
            except DRIVER_ERRORS as error:
                if not isinstance(dialects.postgresql_problem(error), Unavailable):
                    raise
                log.warning("copy_interrupted", error=str(error), again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self.target.open_again()
            except DRIVER_ERRORS as error:
                log.warning("copy_not_connected", error=str(error))
        return await act()


async def copy(
    path: Path, url: str, tables: Sequence[sa.Table], progress: Progress, *, rows_a_part: int = ROWS_A_PART
) -> Copied:
    """`tables`: in an order in which each comes after those that it refers to. Raises `CopyRefused`, and what the
    drivers raise."""
    source = CopySource.open(path)
    try:
        target = await CopyTarget.open(url, tables)
        try:
            mark, resumed = await _begin(source, target, place(url))
            work = _Copy(source, target, tables, progress, rows_a_part)
            await work.copy()
            await work.compare()
            await work.finish(mark)
        except Interfered:
            raise CopyRefused(
                f"another process copies into {place(url)}.", "Let it finish, or stop it and run this again."
            ) from None
        finally:
            await target.close()
    finally:
        source.close()
    return Copied(work.sums, resumed, place(url))


async def _begin(source: CopySource, target: CopyTarget, where: str) -> tuple[Mark, bool]:
    """Which copy this is, and whether it was begun before. Marks both sides; the file first."""
    mark, token = source.mark(), await target.unfinished()
    if token is not None:
        if mark is None or mark.copy_id != token:
            raise CopyRefused(
                f"the database at {where} holds an unfinished copy of another file, or of this one before it was used"
                " again.",
                "Drop the database, make it anew, and run the command again.",
            )
        return mark, True
    if mark is not None and mark.done:
        raise CopyRefused(
            f"{source.path} was copied to {mark.place} already.",
            f"If servers are to use the file again, and that copy no more: `{release_command(source.path)}`.",
        )
    # A copy into another place is another copy: the earlier one cannot be gone on with any more.
    begun = mark.copy_id if mark and mark.place == where else None
    mark = Mark(begun or secrets.token_hex(16), where, False)
    source.set_mark(mark)
    await target.begin(mark.copy_id)
    return mark, False
