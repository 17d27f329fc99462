"""Which schema a database has. Looks only: what is not there is not made."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workhook.core.config import Settings

CONNECT_TIMEOUT_S = 5.0


async def revision(settings: Settings) -> str | None:
    """None without a database or without a schema in it. Raises what the drivers raise, and `TimeoutError`."""
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if settings.sqlite_path is None:
            return await _postgresql(settings.database_url or "")
        from workhook.storage import migrate as migrations

        return await asyncio.to_thread(migrations.sqlite_revision, settings.sqlite_path)


async def key_check(settings: Settings) -> bytes | None:
    """What the first start encrypted with the key, to know it again; None if no start has. For a database with a
    schema. Raises as `revision`."""
    query = "SELECT sealed FROM key_check"
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if settings.sqlite_path is not None:
            return await asyncio.to_thread(_sqlite_value, settings.sqlite_path, query)
        import asyncpg

        from workhook.storage import dialects

        connection = await asyncpg.connect(**dialects.connect_options(settings.database_url or ""))
        try:
            found: bytes | None = await connection.fetchval(query)
            return found
        finally:
            await connection.close()


def _sqlite_value(path: Path, query: str) -> bytes | None:
    import sqlite3

    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute(query).fetchone()
    return bytes(row[0]) if row else None


async def _postgresql(url: str) -> str | None:
    import asyncpg

    from workhook.storage import dialects

    connection = await asyncpg.connect(**dialects.connect_options(url))
    try:
        exists = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
        found = await connection.fetchval("SELECT version_num FROM alembic_version") if exists else None
        return None if found is None else str(found)
    finally:
        await connection.close()
