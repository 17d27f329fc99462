"""Which schema a database has. Looks only: what is not there is not made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from workhook.core.config import Settings

if TYPE_CHECKING:
    from asyncpg import Connection

CONNECT_TIMEOUT_S = 5.0


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """A connection to PostgreSQL, without a pool. Raises what the driver raises."""
    import asyncpg

    from workhook.storage import dialects

    connection = await asyncpg.connect(**dialects.connect_options(url))
    try:
        yield connection
    finally:
        await connection.close()


async def revision(settings: Settings) -> str | None:
    """None without a database or without a schema in it. Raises what the drivers raise, and `TimeoutError`."""
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if settings.sqlite_path is not None:
            from workhook.storage import migrate as migrations

            return await asyncio.to_thread(migrations.sqlite_revision, settings.sqlite_path)
        async with connected(settings.database_url or "") as connection:
            exists = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
            found = await connection.fetchval("SELECT version_num FROM alembic_version") if exists else None
            return None if found is None else str(found)


async def key_check(settings: Settings) -> bytes | None:
    """What the first start encrypted with the key, to know it again; None if no start has. For a database with a
    schema. Raises as `revision`."""
    query = "SELECT sealed FROM key_check"
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if settings.sqlite_path is not None:
            return await asyncio.to_thread(_sqlite_value, settings.sqlite_path, query)
        async with connected(settings.database_url or "") as connection:
            found: bytes | None = await connection.fetchval(query)
            return found


def _sqlite_value(path: Path, query: str) -> bytes | None:
    import sqlite3

    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute(query).fetchone()
    return bytes(row[0]) if row else None
