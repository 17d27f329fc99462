"""Upgrades a database to the newest schema, or rejects one that a newer version of Workhook has already migrated.

A new database is created as a whole (`storage.schema`), in one transaction and without Alembic. An existing one runs
the migrations of `storage.migrations` that it lacks.
"""

from __future__ import annotations

import asyncio
import shlex
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog

from workhook.storage import Database, dialects, schema

log = structlog.get_logger(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0058"
# Set instead of a revision to make every version refuse the database (`storage.copying`).
MOVED = "moved"  # a file that was copied, or is being copied, to PostgreSQL
COPYING = "copying"  # a database whose copy is incomplete
RESTORING = "restoring"  # a file that `workhook restore` has not finished
SQLITE_WAIT_S = 30  # for another process that writes
LOCK_TRIES = 7200  # for PostgreSQL steps that others would wait for, because a backup may keep its locks for an hour
SAID_EACH = 20  # one in this many attempts is logged
LOOK_S = 0.5  # between checks of another process's migration, and of this one's progress
LOCK_KEY = 0x776F726B686F6F6B  # PostgreSQL's advisory lock: one process migrates while the others wait


_revision = sa.select(sa.table("alembic_version", sa.column("version_num", sa.Text())).c.version_num)


class NewerSchema(Exception):
    """The database was migrated by a newer version of Workhook."""


def known_revisions() -> list[str]:
    return sorted(path.name.split("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def release_command(path: Path) -> str:
    """Return the shell command that lets servers use the file again."""
    return f"workhook database release {shlex.quote(str(path.absolute()))}"


def refusal_reason(found: str | None, sqlite_path: Path | None, url: str | None) -> str | None:
    """Return why servers refuse a database that is being copied or restored, and the remedy, or None for any other."""
    if found == MOVED and sqlite_path is not None:
        return _moved(sqlite_path)
    if found == RESTORING and sqlite_path is not None:
        return (
            f"{sqlite_path.absolute()} comes from a backup, and its restore was interrupted. "
            "Delete the data folder, but keep its secret.key, and run `workhook restore` again."
        )
    if found == COPYING and url is not None:
        return (
            f"The database at {dialects.database_address(url)} contains an incomplete copy. "
            "Run the same `workhook database copy` again. After an interrupted `workhook restore`, drop the database, "
            "create it again, and rerun the restore."
        )
    return None


def _moved(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        place, done = connection.execute("SELECT place, done FROM moved_to").fetchone()
    release = f"`{release_command(path)}`"
    if done:
        return (
            f"{path.absolute()} was copied to PostgreSQL at {place}: set WORKHOOK_DATABASE_URL to that database. "
            f"To use the file again instead of the copy, run {release}."
        )
    return (
        f"The copy of {path.absolute()} to PostgreSQL at {place} is incomplete. "
        "Run the same `workhook database copy` again to continue it. "
        f"To use the file instead, run {release}."
    )


def _needed(current: str | None, sqlite_path: Path | None = None, url: str | None = None) -> bool:
    if (reason := refusal_reason(current, sqlite_path, url)) is not None:
        raise NewerSchema(reason)
    if current is not None and current not in known_revisions():
        raise NewerSchema(
            f"The database has schema {current}, which this version of Workhook ({HEAD}) does not know. "
            "Install the version that created it, or a newer one."
        )
    return current != HEAD


def _upgrade(connection: Any) -> None:
    # Importing Alembic takes a third of a second, so it is imported only for migrations.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def sqlite_revision(path: Path) -> str | None:
    """Return the schema revision of a file, or None. Raises `sqlite3.Error` if the file is not a database."""
    if not path.exists():
        return None
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone() if row else None
        return str(found[0]) if found else None


def migrate_sqlite(path: Path, import_tables: Callable[[], object]) -> bool:
    """Create or migrate a file. Returns whether anything changed. `import_tables` loads all tables."""
    current = sqlite_revision(path)
    if not _needed(current, sqlite_path=path):
        return False
    if current is None:
        import_tables()
        _make_sqlite(path)
    else:
        _upgrade_sqlite(path)
    log.info("migrated", schema=HEAD, database=str(path))
    return True


def _write_ahead(connection: Any) -> None:
    """Set the journal mode, retrying because SQLite never waits for another process that is setting it."""
    end = time.monotonic() + SQLITE_WAIT_S
    pause = threading.Event()
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        pause.wait(0.02)


def _make_sqlite(path: Path) -> None:
    """Create the file without Alembic, which would take a second and 10 MB that stay in the server's memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.touch(mode=0o600)  # SQLite creates the files next to it with the same mode
    except OSError as error:
        log.debug("database_file_not_created", error=str(error))  # SQLite reports it later
    connection = sqlite3.connect(path, timeout=SQLITE_WAIT_S, isolation_level=None)
    try:
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have been faster.
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
            for statement in schema.statements("sqlite", HEAD):
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _upgrade_sqlite(path: Path) -> None:
    from sqlalchemy import create_engine, event

    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": SQLITE_WAIT_S})

    # The driver would commit before DDL. BEGIN IMMEDIATE makes the migration one transaction and keeps others out.
    @event.listens_for(engine, "connect")
    def _plain(dbapi: Any, record: Any) -> None:
        dbapi.isolation_level = None
        _write_ahead(dbapi)
        dbapi.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        _upgrade(connection)
    engine.dispose()


async def migrate_postgresql(url: str, import_tables: Callable[[], object]) -> bool:
    import asyncpg

    connection = await asyncpg.connect(**dialects.connect_options(url), timeout=10)
    try:
        if not _needed(await postgresql_revision(connection), url=url):
            return False
        await _lock(connection)
        current = await postgresql_revision(connection)
        if not _needed(current, url=url):
            return False  # another process was faster
        if current is None:
            import_tables()
            name = await connection.fetchval("SELECT quote_ident(current_schema())")
            async with connection.transaction():
                await connection.execute(";\n".join(schema.statements("postgresql", HEAD, name)))
        else:
            await _upgrade_postgresql(url, connection)
    finally:
        await connection.close()
    log.info("migrated", schema=HEAD)
    return True


async def postgresql_revision(connection: Any) -> str | None:
    exists = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
    return await connection.fetchval("SELECT version_num FROM alembic_version") if exists else None


async def _lock(connection: Any) -> None:
    """Wait for the lock by polling.

    Waiting inside the database keeps a transaction open, and building an index concurrently waits for all transactions.
    """
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK_KEY):  # noqa: ASYNC110  # see above
        await asyncio.sleep(LOOK_S)


async def _upgrade_postgresql(url: str, connection: Any) -> None:
    """Run the migrations. `connection` is used to follow the progress."""
    progress = asyncio.create_task(_log_progress(connection), name="migration-progress")
    try:
        for tries in range(1, LOCK_TRIES + 1):
            try:
                await _run_async(url, _upgrade)
                return
            except Exception as error:
                if tries == LOCK_TRIES or not _gave_way(error):
                    raise
                if tries % SAID_EACH == 1:
                    log.warning("migration_waiting_for_lock", note="the table is in use", tries=tries)
            await asyncio.sleep(LOOK_S)
    finally:
        progress.cancel()
        await asyncio.gather(progress, return_exceptions=True)


def _gave_way(error: BaseException | None) -> bool:
    """Return whether a step did not get its lock in time (`storage.online`) or ran into a deadlock."""
    import asyncpg

    while error is not None:
        if isinstance(error, asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError):
            return True
        error = error.__cause__
    return False


async def _log_progress(connection: Any) -> None:
    while True:
        await asyncio.sleep(LOOK_S * 10)
        for row in await connection.fetch(_PROGRESS):
            log.info("building_index", **dict(row))


_PROGRESS = """
SELECT index_relid::regclass::text AS index, phase,
CASE WHEN blocks_total > 0 THEN blocks_done * 100 / blocks_total END AS percent_of_blocks,
CASE WHEN tuples_total > 0 THEN tuples_done * 100 / tuples_total END AS percent_of_rows
FROM pg_stat_progress_create_index WHERE datname = current_database()
"""


# Makes the server cancel statements of a killed process, which would otherwise keep their locks.
_END_WITH_US = """SELECT set_config(name, '2s', false) FROM pg_settings
WHERE name = 'client_connection_check_interval'"""


async def check_schema(database: Database) -> str:
    """Return `ok`, or a description of the mismatch if another process has migrated the database."""
    row = await database.fetch_one(_revision)
    found = row["version_num"] if row else None
    if found == HEAD:
        return "ok"
    has = f"schema {found}" if found else "no schema"
    return f"the database has {has}, but this process needs {HEAD}: restart the process"


async def _run_async(url: str, work: Callable[[Any], None]) -> None:
    import asyncpg
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    dsn = dialects.connect_options(url)["dsn"]

    async def connect() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(_END_WITH_US)
        except asyncpg.PostgresError as error:
            log.debug("connection_check_not_supported", error=str(error))  # not supported on the server's platform
        return connection

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(work)
            await connection.commit()
    finally:
        await engine.dispose()


async def migrate(sqlite_path: Path | None, url: str | None, import_tables: Callable[[], object]) -> bool:
    """Migrate the database named by the settings, a file or PostgreSQL's URL, like `migrate_sqlite`."""
    if sqlite_path is not None:
        return await asyncio.to_thread(migrate_sqlite, sqlite_path, import_tables)
    assert url is not None, "there is a file or a URL"
    return await migrate_postgresql(url, import_tables)
