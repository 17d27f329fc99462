"""A new database of either kind has the declared tables and indexes, and newer schemas are refused."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from tests.harness.databases import Databases
from tests.harness.waiting import finish
from tests.migrations.shape import shape_of, sqlite_shape
from workhook import asgi
from workhook.bootstrap import import_tables
from workhook.core.config import load
from workhook.storage import metadata, migrate
from workhook.storage.migrate import HEAD, NewerSchema, known_revisions

assert asgi  # importing it registers every area's tables


def test_the_head_is_the_newest_revision() -> None:
    assert known_revisions()[-1] == HEAD


async def test_both_databases_have_all_tables_and_indexes(
    sqlite: Databases, postgresql: Databases, tmp_path: Path
) -> None:
    declared = {index.name for table in metadata.tables.values() for index in table.indexes}
    for backend, more in ((sqlite, "others"), (postgresql, "indexes")):
        made = await shape_of({"data": str(tmp_path / backend.kind), **backend.new(tmp_path / backend.kind)})
        assert {name.partition(".")[0] for name in made["columns"]} >= set(metadata.tables)
        assert set(made[more]) >= declared


async def test_large_tables_are_vacuumed_early(postgresql: Databases, tmp_path: Path) -> None:
    connection = await asyncpg.connect(postgresql.new(tmp_path)["database_url"])
    chosen = await connection.fetchval("SELECT reloptions FROM pg_class WHERE relname = 'dispatches'")
    await connection.close()
    assert "autovacuum_vacuum_scale_factor=0.02" in chosen


def test_a_new_file_contains_only_its_revision(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    assert migrate.migrate_sqlite(path, import_tables)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        filled = [line for line in connection.iterdump() if line.startswith("INSERT INTO") and "search" not in line]
    assert [line for line in filled if "sqlite_" not in line] == [f"INSERT INTO \"alembic_version\" VALUES('{HEAD}');"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_any_command_creates_the_whole_schema(tmp_path: Path) -> None:
    """A single command imports few tables."""
    new = tmp_path / "new.db"
    migrate.migrate_sqlite(new, import_tables)
    for number, words in enumerate(
        (["migrate"], ["setup", "--organization", "acme", "--owner", "octo", "--email", "o@example.com"])
    ):
        folder = tmp_path / str(number)
        command = [sys.executable, "-m", "workhook", *words, "--data", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        assert sqlite_shape(folder / "workhook.db") == sqlite_shape(new)


async def test_a_second_migration_does_nothing(backend: Databases, tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path), **backend.new(tmp_path)}, {})
    assert not await migrate.migrate(settings.sqlite_path, settings.database_url, import_tables)


async def test_a_newer_schema_is_refused_with_its_revision(backend: Databases, tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path), **backend.new(tmp_path)}, {})
    newer = "UPDATE alembic_version SET version_num = '9999'"
    if settings.sqlite_path is not None:
        with sqlite3.connect(settings.sqlite_path) as connection:
            connection.execute(newer)
        connection.close()
    else:
        there = await asyncpg.connect(settings.database_url)
        await there.execute(newer)
        await there.close()
    with pytest.raises(NewerSchema, match="9999"):
        await migrate.migrate(settings.sqlite_path, settings.database_url, import_tables)


def test_concurrent_migrations_of_a_new_file_succeed(tmp_path: Path) -> None:
    path = tmp_path / "new.db"

    async def together() -> list[bool | BaseException]:
        return await asyncio.gather(
            *(asyncio.to_thread(migrate.migrate_sqlite, path, import_tables) for _ in range(4)), return_exceptions=True
        )

    outcomes = finish(together)
    assert [each for each in outcomes if isinstance(each, BaseException)] == []
    assert migrate.sqlite_revision(path) == HEAD
