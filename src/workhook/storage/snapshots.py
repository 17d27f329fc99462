"""Copies a database that servers are using into one SQLite file, as it is at one moment.

SQLite's own online backup copies a SQLite file. PostgreSQL's rows are read in one transaction that sees one moment, and
both sides are compared in the end. Nobody who writes meanwhile has to wait.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.storage.copying import CopySource
from workhook.storage.migrate import HEAD, RESTORING, migrate_sqlite, sqlite_revision
from workhook.storage.row_stream import (
    CONNECT_TIMEOUT_S,
    ROWS_A_PART,
    CopyRefused,
    Sum,
    columns_of,
    connect,
    count_in_file,
    opened,
    read_postgresql,
    sequence_of,
)

Progress = Callable[[str, int, int], None]

PAGES_A_STEP = 512
PAGES, ROWS = "pages of the database copied", "rows of the database copied"

_FILES = "SELECT blob, size, sha256 FROM files UNION ALL SELECT blob, size, sha256 FROM billing_logos ORDER BY blob"
_REVISION = "SELECT version_num FROM alembic_version"
# Those of the search fill tables that only SQLite has. What the others would write is copied.
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, 7) <> 'search_'"


def _other_schema(found: str | None) -> CopyRefused:
    what = f"the database has schema {found} now: another version of Workhook has migrated it."
    return CopyRefused(what, "Use that version.")


class StoredFile(NamedTuple):
    """A file that the database names. `blob`: its name in the store; `size`: bytes; `sha256`: of its content."""

    blob: str
    size: int
    sha256: str


class DatabaseSource:
    """The database that a snapshot is taken of: a SQLite file, or PostgreSQL by its URL."""

    def __init__(self, path: Path | None, url: str | None, tables: Sequence[sa.Table]) -> None:
        self._path, self._url, self._tables = path, url, tables

    @property
    def kind(self) -> str:
        return "postgresql" if self._path is None else "sqlite"

    async def files(self) -> list[StoredFile]:
        """All that the database names now. Raises what the drivers raise."""
        if self._path is not None:
            return await asyncio.to_thread(files_of, self._path)
        connection = await connect(self._url or "")
        try:
            return [StoredFile(*row) for row in await connection.fetch(_FILES)]
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_S)

    async def take(self, target: Path, progress: Progress) -> None:
        """Write the snapshot to `target`, a new file that its owner alone may read, durably.

        Raises `CopyRefused`, and what the drivers raise. What is there then is of no use.
        """
        if self._path is not None:
            make_private(target)
            await copy_file(self._path, target, progress)
            if (found := await asyncio.to_thread(sqlite_revision, target)) != HEAD:
                raise _other_schema(found)
        else:
            await _copy_postgresql(self._url or "", target, self._tables, progress)
        await asyncio.to_thread(sync, target, target.parent)


def make_private(path: Path) -> None:
    """An empty file that its owner alone may read. Raises `FileExistsError`."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def files_of(path: Path) -> list[StoredFile]:
    """All that a SQLite file names."""
    with opened(path) as connection:
        return [StoredFile(*row) for row in connection.execute(_FILES)]


def count_rows(path: Path, tables: Sequence[sa.Table]) -> dict[str, int]:
    """By the name of the table."""
    with opened(path) as connection:
        return {each.name: count_in_file(connection, each) for each in tables}


async def copy_file(source: Path, target: Path, progress: Progress) -> None:
    """Copy a SQLite file as it is at one moment, while others write to it. Raises `sqlite3.Error`.

    A thread does it, so that whoever stops the command need not wait for the end.
    """
    stop = threading.Event()
    try:
        await asyncio.to_thread(_copy_file, source, target, progress, stop)
    finally:
        stop.set()


class _Stopped(Exception):
    """Nobody waits for the copy any more."""


def _copy_file(source: Path, target: Path, progress: Progress, stop: threading.Event) -> None:
    def step(status: int, remaining: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress(PAGES, total - remaining, total)

    with opened(source) as ours, closing(sqlite3.connect(target, isolation_level=None)) as theirs:
        theirs.execute("PRAGMA synchronous=OFF")  # the whole file is synced in the end
        # A transaction that reads keeps this moment: else each write of another process would begin the copy anew.
        ours.execute("BEGIN")
        ours.execute("SELECT 1 FROM sqlite_master").fetchone()
        ours.backup(theirs, pages=PAGES_A_STEP, progress=step)
        ours.execute("COMMIT")
        # The copy says of itself that there is a write-ahead log. One file alone is to be all of it.
        theirs.execute("PRAGMA journal_mode=DELETE")


def refuse_servers(path: Path) -> None:
    """Of a file that is being restored: every version of Workhook refuses it from now on."""
    _set_revision(path, RESTORING)


def let_servers_in(path: Path, revision: str) -> None:
    """The file is whole, durably."""
    _set_revision(path, revision)
    sync(path, path.parent)


def _set_revision(path: Path, revision: str) -> None:
    with opened(path, writable=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))


def sync(*paths: Path) -> None:
    """What was written is on the disk afterwards, and names in a folder are."""
    for each in paths:
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Of PostgreSQL:


async def _copy_postgresql(url: str, target: Path, tables: Sequence[sa.Table], progress: Progress) -> None:
    await asyncio.to_thread(migrate_sqlite, target, lambda: None)  # whoever lists the tables has imported them
    connection = await connect(url)
    try:
        with opened(target, writable=True) as writer:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                sums = await _copy_rows(connection, writer, tables, progress)
            await _copy_numbers(connection, writer, tables)
            writer.execute("PRAGMA journal_mode=DELETE")
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT_S)
    wrong = await asyncio.to_thread(_differing, target, tables, sums)
    if wrong:
        what = f"the copy has other rows than the database: {', '.join(wrong)}."
        raise CopyRefused(what, "Run the command again into another folder.")


async def _copy_rows(
    connection: Any, writer: sqlite3.Connection, tables: Sequence[sa.Table], progress: Progress
) -> dict[str, Sum]:
    """The sums of the rows that were read, by table. Raises `CopyRefused`."""
    there = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
    if (found := await connection.fetchval(_REVISION) if there else None) != HEAD:
        raise _other_schema(found)
    counts = [await connection.fetchval(f'SELECT count(*) FROM "{each.name}"') for each in tables]  # noqa: S608  # ours
    total, done, sums = sum(counts), 0, dict[str, Sum]()
    # Nothing is undone: a copy that fails is thrown away.
    writer.execute("PRAGMA journal_mode=OFF")
    writer.execute("PRAGMA synchronous=OFF")
    triggers = writer.execute(_TRIGGERS).fetchall()
    for name, _ in triggers:
        writer.execute(f'DROP TRIGGER "{name}"')
    for table in tables:
        read = Sum()
        async for rows in read_postgresql(connection, table, ROWS_A_PART // 10):
            read = read.plus(rows)
            _insert(writer, table, rows)
            done += len(rows)
            progress(ROWS, done, total)
        sums[table.name] = read
    for _, text in triggers:
        writer.execute(text)
    return sums


def _insert(writer: sqlite3.Connection, table: sa.Table, rows: Sequence[Sequence[Any]]) -> None:
    places = ", ".join("?" * len(table.columns))
    writer.execute("BEGIN")
    writer.executemany(f'INSERT INTO "{table.name}" ({columns_of(table)}) VALUES ({places})', rows)  # noqa: S608  # ours
    writer.execute("COMMIT")


async def _copy_numbers(connection: Any, writer: sqlite3.Connection, tables: Sequence[sa.Table]) -> None:
    """No number that a row had before is given again. A sequence never goes back: read last, it is high enough."""
    for table in tables:
        if not table.dialect_options["sqlite"]["autoincrement"]:
            continue
        if (sequence := await sequence_of(connection, table)) is None:
            continue
        row = await connection.fetchrow(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608  # PostgreSQL's
        if row["is_called"]:
            writer.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            writer.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, row["last_value"]))


def _differing(target: Path, tables: Sequence[sa.Table], sums: dict[str, Sum]) -> list[str]:
    source = CopySource.open(target)
    try:
        return [each.name for each in tables if source.sum(each)[0] != sums[each.name]]
    finally:
        source.close()
