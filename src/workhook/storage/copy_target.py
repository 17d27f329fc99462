"""The PostgreSQL database that a copy is made into. Until it is whole, servers refuse it, and it says how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import asyncpg
import msgspec
import sqlalchemy as sa

from workhook.storage import dialects
from workhook.storage.copy_source import BYTES_A_PART, ROWS_A_PART, CopyRefused, Part, Sum
from workhook.storage.dialects import place
from workhook.storage.migrate import COPYING, HEAD, migrate_postgresql

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
    """Open with `await CopyTarget.open(url, tables)`. Raises what the driver raises."""

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
        await migrate_postgresql(self._url)
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
