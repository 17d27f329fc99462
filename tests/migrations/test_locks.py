"""A migration on PostgreSQL gives way to other transactions on its tables at each of its steps.

A transaction locks every table, as a backup or a long transaction does. Whenever the migration has waited for a table
and given up, the lock on that table is released. Meanwhile others read and write all tables and wait for no lock longer
than a second.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.harness.databases import Databases
from tests.migrations.beside import LOCK_TIMEOUT
from tests.migrations.filled import tables
from tests.migrations.next_release import CHANGED
from tests.migrations.upgrade_kit import UNRELEASED, add_next_release, make_database, on_database
from workhook.bootstrap import import_tables
from workhook.storage import migrate

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
_PAUSE_S = 0.02  # between two checks
# Tables that a session waits for: to change them or, when it builds an index, for transactions that write to them.
_WAITED_FOR = """
SELECT relation::regclass::text FROM pg_locks WHERE NOT granted AND locktype = 'relation'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> ALL($1::int[])
UNION SELECT relid::regclass::text FROM pg_stat_progress_create_index WHERE datname = current_database()
AND phase LIKE 'waiting%'
"""
# Sessions that wait for one table while they lock others out of another one.
_GREEDY = """
WITH locks AS MATERIALIZED (SELECT * FROM pg_locks
WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()))
SELECT held.relation::regclass::text, held.mode, waited.relation::regclass::text FROM locks held
JOIN locks waited USING (pid) JOIN pg_class ON pg_class.oid = held.relation
WHERE held.granted AND NOT waited.granted AND held.mode IN ('ShareLock', 'ExclusiveLock', 'AccessExclusiveLock')
AND pg_class.relkind = 'r' AND held.relation <> waited.relation AND held.pid <> ALL($1::int[])
"""
_BUILT_ON = "SELECT relid::regclass::text FROM pg_stat_progress_create_index WHERE datname = current_database()"


class Holder:
    """Locks the given tables in an otherwise idle transaction, except those it has released."""

    def __init__(self, url: str, names: list[str]) -> None:
        self._url = url
        self._names = names
        self._connection: Any = None

    @property
    def pid(self) -> int:
        return int(self._connection.get_server_pid())

    async def hold(self) -> None:
        connection = await asyncpg.connect(self._url, server_settings={"lock_timeout": "30s"})
        await connection.execute("BEGIN")
        for name in self._names:
            await connection.execute(f'LOCK TABLE "{name}" IN ROW EXCLUSIVE MODE')
        former, self._connection = self._connection, connection
        if former is not None:
            await former.close()

    async def let_go(self, name: str) -> None:
        if name in self._names:
            self._names.remove(name)
            await self.hold()

    async def close(self) -> None:
        await self._connection.close()


class Traffic:
    """Reads and writes every table in turn."""

    def __init__(self, connection: Any, names: list[str]) -> None:
        self._connection, self._names = connection, names
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            for name in self._names:
                await self._connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1')
                await self._connection.execute(f'DELETE FROM "{name}" WHERE false')
            await asyncio.sleep(_PAUSE_S)


async def test_every_step_of_a_migration_gives_way(
    postgresql: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOOK_S", 0.05)
    for name in ("MIGRATIONS", "HEAD"):
        monkeypatch.setattr(migrate, name, getattr(migrate, name))  # restored after the test
    settings = make_database(postgresql, tmp_path, UNRELEASED)
    add_next_release(tmp_path)
    names: list[str] = []
    on_database(settings, lambda connection: names.extend(each.name for each in tables(connection)))
    url = settings["database_url"]
    look = await asyncpg.connect(url)
    passing = await asyncpg.connect(url, server_settings={"lock_timeout": LOCK_TIMEOUT})
    holder = Holder(url, list(names))
    await holder.hold()
    passer = Traffic(passing, names)
    migration = asyncio.create_task(migrate.migrate_postgresql(url, import_tables))
    try:
        given_way = await _release_waited_for(look, holder, passer, migration, [passing.get_server_pid()])
        assert await migration
        assert given_way >= CHANGED
    finally:
        for task in (migration, passer.task):
            task.cancel()
        await asyncio.gather(migration, passer.task, return_exceptions=True)
        await holder.close()
        await passing.close()
        await look.close()


async def _release_waited_for(
    look: Any, holder: Holder, passer: Traffic, migration: asyncio.Task[bool], passing: list[int]
) -> set[str]:
    """Release each table that the migration waits for, and return these tables."""
    met: set[str] = set()
    while not migration.done():
        if passer.task.done():
            passer.task.result()
        others = [*passing, holder.pid]
        assert await look.fetch(_GREEDY, others) == []
        now = {name for (name,) in await look.fetch(_WAITED_FOR, others)}
        building = {name for (name,) in await look.fetch(_BUILT_ON)}
        # Building an index blocks no one. A table to be changed must be given up first.
        for name in (now & building) | (met - now):
            await holder.let_go(name)
        met |= now
        await asyncio.sleep(_PAUSE_S)
    return met
