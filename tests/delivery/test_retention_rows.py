"""Four times the rows are four times the work: the retention looks at each row a few times, however many there are.

What is counted is not time. On SQLite it is the instructions of its machine, on PostgreSQL the rows and the entries of
indexes that were read.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.delivery.test_retention import BEFORE, NEW, NOW, OLD, add_dispatch, add_event
from tests.harness.databases import Databases
from workhook.bootstrap import open_services
from workhook.core.clock import DAY_MS
from workhook.core.config import load
from workhook.delivery import retention
from workhook.storage import Transaction, sqlite_threads

BATCH = 20
ROWS = 300
WAITING = 100  # old events that an attempt still waits for: they are looked at in each run, and stay
STEP = 100  # instructions

_READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
"""


class Counted:
    """What reading cost, in units of the database."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> int:
        self.steps += 1
        return 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Counts what every connection to SQLite does from now on."""
    counted, connect = Counted(), sqlite_threads.connect

    def counting(path: Path, *, readonly: bool) -> sqlite3.Connection:
        connection = connect(path, readonly=readonly)
        connection.set_progress_handler(counted.step, STEP)
        return connection

    monkeypatch.setattr(sqlite_threads, "connect", counting)
    return counted


async def _fill(tx: Transaction, rows: int) -> None:
    for _ in range(WAITING):
        await add_dispatch(tx, await add_event(tx, OLD - DAY_MS), due=NOW)
    for _ in range(rows):
        await add_dispatch(tx, await add_event(tx, OLD), delivered=[OLD])
    for _ in range(rows):
        await add_dispatch(tx, await add_event(tx, NEW), delivered=[NEW])


async def _prefer_indexes(url: str | None) -> None:
    """PostgreSQL plans as it does for large tables: of these few rows it would rather read all."""
    if url is not None:
        connection = await asyncpg.connect(url)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute("ANALYZE")
        await connection.execute(f'ALTER DATABASE "{name}" SET enable_seqscan = off')
        await connection.close()


async def _read(url: str | None) -> int:
    """On PostgreSQL, where each session tells it when it ends."""
    if url is None:
        return 0
    connection = await asyncpg.connect(url)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while await connection.fetchval(others):
        pass
    read = int(await connection.fetchval(_READ))
    await connection.close()
    return read


async def _work(folder: Path, backend: Databases, counted: Counted, rows: int) -> int:
    """What it costs to remove so many of each table."""
    settings: dict[str, Any] = {"data": str(folder), **backend.new(folder)}
    known = load(settings, {})
    async with open_services(known, serving=False) as services, services.database.transaction() as tx:
        await _fill(tx, rows)
    await _prefer_indexes(known.database_url)
    counted.steps, before = 0, await _read(known.database_url)
    async with open_services(known, serving=False) as services:
        removed = await retention.prune(services.database, BEFORE, NOW)
    assert removed["events"] == removed["dispatches"] == removed["deliveries"] == rows
    return counted.steps or await _read(known.database_url) - before


async def test_four_times_the_rows_are_four_times_the_work(
    backend: Databases, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", BATCH)
    few = await _work(tmp_path / "few", backend, counted, ROWS)
    many = await _work(tmp_path / "many", backend, counted, 4 * ROWS)
    print(few, many, many / few)
    assert few > ROWS / STEP
    assert many < 4.5 * few
