"""Rows older than the retention period are removed in small batches, except those that are still needed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.waiting import WAIT_S
from workhook.bootstrap import open_services
from workhook.chores import CHORES, Chores
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.config import load
from workhook.core.ids import new_guid
from workhook.delivery import retention
from workhook.delivery.retention import prune
from workhook.events.tables import event_keys, events
from workhook.hooks.tables import deliveries, dispatches
from workhook.http.calls import Services
from workhook.storage import Transaction, sqlite
from workhook.storage.metadata import insert_into

_event = insert_into(
    events, "account_id", "repository_id", "name", "action", "payload", "size", "created_at"
).returning(events.c.id)
_dispatch = insert_into(
    dispatches, "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at"
).returning(dispatches.c.id)
_delivery = insert_into(deliveries, *(column.name for column in deliveries.columns if column.name != "id"))
_key = insert_into(event_keys, "scope", "key", "digest", "event_id", "created_at")

NOW = now_ms()
BEFORE = NOW - 30 * DAY_MS
OLD, NEW = BEFORE - 1, BEFORE + 1


async def add_event(tx: Transaction, at: int) -> int:
    values = {"account_id": 1, "repository_id": 1, "name": "push", "action": None}
    row = await tx.fetch_one(_event, {**values, "payload": b"{}", "size": 2, "created_at": at})
    assert row is not None
    return int(row["id"])


async def add_dispatch(
    tx: Transaction, event_id: int, *, hook_id: int = 1, due: int | None = None, delivered: Sequence[int] = ()
) -> int:
    """Insert a dispatch with deliveries at the given times. `due` is the time of its next attempt."""
    guid = new_guid()
    values = {"event_id": event_id, "hook_id": hook_id, "guid": guid, "retries": 0, "wanted": 0}
    row = await tx.fetch_one(
        _dispatch, {**values, "attempts": len(delivered), "next_attempt_at": due, "created_at": OLD}
    )
    assert row is not None
    for at in delivered:
        await tx.execute(_delivery, _delivery_row(row["id"], event_id, hook_id, guid, at))
    return int(row["id"])


def _delivery_row(dispatch_id: int, event_id: int, hook_id: int, guid: str, at: int) -> dict[str, Any]:
    return {
        "dispatch_id": dispatch_id,
        "hook_id": hook_id,
        "event_id": event_id,
        "repository_id": 1,
        "guid": guid,
        "event": "push",
        "action": None,
        "delivered_at": at,
        "throttled_at": None,
        "recorded_at": None,
        "installation_id": None,
        "duration_ms": 1,
        "redelivery": False,
        "status": "OK",
        "status_code": 200,
        "url": "http://x/",
        "request_headers": b"{}",
        "response_headers": b"{}",
        "response_body": b"",
    }


async def kept(services: Services, table: sa.Table) -> list[int]:
    rows = await services.database.fetch_all(sa.select(table.c.id).order_by(table.c.id))
    return [row["id"] for row in rows]


async def test_old_rows_are_removed_and_new_rows_stay(services: Services) -> None:
    async with services.database.transaction() as tx:
        gone = await add_event(tx, OLD)
        await add_dispatch(tx, gone, delivered=[OLD, OLD])
        unheard = await add_event(tx, OLD)
        recent = await add_event(tx, NEW)
        dispatch = await add_dispatch(tx, recent, delivered=[NEW, NEW])
    removed = await prune(services.database, BEFORE, NOW)
    assert (removed["deliveries"], removed["dispatches"], removed["events"]) == (2, 1, 2)
    assert await kept(services, events) == [recent]
    assert await kept(services, dispatches) == [dispatch]
    assert len(await kept(services, deliveries)) == 2
    assert gone != unheard


async def test_the_event_behind_a_pending_attempt_stays(services: Services) -> None:
    async with services.database.transaction() as tx:
        pending = await add_event(tx, OLD - 300 * DAY_MS)
        dispatch = await add_dispatch(tx, pending, due=NOW + DAY_MS, delivered=[OLD])
        await add_dispatch(tx, pending, hook_id=2, delivered=[OLD])
    await prune(services.database, BEFORE, NOW)
    assert await kept(services, events) == [pending]
    assert await kept(services, dispatches) == [dispatch]
    assert await kept(services, deliveries) == []


async def test_a_dispatch_and_its_event_stay_as_long_as_one_of_its_deliveries(services: Services) -> None:
    """The event was redelivered yesterday: the delivery is new and shows the payload of an old event."""
    async with services.database.transaction() as tx:
        event = await add_event(tx, OLD)
        dispatch = await add_dispatch(tx, event, delivered=[OLD, NEW])
    removed = await prune(services.database, BEFORE, NOW)
    assert removed["deliveries"] == 1
    assert (await kept(services, events), await kept(services, dispatches)) == ([event], [dispatch])
    await prune(services.database, NEW + 1, NOW)
    assert await kept(services, events) == await kept(services, dispatches) == await kept(services, deliveries) == []


@pytest.mark.parametrize("number", [0, 9, 10, 25])
async def test_rows_are_removed_in_batches_until_none_are_left(
    services: Services, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(retention, "BATCH", 10)
    async with services.database.transaction() as tx:
        for _ in range(number):
            await add_dispatch(tx, await add_event(tx, OLD), delivered=[OLD])
        await add_dispatch(tx, await add_event(tx, NEW), delivered=[NEW])
        for each in range(number):
            key = {"scope": "r1", "key": str(each), "digest": b"", "event_id": 1}
            await tx.execute(_key, {**key, "created_at": NOW - DAY_MS - 1})
        await tx.execute(_key, {"scope": "r1", "key": "new", "digest": b"", "event_id": 1, "created_at": NOW})
        counted = type(tx)
    execute = counted.execute

    async def counting(self: Transaction, statement: Any, params: Any = None) -> int:
        sizes.append(await execute(self, statement, params))
        return sizes[-1]

    monkeypatch.setattr(counted, "execute", counting)
    removed = await prune(services.database, BEFORE, NOW)
    counted_by_table = dict.fromkeys(("deliveries", "dispatches", "events", "event_keys"), number)
    assert removed == {**counted_by_table, "arrivals": 0}
    assert max(sizes, default=0) <= 10
    for table in (events, dispatches, deliveries):
        assert len(await kept(services, table)) == 1
    rows = await services.database.fetch_all(sa.select(event_keys.c.key))
    assert [row["key"] for row in rows] == ["new"]


async def test_old_events_with_pending_attempts_do_not_stop_the_pruning(services: Services) -> None:
    """There are more such events than fit in a batch, and they are read first."""
    async with services.database.transaction() as tx:
        for _ in range(30):
            await add_dispatch(tx, await add_event(tx, OLD - DAY_MS), due=NOW)
        await add_dispatch(tx, await add_event(tx, OLD), delivered=[OLD])
    removed = await prune(services.database, BEFORE, NOW)
    assert (removed["deliveries"], removed["dispatches"], removed["events"]) == (1, 1, 1)
    assert len(await kept(services, events)) == 30


async def test_the_server_prunes_periodically(services: Services) -> None:
    async with services.database.transaction() as tx:
        await add_dispatch(tx, await add_event(tx, OLD), delivered=[OLD])
    pruner = Chores(services, [each for each in CHORES if each.name == "deliveries"])
    pruner.start()
    try:
        async with asyncio.timeout(WAIT_S):
            while await kept(services, events):
                pass
    finally:
        await pruner.stop()
    assert await kept(services, deliveries) == []


# --- Cost of the retention -------------------------------------------------------------------------------------------
# The work is linear: the retention reads each row a few times, however many there are. It is not measured as time but
# in instructions of SQLite's virtual machine or, on PostgreSQL, in rows and index entries read.


BATCH = 20
ROWS = 300
WAITING = 100  # old events with a pending attempt: every run reads them and leaves them
STEP = 100  # instructions

_READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
"""


class Counted:
    """The cost of reading, in units of the database."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> int:
        self.steps += 1
        return 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count the instructions of every SQLite connection opened from now on."""
    counted, connect = Counted(), sqlite.connect

    def counting(path: Path, *, readonly: bool) -> sqlite3.Connection:
        connection = connect(path, readonly=readonly)
        connection.set_progress_handler(counted.step, STEP)
        return connection

    monkeypatch.setattr(sqlite, "connect", counting)
    return counted


async def _fill(tx: Transaction, rows: int) -> None:
    for _ in range(WAITING):
        await add_dispatch(tx, await add_event(tx, OLD - DAY_MS), due=NOW)
    for _ in range(rows):
        await add_dispatch(tx, await add_event(tx, OLD), delivered=[OLD])
    for _ in range(rows):
        await add_dispatch(tx, await add_event(tx, NEW), delivered=[NEW])


async def _prefer_indexes(url: str | None) -> None:
    """Make PostgreSQL plan as it does for large tables. It would read small ones sequentially."""
    if url is not None:
        connection = await asyncpg.connect(url)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute("ANALYZE")
        await connection.execute(f'ALTER DATABASE "{name}" SET enable_seqscan = off')
        await connection.close()


async def _read(url: str | None) -> int:
    """Return the rows and index entries read on PostgreSQL. Each session reports its count when it ends."""
    if url is None:
        return 0
    connection = await asyncpg.connect(url)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while await connection.fetchval(others):
        pass
    read = int(await connection.fetchval(_READ))
    await connection.close()
    return read


async def _pruning_cost(folder: Path, backend: Databases, counted: Counted, rows: int) -> int:
    """Return the cost of removing `rows` rows of each table."""
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


async def test_the_work_is_linear_in_the_number_of_rows(
    backend: Databases, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", BATCH)
    few = await _pruning_cost(tmp_path / "few", backend, counted, ROWS)
    many = await _pruning_cost(tmp_path / "many", backend, counted, 4 * ROWS)
    print(few, many, many / few)
    assert few > ROWS / STEP
    assert many < 4.5 * few
