"""Dumps of a server's whole database, read through a separate connection."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

import asyncpg
import sqlalchemy as sa

from tests.harness.server import Server
from workhook.asgi import operations as operations  # importing it registers every table
from workhook.storage.metadata import metadata

TABLES: tuple[sa.Table, ...] = tuple(sorted(metadata.tables.values(), key=lambda each: each.name))

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Dump = dict[str, dict[Key, Row]]
"""Rows by table and primary key."""

FIRST_NUMBER = 1_300_000_000  # where numbering continues, see `Reader.renumber`
NUMBERS_EACH = 10_000_000  # all numbers begin with 13 to 16, which makes them recognizable in answers


def numbered() -> list[tuple[str, str]]:
    """Return the tables with generated row numbers, and the column of each."""
    return [
        (table.name, table.primary_key.columns[0].name)
        for table in TABLES
        if table.dialect_options["sqlite"]["autoincrement"]
    ]


def _by_key(table: sa.Table, names: Sequence[str], rows: Sequence[Any]) -> dict[Key, Row]:
    if not rows:
        return {}
    key = itemgetter(*(names.index(column.name) for column in table.primary_key))
    single = len(table.primary_key) == 1
    return {(key(row),) if single else key(row): dict(zip(names, row, strict=True)) for row in rows}


Read = tuple[Sequence[str], Sequence[Any]]
"""The column names of a table, and its rows as returned by the database."""


class Reader:
    """Reads a consistent snapshot per `dump`. Unchanged tables are the same object in both dumps."""

    def __init__(self, server: Server) -> None:
        self._url = server.settings.get("database_url")
        self._runner = asyncio.Runner()
        self._last: tuple[int, Dump] | None = None  # the version of the SQLite file, and its content
        self._tables: dict[str, tuple[Read, dict[Key, Row]]] = {}
        if self._url is None:
            self._sqlite = sqlite3.connect(server.data / "workhook.db", isolation_level=None, timeout=60)
        else:
            self._postgres: asyncpg.Connection = self._runner.run(asyncpg.connect(self._url))

    def dump(self) -> Dump:
        if self._url is not None:
            return self._refreshed(self._runner.run(self._of_postgres()))
        # Changes when another connection writes.
        version: int = self._sqlite.execute("PRAGMA data_version").fetchone()[0]
        if self._last is None or self._last[0] != version:
            self._last = (version, self._refreshed(self._of_sqlite()))
        return self._last[1]

    def _refreshed(self, read: Sequence[Read]) -> Dump:
        """Rebuild only the changed tables. A request changes few, and comparing is much cheaper than rebuilding."""
        for table, given in zip(TABLES, read, strict=True):
            known = self._tables.get(table.name)
            if known is None or known[0] != given:
                self._tables[table.name] = (given, _by_key(table, *given))
        return {name: rows for name, (_, rows) in self._tables.items()}

    def _of_sqlite(self) -> list[Read]:
        self._sqlite.execute("BEGIN")
        try:
            return [self._table_of_sqlite(table.name) for table in TABLES]
        finally:
            self._sqlite.execute("COMMIT")

    def _table_of_sqlite(self, name: str) -> Read:
        with closing(self._sqlite.execute(f'SELECT * FROM "{name}"')) as cursor:  # names of our own tables only
            return [each[0] for each in cursor.description], cursor.fetchall()

    async def _of_postgres(self) -> list[Read]:
        async with self._postgres.transaction(isolation="repeatable_read", readonly=True):
            return [await self._table_of_postgres(table.name) for table in TABLES]

    async def _table_of_postgres(self, name: str) -> Read:
        rows = await self._postgres.fetch(f'SELECT * FROM "{name}"')
        return list(rows[0].keys()) if rows else [], rows

    def change(self, statement: str) -> None:
        """Prepare a state that no request can produce."""
        self._last = None
        if self._url is None:
            self._sqlite.execute(statement)
        else:
            self._runner.run(self._postgres.execute(statement))

    def renumber(self) -> None:
        """Give each table its own range of row numbers, high enough not to appear in answers by chance."""
        tables = numbered()
        assert len(tables) * NUMBERS_EACH <= 400_000_000, len(tables)
        for place, (table, column) in enumerate(tables):
            number = FIRST_NUMBER + place * NUMBERS_EACH
            if self._url is None:
                self.change(f"DELETE FROM sqlite_sequence WHERE name = '{table}'")
                self.change(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {number})")
            else:
                self.change(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {number})")

    def close(self) -> None:
        if self._url is None:
            self._sqlite.close()
        else:
            self._runner.run(self._postgres.close())
        self._runner.close()


# Columns that change without any user action: when a credential was last used.
UNSTEADY = {
    "tokens": {"last_used_at"},
    "app_secrets": {"last_used_at"},
    "sessions": {"seen_at"},
}


SUMMED = {"timesheet_changes", "timesheet_sums"}
"""Changes of timesheets recorded by triggers and summed by a chore later, see `tests/work/test_report_sums.py`."""


def steady(table: str, row: Row) -> Row:
    left_out = UNSTEADY.get(table)
    return {name: value for name, value in row.items() if name not in left_out} if left_out else row


Change = tuple[str, str, Key, tuple[str, ...]]
"""Table, kind of change (added, changed or removed), key of the row, and the changed columns."""


def changes(before: Dump, after: Dump) -> list[Change]:
    found: list[Change] = []
    for table, old in before.items():
        new = after[table]
        if table in SUMMED or old is new:
            continue
        found += [(table, "removed", key, ()) for key in old.keys() - new.keys()]
        found += [(table, "added", key, ()) for key in new.keys() - old.keys()]
        for key in old.keys() & new.keys():
            if old[key] != new[key]:
                first, second = steady(table, old[key]), steady(table, new[key])
                if first != second:
                    columns = tuple(sorted(name for name in first if first[name] != second[name]))
                    found.append((table, "changed", key, columns))
    return sorted(found, key=repr)
