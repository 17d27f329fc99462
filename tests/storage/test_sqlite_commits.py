"""Commits of SQLite: one commit for several waiting transactions, and a commit in the last job of a single one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from tests.harness.waiting import WAIT_S
from workhook.core.errors import Unavailable
from workhook.storage.sqlite import Job, SqliteDatabase

_metadata = sa.MetaData()
_parents = sa.Table("parents", _metadata, sa.Column("id", sa.Integer, primary_key=True))
_children = sa.Table("children", _metadata, sa.Column("parent", sa.Integer))
_parent = sa.insert(_parents).values(id=sa.bindparam("id"))
_child = sa.insert(_children).values(parent=sa.bindparam("parent"))
_all = sa.select(_parents.c.id).order_by(_parents.c.id)
TABLES = (
    "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
    # Only the COMMIT detects a child without a parent.
    "CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)",
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    opened = await SqliteDatabase.open(tmp_path / "test.db", watch=False)
    for table in TABLES:
        await opened._writer.submit(lambda connection, sql=table: connection.execute(sql))  # type: ignore[misc]
    yield opened
    await opened.close()


async def _stored(database: SqliteDatabase) -> list[int]:
    return [row["id"] for row in await database.fetch_all(_all)]


async def test_a_single_transaction_commits_in_its_last_job(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, jobs = database._writer.submit, list[object]()

    def counted(job: Job[Any]) -> asyncio.Future[Any]:
        jobs.append(job)
        return submit(job)

    monkeypatch.setattr(database._writer, "submit", counted)
    await database.write(_parent, [{"id": 1}])
    assert len(jobs) == 1
    async with database.transaction() as tx:
        await tx.execute(_parent, {"id": 2})
    assert len(jobs) == 3
    async with database.transaction():
        pass
    assert len(jobs) == 3
    assert await _stored(database) == [1, 2]


async def test_a_statement_with_a_cte_returns_its_row_count(database: SqliteDatabase) -> None:
    low = sa.select(_parents.c.id).where(_parents.c.id < 3).cte("low")
    delete = sa.delete(_parents).where(_parents.c.id.in_(sa.select(low.c.id)))
    await database.write(_parent, [{"id": number} for number in range(1, 6)])
    async with database.transaction() as tx:
        assert await tx.execute(delete) == 2
        assert await tx.execute(delete) == 0
        assert await tx.execute(sa.delete(_parents)) == 3


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "together"])
async def test_a_failed_commit_is_logged_and_leaves_nothing(database: SqliteDatabase, others: int) -> None:
    notified: list[int] = []

    async def insert(number: int, *, orphan: bool = False) -> None:
        async with database.transaction() as tx:
            await tx.execute(_parent, {"id": number})
            tx.after_commit(lambda: notified.append(number))
            if orphan:
                await tx.execute(_child, {"parent": 1000})

    with capture_logs() as logged:
        outcomes = await asyncio.gather(
            insert(1, orphan=True), *(insert(10 + number) for number in range(others)), return_exceptions=True
        )
    assert all(isinstance(each, Exception) for each in outcomes)  # transactions that share a commit share its failure
    assert [each["event"] for each in logged] == ["commit_failed"]
    assert await _stored(database) == notified == []
    await insert(2)
    assert await _stored(database) == notified == [2]


async def test_a_rollback_by_sqlite_fails_every_transaction_it_affects(database: SqliteDatabase) -> None:
    """On a full disk, SQLite rolls back everything uncommitted, not only the failing transaction."""
    full = "CREATE TRIGGER full BEFORE INSERT ON parents WHEN NEW.id = 2 BEGIN SELECT RAISE(ROLLBACK, 'full'); END"
    await database._writer.submit(lambda connection: connection.execute(full))
    notified: list[int] = []

    async def insert(number: int) -> None:
        async with database.transaction() as tx:
            await tx.execute(_parent, {"id": number})
            tx.after_commit(lambda: notified.append(number))

    first, second, third = await asyncio.gather(insert(1), insert(2), insert(3), return_exceptions=True)
    assert isinstance(first, Unavailable)
    assert isinstance(second, Exception)
    assert third is None
    assert await _stored(database) == notified == [3]


async def test_callbacks_run_if_the_caller_is_canceled_during_the_commit(database: SqliteDatabase) -> None:
    """Signals and caches of the process depend on it, and the change is committed."""
    going_on, notified, leaving = threading.Event(), list[str](), asyncio.Event()

    async def change() -> None:
        async with database.transaction() as tx:
            await tx.execute(_parent, {"id": 1})
            tx.after_commit(lambda: notified.append("committed"))
            database._writer.submit(lambda connection: going_on.wait(WAIT_S))
            leaving.set()

    task = asyncio.create_task(change())
    await leaving.wait()
    await asyncio.wait({asyncio.create_task(asyncio.to_thread(len, ()))})  # by now it waits for its commit
    task.cancel()
    going_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notified == ["committed"]
    assert await _stored(database) == [1]
