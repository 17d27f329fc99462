"""Pooled connections are never handed on with a statement in progress, and are replaced after they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.harness.databases import Databases
from tests.harness.waiting import until
from workhook.core.errors import Unavailable
from workhook.storage import dialects, postgres
from workhook.storage.metrics import NOT_RELEASED
from workhook.storage.postgres import Connect, PooledConnection, WarmPool

SIZE = 2
pytestmark = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)


@pytest.fixture
async def pool(backend: Databases, tmp_path: Path) -> AsyncIterator[Any]:
    async def keep(connection: Any) -> None:
        """Keep the session's settings, as `PostgresDatabase` does."""

    url = backend.new(tmp_path)["database_url"]
    async with asyncpg.create_pool(url, min_size=0, max_size=SIZE, reset=keep) as opened:
        yield opened


@pytest.fixture
def connections(pool: Any) -> Connect:
    return partial(PooledConnection, WarmPool(pool))


_SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


async def _process(connections: Connect) -> int:
    async with connections() as connection:
        return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def test_a_connection_is_handed_on_without_a_running_statement(connections: Connect) -> None:
    await _process(connections)
    begun = asyncio.Event()

    async def sleep() -> None:
        async with connections() as connection:
            begun.set()
            await connection.execute("SELECT pg_sleep(600)")

    task = asyncio.create_task(sleep())
    await begun.wait()
    async with asyncio.timeout(30), connections() as other:
        # PostgreSQL ignores a cancellation that arrives before the statement.
        while not await other.fetchval(_SLEEPS):
            await asyncio.wait({task}, timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        await asyncio.gather(*(_process(connections) for _ in range(3 * SIZE)))


async def test_an_ended_connection_is_replaced(connections: Connect) -> None:
    ended = asyncio.Event()
    async with connections() as other:
        first = await _process(connections)  # its connection is idle now
        async with connections() as connection:
            connection.add_termination_listener(lambda _: ended.set())
        await other.execute("SELECT pg_terminate_backend($1)", first)
        await ended.wait()
        assert await _process(connections) != first


async def test_a_read_only_connection_is_not_kept(connections: Connect) -> None:
    """Its server may no longer be the primary."""
    async with connections() as connection:
        await connection.execute("SET default_transaction_read_only = on")
        process = await connection.fetchval("SELECT pg_backend_pid()")
    with pytest.raises(Unavailable):
        async with connections() as connection:
            await connection.execute("CREATE TABLE other (id int)")
    async with connections() as connection:
        await connection.execute("CREATE TABLE other (id int)")
        assert await connection.fetchval("SELECT pg_backend_pid()") != process


async def test_a_failing_release_does_not_fail_the_caller(backend: Databases, tmp_path: Path) -> None:
    async def broken(connection: Any) -> None:
        raise asyncpg.InterfaceError("the connection was lost")

    before = NOT_RELEASED._value.get()
    url = backend.new(tmp_path)["database_url"]
    async with asyncpg.create_pool(url, min_size=0, max_size=1, reset=broken) as opened:
        pool = WarmPool(opened)
        async with PooledConnection(pool) as connection:
            done = await connection.fetchval("SELECT 1")
        await pool.close()
    assert done == 1
    assert NOT_RELEASED._value.get() == before + 1


async def test_a_connection_is_handed_to_waiters(connections: Connect) -> None:
    """It goes to waiters in the pool before others can take it again."""
    async with asyncio.timeout(30):
        found = await asyncio.gather(*(_process(connections) for _ in range(10 * SIZE)))
    assert len(set(found)) <= SIZE


async def test_a_connection_with_an_open_transaction_is_not_handed_on(connections: Connect) -> None:
    async with connections() as connection:
        await connection.execute("BEGIN")
    async with connections() as connection:
        assert not connection.is_in_transaction()


async def test_idle_connections_are_returned_to_the_pool(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool closes unused connections."""
    monkeypatch.setattr(postgres, "WARM_S", 0.0)
    warm = WarmPool(pool)
    async with PooledConnection(warm) as connection:
        assert (warm.idle, pool.get_idle_size()) == (0, 0)
        assert await connection.fetchval("SELECT 1") == 1
    assert (warm.idle, pool.get_idle_size()) == (1, 0)
    await asyncio.to_thread(until, pool.get_idle_size)
    assert warm.idle == 1


async def test_connections_have_an_application_name(backend: Databases, tmp_path: Path) -> None:
    url = backend.new(tmp_path)["database_url"]
    named = f"{url}{'&' if '?' in url else '?'}application_name=studio"
    for address, name in ((url, "workhook"), (named, "studio")):
        connection = await asyncpg.connect(**dialects.connect_options(address))
        try:
            statement = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            assert await connection.fetchval(statement) == name
        finally:
            await connection.close()
