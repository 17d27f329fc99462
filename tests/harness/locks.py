"""Locks that a test holds while other writers wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import asyncpg


@contextmanager
def nobody_writes(data: Path, database_url: str | None, table: str) -> Iterator[None]:
    """Block writes to the table, on SQLite to any table. Reads continue."""
    if database_url is None:
        with closing(sqlite3.connect(data / "workhook.db", isolation_level=None, timeout=60)) as database:
            database.execute("BEGIN IMMEDIATE")
            yield
            database.execute("ROLLBACK")
        return
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database_url))
        runner.run(connection.execute(f"BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE"))
        try:
            yield
        finally:
            runner.run(connection.close())
