"""A database server that ends connections: requests in progress get 503, and later ones are served."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from functools import partial

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.waiting import WAIT_S
from workhook.core.errors import Unavailable
from workhook.http.calls import Services
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into, probe

_write = insert_into(probe, "id", "written_at")
_kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_a_snapshot_that_loses_its_connection_is_refused(services: Services) -> None:
    assert services.settings.database_url is not None
    killer = await asyncpg.connect(services.settings.database_url)
    mine = await killer.fetchval("SELECT pg_backend_pid()")
    with pytest.raises(Unavailable):
        async with services.database.snapshot() as reader:
            await reader.fetch_all(sa.select(probe.c.id))
            await killer.execute(_kill, mine)
            await reader.fetch_all(sa.select(probe.c.id))
    await killer.close()


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_an_ended_transaction_accepts_no_statement(services: Services) -> None:
    """Its connection may be in use elsewhere."""
    async with services.database.transaction() as tx:
        await tx.fetch_all(sa.select(probe.c.id))
    with pytest.raises(asyncpg.InterfaceError):
        await tx.fetch_all(sa.select(probe.c.id))


async def test_only_unavailable_is_raised_when_connections_are_killed_under_load(services: Services) -> None:
    """This includes a connection killed when it is taken, before the driver notices."""
    url, database = services.settings.database_url, services.database
    seen: Counter[type] = Counter()
    numbers, written = iter(range(1_000_000)), set[int]()
    over = asyncio.Event()

    async def insert(tx: Transaction, number: int) -> None:
        await tx.execute(_write, {"id": number, "written_at": 1})

    async def work() -> None:
        while not over.is_set():
            number = next(numbers)
            try:
                await database.fetch_all(sa.select(probe.c.id).limit(1))
                await database.in_transaction(partial(insert, number=number))
                written.add(number)
            except Exception as error:  # noqa: BLE001  # the test asks which one it was
                seen[type(error)] += 1

    workers = [asyncio.create_task(work()) for _ in range(6)]
    if url is not None:
        killer = await asyncpg.connect(url)
        mine = await killer.fetchval("SELECT pg_backend_pid()")
        for _ in range(60):
            await killer.execute(_kill, mine)
        await killer.close()
    over.set()
    await asyncio.gather(*workers)
    assert set(seen) <= {Unavailable}
    rows = None
    async with asyncio.timeout(WAIT_S):
        while rows is None:  # a connection told to end may not have ended yet
            with contextlib.suppress(Unavailable):
                rows = await database.fetch_all(sa.select(probe.c.id))
    assert written <= {row["id"] for row in rows}
