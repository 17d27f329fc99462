"""Connections that stay at hand: kept, given to who waits, and never handed on with something under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.harness.databases import Databases
from workhook.core.errors import Unavailable
from workhook.storage.connection_cache import ConnectionCache

SIZE = 2
pytestmark = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)


@pytest.fixture
async def pool(backend: Databases, tmp_path: Path) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(backend.new(tmp_path)["database_url"], min_size=0, max_size=SIZE) as opened:
        yield opened


@pytest.fixture
async def cache(pool: Any) -> AsyncIterator[ConnectionCache]:
    cache = ConnectionCache(pool)
    yield cache
    await cache.close()


_SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


async def _process(cache: ConnectionCache) -> int:
    async with cache.connect() as connection:
        return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def test_it_is_kept_for_the_next(cache: ConnectionCache, pool: Any) -> None:
    assert await _process(cache) == await _process(cache)
    assert (pool.get_size(), pool.get_idle_size(), cache.idle()) == (1, 0, 1)
    await cache.close()
    assert (pool.get_idle_size(), cache.idle()) == (1, 1)


async def test_who_waits_gets_it(cache: ConnectionCache) -> None:
    both, go_on = asyncio.Barrier(SIZE + 1), asyncio.Event()

    async def hold() -> None:
        async with cache.connect():
            await both.wait()
            await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SIZE):
            tasks.create_task(hold())
        await both.wait()
        waiting = [tasks.create_task(_process(cache)) for _ in range(3 * SIZE)]
        await asyncio.sleep(0)  # each has begun to wait
        go_on.set()
    assert len({each.result() for each in waiting}) <= SIZE
    assert cache.idle() == SIZE


async def test_nothing_is_under_way_on_what_the_next_one_gets(cache: ConnectionCache) -> None:
    await _process(cache)
    begun = asyncio.Event()

    async def sleep() -> None:
        async with cache.connect() as connection:
            begun.set()
            await connection.execute("SELECT pg_sleep(600)")

    task = asyncio.create_task(sleep())
    await begun.wait()
    async with asyncio.timeout(30), cache.connect() as other:
        # PostgreSQL passes over a cancellation that comes before the statement.
        while not await other.fetchval(_SLEEPS):
            await asyncio.wait({task}, timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        await asyncio.gather(*(_process(cache) for _ in range(3 * SIZE)))


async def test_one_that_ends_meanwhile_is_replaced(cache: ConnectionCache) -> None:
    ended = asyncio.Event()
    async with cache.connect() as other:
        first = await _process(cache)  # and it is at hand now
        async with cache.connect() as connection:
            connection.add_termination_listener(lambda _: ended.set())
        await other.execute("SELECT pg_terminate_backend($1)", first)
        await ended.wait()
        assert await _process(cache) != first


async def test_one_that_may_not_write_is_not_kept(cache: ConnectionCache, pool: Any) -> None:
    """Its server may be a primary no more."""
    async with cache.connect() as connection:
        await connection.execute("SET default_transaction_read_only = on")
        process = await connection.fetchval("SELECT pg_backend_pid()")
    with pytest.raises(Unavailable):
        async with cache.connect() as connection:
            await connection.execute("CREATE TABLE other (id int)")
    async with cache.connect() as connection:
        await connection.execute("CREATE TABLE other (id int)")
        assert await connection.fetchval("SELECT pg_backend_pid()") != process
