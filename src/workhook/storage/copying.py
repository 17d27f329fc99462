"""Copies a SQLite file into PostgreSQL: every row unchanged, then both sides are read and compared.

No other process may have the file open, and servers can no longer use it. The copy can be interrupted at any time and
continued, because each part of a table is one transaction that also records the last copied key.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import sqlalchemy as sa
import structlog

from workhook.core.errors import Unavailable
from workhook.core.text import counted
from workhook.storage import dialects, row_stream
from workhook.storage.dialects import database_address
from workhook.storage.migrate import COPYING, HEAD, MOVED, migrate_postgresql, release_command
from workhook.storage.postgres import DRIVER_ERRORS
from workhook.storage.row_stream import BYTES_A_PART, ROWS_A_PART, CopyRefused, IncompatibleValue, Progress, Sum

T = TypeVar("T")

# Delays before each retry, because a cluster takes half a minute to elect a new primary.
PAUSES_S = (0.5, 1.0, 2.0, *[5.0] * 12)
COPIED, COMPARED = "rows copied", "rows compared"

log = structlog.get_logger(__name__)

WAIT_S = 2.0  # for a command that is reading the file right now
_STOP = "Stop the server, every worker, and every other command that uses the file. Nothing was changed."
_EMPTY = "Use an empty database (`createdb`), or drop this one and create it again. Nothing was changed."
_TRIGGERS = """SELECT DISTINCT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = to_regnamespace(current_schema()) AND relname = ANY($1::text[])"""
_TABLES = """SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm')
AND relnamespace = to_regnamespace(current_schema()) ORDER BY relname"""


# --- the file ---------------------------------------------------------------------------------------------------------


class CopyMarker(NamedTuple):
    """The mark of a file that was or is being copied. `done` means that the copy is complete."""

    copy_id: str
    place: str
    done: bool


class Part(NamedTuple):
    """Consecutive rows, and the primary key of the last one: the next part starts after it."""

    rows: list[list[Any]]
    last: list[Any]


class CopySource:
    """The file to copy. Open with `CopySource.open(path)`, which raises `CopyRefused` and `sqlite3.Error`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Self:
        if not path.is_file():
            raise CopyRefused(f"file {path} does not exist.", "Name a database file, such as data/workhook.db.")
        connection = row_stream.open_file(path, WAIT_S)
        try:
            _lock(connection, path)
            _require_schema(connection, path)
        except BaseException:
            connection.close()
            raise
        return cls(path, connection)

    def mark(self) -> CopyMarker | None:
        if self._connection.execute("SELECT version_num FROM alembic_version").fetchone()[0] != MOVED:
            return None
        row = self._connection.execute("SELECT schema, token, place, done FROM moved_to").fetchone()
        schema, token, place, done = row
        if schema != HEAD:
            raise CopyRefused(
                f"the copy of {self.path} was started by another version of Workhook (schema {schema}).",
                f"Continue with that version, or run `{release_command(self.path)}` and start over.",
            )
        return CopyMarker(token, place, bool(done))

    def set_mark(self, mark: CopyMarker) -> None:
        """Make every version of Workhook refuse the file, because further changes to it would be lost."""
        self._write(
            ("DROP TABLE IF EXISTS moved_to", ()),
            ("CREATE TABLE moved_to (schema TEXT, token TEXT, place TEXT, done INTEGER)", ()),
            ("INSERT INTO moved_to VALUES (?, ?, ?, ?)", (HEAD, *mark)),
            ("UPDATE alembic_version SET version_num = ?", (MOVED,)),
        )

    def release(self) -> CopyMarker | None:
        """Let servers use the file again. Returns the removed mark, or None."""
        if (mark := self.mark()) is not None:
            back = "UPDATE alembic_version SET version_num = (SELECT schema FROM moved_to)"
            self._write((back, ()), ("DROP TABLE moved_to", ()))
        return mark

    def _write(self, *steps: tuple[str, Sequence[object]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for sql, arguments in steps:
            self._connection.execute(sql, arguments)
        self._connection.execute("COMMIT")

    def count(self, table: sa.Table) -> int:
        return row_stream.count_in_file(self._connection, table)

    def last_number(self, table: sa.Table) -> int:
        """Return the greatest ID that any row has ever had, or 0."""
        column = table.primary_key.columns[0].name
        query = (
            f'SELECT max(coalesce((SELECT max("{column}") FROM "{table.name}"), 0), '  # noqa: S608  # our own SQL
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0))"
        )
        return int(self._connection.execute(query, (table.name,)).fetchone()[0])

    def parts(self, table: sa.Table, after: Sequence[Any] | None, rows_a_part: int = ROWS_A_PART) -> Iterator[Part]:
        """Read the rows after this key in key order. Raises `CopyRefused` for a row that does not fit PostgreSQL."""
        names = [each.name for each in table.columns]
        keys = [names.index(each.name) for each in table.primary_key.columns]
        rows, size = list[list[Any]](), 0
        for row in self._rows(table, after):
            rows.append(row)
            size += row_stream.size_of(row)
            if len(rows) >= rows_a_part or size >= BYTES_A_PART:
                yield Part(rows, [rows[-1][each] for each in keys])
                rows, size = [], 0
        if rows:
            yield Part(rows, [rows[-1][each] for each in keys])

    def sum(self, table: sa.Table) -> tuple[Sum, int]:
        total, largest = Sum(), 1
        for part in self.parts(table, None):
            total = total.plus(part.rows)
            largest = max(largest, *map(row_stream.size_of, part.rows))
        return total, largest

    def _rows(self, table: sa.Table, after: Sequence[Any] | None) -> Iterator[list[Any]]:
        keys = ", ".join(f'"{each.name}"' for each in table.primary_key.columns)
        where = f"WHERE ({keys}) > ({', '.join('?' * len(after))})" if after else ""
        query = f'SELECT {row_stream.columns_of(table)} FROM "{table.name}" {where} ORDER BY {keys}'  # noqa: S608  # our own names
        convert = row_stream.converter(table)
        for row in self._connection.execute(query, list(after or ())):
            try:
                yield convert(row)
            except IncompatibleValue as error:
                shown = dict(zip((each.name for each in table.columns), row, strict=True))
                key = ", ".join(f"{each.name} {shown[each.name]}" for each in table.primary_key.columns)
                raise CopyRefused(
                    f"{table.name}, {key}: {error}.", "Fix the row with `sqlite3`, and rerun the command."
                ) from error

    def close(self) -> None:
        self._connection.close()


def _require_schema(connection: sqlite3.Connection, path: Path) -> None:
    table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if table else None
    if row is None:
        raise CopyRefused(
            f"{path} is not a Workhook database.", "Name the database file of a data folder: its workhook.db."
        )
    if row[0] not in (HEAD, MOVED):
        raise CopyRefused(
            f"{path} has schema {row[0]}, and this version of Workhook copies schema {HEAD}.",
            "Run `workhook migrate` on it first, with the version that you will keep using.",
        )


def _lock(connection: sqlite3.Connection, path: Path) -> None:
    """Take an exclusive lock on the file and keep it.

    Every process that has the file open holds a shared lock, even when idle, so this fails if there is one.
    """
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise CopyRefused(f"{path} is in use by another process.", _STOP) from error
    connection.execute("PRAGMA synchronous=FULL")


# --- the database -----------------------------------------------------------------------------------------------------


class ConcurrentCopy(Exception):
    """Another process is copying into the same database."""


class CopyTarget:
    """The PostgreSQL database to copy into. Servers refuse it until `finish`. Methods raise the driver's errors."""

    def __init__(self, url: str, tables: Sequence[sa.Table], connection: Any) -> None:
        self._url, self._tables, self._connection = url, tables, connection

    @classmethod
    async def open(cls, url: str, tables: Sequence[sa.Table]) -> Self:
        return cls(url, tables, await row_stream.connect(url))

    async def open_again(self) -> None:
        self._connection.terminate()
        self._connection = await row_stream.connect(self._url)

    async def unfinished_token(self) -> str | None:
        """Return the token of the unfinished copy in the database, or None if it is empty. Raises `CopyRefused`."""
        run = self._connection
        if not await run.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL"):
            if found := [row["relname"] for row in await run.fetch(_TABLES)]:
                raise CopyRefused(
                    f"the database at {database_address(self._url)} has tables ({', '.join(found[:3])}).", _EMPTY
                )
            return None
        version = await run.fetchval("SELECT version_num FROM alembic_version")
        if version == COPYING:
            return str(await run.fetchval("SELECT min(token) FROM workhook_copy"))
        if version != HEAD:
            has = f"has schema {version}" if version else "has no schema"
            raise CopyRefused(
                f"the database at {database_address(self._url)} {has}, and the file has schema {HEAD}.",
                "Run `workhook migrate` with the newest version on both, or use an empty database.",
            )
        await self._require_empty()
        return None

    async def begin(self, token: str) -> None:
        """Create the tables in an empty database, and make servers refuse it. Raises `CopyRefused`."""
        await migrate_postgresql(self._url, lambda: None)  # the caller has imported the tables
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

    async def progress_of(self, table: sa.Table) -> tuple[list[Any] | None, bool]:
        """Return the last copied key of a table, or None at the beginning, and whether the table is complete."""
        row = await self._connection.fetchrow("SELECT after, done FROM workhook_copy WHERE name = $1", table.name)
        return msgspec.msgpack.decode(row["after"]) if row["after"] else None, row["done"]

    async def count(self, table: sa.Table) -> int:
        return int(await self._connection.fetchval(f'SELECT count(*) FROM "{table.name}"'))  # noqa: S608  # our own SQL

    async def add(self, table: sa.Table, part: Part, after: list[Any] | None) -> None:
        """Add rows and record the progress atomically. Raises `ConcurrentCopy` if the progress is no longer `after`."""
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
            raise ConcurrentCopy

    async def sum(self, table: sa.Table, largest: int) -> Sum:
        """Sum the rows. `largest`, the size of the largest row in bytes, bounds how many are in memory."""
        total, at_once = Sum(), max(1, min(ROWS_A_PART, BYTES_A_PART // largest))
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            async for rows in row_stream.read_postgresql(self._connection, table, at_once):
                total = total.plus(rows)
        return total

    async def finish(self, numbers: dict[str, int]) -> None:
        """Complete the copy: number new rows from above `numbers`, and let servers in."""
        run = self._connection
        for table in self._tables:
            await run.execute(f'ANALYZE "{table.name}"')
        async with run.transaction():
            if await run.fetchval("SELECT version_num FROM alembic_version") == HEAD:
                return  # the connection was lost after the commit
            for table in self._tables:
                if (sequence := await row_stream.sequence_of(run, table)) is not None:
                    last = numbers[table.name]
                    await run.fetchval("SELECT setval($1::text::regclass, $2, $3)", sequence, max(last, 1), last > 0)
            await self._triggers("ENABLE")
            await run.execute("DROP TABLE workhook_copy")
            await run.execute("UPDATE alembic_version SET version_num = $1", HEAD)

    async def _triggers(self, verb: str) -> None:
        """Enable or disable triggers. The rows they would write are copied as well."""
        names = [each.name for each in self._tables]
        for row in await self._connection.fetch(_TRIGGERS, names):
            await self._connection.execute(f'ALTER TABLE "{row["relname"]}" {verb} TRIGGER USER')

    async def _require_empty(self) -> None:
        for table in self._tables:
            if await self._connection.fetchval(f'SELECT EXISTS (SELECT 1 FROM "{table.name}")'):  # noqa: S608  # ours
                raise CopyRefused(
                    f"the database at {database_address(self._url)} is not empty: {table.name} has rows.", _EMPTY
                )

    async def close(self) -> None:
        await self._connection.close(timeout=row_stream.CONNECT_TIMEOUT_S)


def _packed(key: list[Any] | None) -> bytes | None:
    return None if key is None else msgspec.msgpack.encode(key)


# --- the copy ---------------------------------------------------------------------------------------------------------


class Copied(NamedTuple):
    tables: dict[str, Sum]
    resumed: bool
    place: str

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.tables.values())


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
        """Copy the missing rows. `copied` is the number of rows in the tables before this one."""
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
        """Compare both sides. Raises `CopyRefused` naming every table that differs."""
        self.done, wrong = 0, []
        self.progress(COMPARED, 0, self.total)
        for table in self.tables:
            ours, largest = self.source.sum(table)
            theirs = await self._patiently(partial(self.target.sum, table, largest))
            self.sums[table.name] = ours
            if ours.rows != theirs.rows:
                wrong.append(
                    f"{table.name} has {counted(ours.rows, 'row')} in the file and {theirs.rows:,} in PostgreSQL"
                )
            elif ours != theirs:
                wrong.append(f"{table.name} has different values in PostgreSQL")
            self._show(COMPARED, self.done + ours.rows)
        if wrong:
            raise CopyRefused(
                f"the copy differs from the file: {'; '.join(wrong)}.",
                "The database was written to in the meantime. Drop it, create it again, and rerun the command.",
            )

    async def finish(self, mark: CopyMarker) -> None:
        """Mark the file as done, then complete the target. If interrupted in between, the next run completes it."""
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
        """Call `act`, and retry it over new connections. `act` must determine its own progress."""
        for pause_s in PAUSES_S:
            try:
                return await act()
            except DRIVER_ERRORS as error:
                if not isinstance(dialects.postgresql_problem(error), Unavailable):
                    raise
                log.warning("copy_interrupted", error=str(error), retry_in_s=pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self.target.open_again()
            except DRIVER_ERRORS as error:
                log.warning("copy_reconnect_failed", error=str(error))
        return await act()


async def copy(
    path: Path, url: str, tables: Sequence[sa.Table], progress: Progress, *, rows_a_part: int = ROWS_A_PART
) -> Copied:
    """Copy `tables`, which are sorted by their references. Raises `CopyRefused` and the drivers' errors."""
    source = CopySource.open(path)
    try:
        target = await CopyTarget.open(url, tables)
        try:
            mark, resumed = await _begin(source, target, database_address(url))
            work = _Copy(source, target, tables, progress, rows_a_part)
            await work.copy()
            await work.compare()
            await work.finish(mark)
        except ConcurrentCopy:
            raise CopyRefused(
                f"another process is copying into {database_address(url)}.",
                "Let it finish, or stop it and rerun the command.",
            ) from None
        finally:
            await target.close()
    finally:
        source.close()
    return Copied(work.sums, resumed, database_address(url))


async def _begin(source: CopySource, target: CopyTarget, where: str) -> tuple[CopyMarker, bool]:
    """Mark both sides, the file first. Returns the mark, and whether the copy had already begun."""
    mark, token = source.mark(), await target.unfinished_token()
    if token is not None:
        if mark is None or mark.copy_id != token:
            raise CopyRefused(
                f"the database at {where} contains an unfinished copy of another file, or of this one before servers"
                " used it again.",
                "Drop the database, create it again, and rerun the command.",
            )
        return mark, True
    if mark is not None and mark.done:
        raise CopyRefused(
            f"{source.path} was already copied to {mark.place}.",
            f"To use the file again instead of the copy, run `{release_command(source.path)}`.",
        )
    # A copy into another database is a new copy, because the earlier one can no longer be continued.
    begun = mark.copy_id if mark and mark.place == where else None
    mark = CopyMarker(begun or secrets.token_hex(16), where, False)
    source.set_mark(mark)
    await target.begin(mark.copy_id)
    return mark, False
