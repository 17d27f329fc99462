"""Deliveries next to an old PostgreSQL snapshot, such as a backup's: the work grows linearly with the backlog.

PostgreSQL keeps the index entries of finished dispatches as long as the snapshot is open.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
import sqlalchemy as sa

from tests.delivery.inside import inside
from tests.harness.databases import Databases, databases
from tests.harness.receiver import Receiver
from workhook.delivery import lanes, leased_lanes
from workhook.hooks.tables import dispatches
from workhook.storage.metadata import bigint_param

FEW, TIMES = 200, 4
SPREAD_MS = 60_000  # between two events
LONG_MS = 10**9

_READ = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ix_dispatches_due'"
_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL($1::int[])"
_spread = sa.update(dispatches).values(
    next_attempt_at=dispatches.c.next_attempt_at - bigint_param("before") + dispatches.c.id * SPREAD_MS
)
_waiting = sa.select(sa.func.count().label("n")).where(dispatches.c.next_attempt_at.is_not(None))


@pytest.fixture
def postgresql(_shared_folder: Path) -> Databases:
    return databases("postgresql", _shared_folder)


async def _read(connection: asyncpg.Connection[asyncpg.Record], *others: int) -> int:
    """Return the number of index entries read. Each session reports its count when it ends, so wait for the others."""
    while await connection.fetchval(_OTHERS, [connection.get_server_pid(), *others]):
        pass
    return int(await connection.fetchval(_READ))


async def _drain(backend: Databases, folder: Path, receiver: Receiver, number: int) -> int:
    """Return the number of index entries read to deliver `number` events."""
    await asyncio.to_thread(folder.mkdir)
    before = len(receiver.requests)
    async with inside(backend, folder) as site:
        url = site.services.settings.database_url
        await site.hooks([receiver.url])
        await asyncio.gather(*(site.publish(each) for each in range(number)))
        async with site.services.database.transaction() as tx:
            await tx.execute(_spread, {"before": 2 * number * SPREAD_MS})
        old = await asyncpg.connect(url)
        await old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await old.fetchval("SELECT count(*) FROM dispatches")
        async with site.delivering():
            await asyncio.to_thread(receiver.wait_for, before + number)
            while True:
                row = await site.services.database.fetch_one(_waiting)
                assert row is not None
                if not row["n"]:
                    break
    connection = await asyncpg.connect(url)
    read = await _read(connection, old.get_server_pid())
    await old.close()
    await connection.close()
    return read


async def test_the_work_to_drain_a_backlog_is_linear_despite_an_old_snapshot(
    postgresql: Databases, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Periodic reads would make the count depend on the speed of the machine.
    monkeypatch.setattr(lanes, "FULL_READ_MS", LONG_MS)
    monkeypatch.setattr(leased_lanes, "SEARCH_MS", LONG_MS)
    monkeypatch.setattr(leased_lanes, "SEARCH_MAX_MS", LONG_MS)
    few = await _drain(postgresql, tmp_path / "few", receiver, FEW)
    many = await _drain(postgresql, tmp_path / "many", receiver, TIMES * FEW)
    print(few, many, many / few)
    assert few > FEW
    assert many < 1.5 * TIMES * few
