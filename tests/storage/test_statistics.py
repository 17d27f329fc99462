"""SQLite's planner knows the tables that it plans for: the process that does what is due now and then tells it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.waiting import finish, until
from workhook.storage.migrate import migrate_sqlite
from workhook.storage.sqlite import SqliteDatabase
from workhook.storage.sqlite_statistics import LOOKS_AT, tables
from workhook.work.chores import CHORES, DAY_S

ROWS = 20 * LOOKS_AT


def _fill(path: Path) -> None:
    """As many as ANALYZE does not look at."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO tokens (kind, digest, user_id, scopes, created_at) WITH RECURSIVE numbers (i) AS"
            f" (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {ROWS})"
            " SELECT 'classic', CAST('x' || i AS BLOB), 1, '', i FROM numbers"
        )
        connection.commit()


def _known(path: Path) -> dict[str, str]:
    """Of each index of a table that has rows, what is known of it."""
    with closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").fetchall():
            return {}
        return dict(connection.execute("SELECT idx, stat FROM sqlite_stat1 WHERE idx IS NOT NULL"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "workhook.db"
    migrate_sqlite(file)
    _fill(file)
    assert _known(file) == {}
    return file


def test_a_filled_file_has_statistics(path: Path) -> None:
    async def renew() -> int:
        database = await SqliteDatabase.open(path)
        try:
            return await database.renew_statistics()
        finally:
            await database.close()

    number = finish(renew)
    with closing(sqlite3.connect(path)) as connection:
        assert number == len(tables(connection)) > 40
        assert not connection.execute("SELECT 1 FROM sqlite_schema WHERE name LIKE '%renewed%'").fetchall()
    assert {"ix_tokens_user_id", "ix_tokens_app_id"} <= set(_known(path))


def test_who_reads_sees_them_at_once(path: Path) -> None:
    """Connections that were open before, in this process and in others."""
    seen = "SELECT id FROM tokens WHERE app_id = 1 AND parent_id = 1"

    with closing(sqlite3.connect(path, cached_statements=0, check_same_thread=False)) as other:

        def plan() -> str:
            other.execute("SELECT id FROM tokens LIMIT 1").fetchall()
            return str(other.execute(f"EXPLAIN QUERY PLAN {seen}").fetchall()[0][3])

        plans = [plan()]

        async def renew() -> None:
            database = await SqliteDatabase.open(path)
            try:
                for app, parent in (("id", "1"), ("1", "id")):
                    async with database.transaction() as tx:
                        await tx.execute(sa.text(f"UPDATE tokens SET app_id = {app}, parent_id = {parent}"))
                    await database.renew_statistics()
                    plans.append(plan())
            finally:
                await database.close()

        finish(renew)
    assert "ix_tokens_app_id" in plans[1]
    assert "ix_tokens_parent_id" in plans[2]


def test_it_goes_between_the_transactions_of_others(path: Path) -> None:
    """What is being written stands, and none of it waits for all of the statistics."""

    async def beside() -> int:
        database = await SqliteDatabase.open(path)

        async def write(number: int) -> None:
            async with database.transaction() as tx:
                await tx.execute(sa.text(f"UPDATE tokens SET note = '{number}' WHERE id = {number}"))

        try:
            renewing = asyncio.create_task(database.renew_statistics())
            await asyncio.gather(*(write(number) for number in range(1, 200)))
            await renewing
            row = await database.fetch_one(sa.text("SELECT count(*) AS number FROM tokens WHERE note IS NOT NULL"))
            assert row is not None
            return int(row["number"])
        finally:
            await database.close()

    assert finish(beside) == 199


def test_the_process_that_delivers_does_it_at_its_start_and_daily(path: Path, tmp_path: Path) -> None:
    assert [each.every_s for each in CHORES if each.name == "planner_statistics"] == [DAY_S]
    server = Server(tmp_path, {}).start()
    try:
        until(lambda: "ix_tokens_user_id" in _known(path))
    finally:
        server.close()
