"""The migrations make what the tables say, on both databases; other schemas are refused."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from scripts.sqlite_schema import statements
from tests.harness.databases import Databases
from tests.harness.waiting import finish
from workhook import asgi
from workhook.core.config import load
from workhook.storage import metadata, migrate
from workhook.storage.migrate import HEAD, NEW_SQLITE, NewerSchema, known_revisions

assert asgi  # every area's tables are on the metadata once it is imported


def _differences(connection: Any) -> list[Any]:
    options = {"compare_type": True, "include_name": _is_a_table_s}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def _is_a_table_s(name: str | None, kind: str, parents: Any) -> bool:
    """Full-text tables and indexes are made by hand; `tests/work/test_search.py` is about them."""
    return not (kind in ("table", "index") and name is not None and name.startswith("search_"))


def test_the_head_is_the_newest_file() -> None:
    assert known_revisions()[-1] == HEAD


def _indexes(connection: Any) -> set[str]:
    """What SQLAlchemy cannot read of SQLite: indexes of expressions."""
    names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    return {name for (name,) in names if _is_a_table_s(name, "index", None)}


_KEYS = """SELECT m.name, k."from", k."table", k."to", k.on_delete
FROM sqlite_master m, pragma_foreign_key_list(m.name) k WHERE m.type = 'table'"""


def _foreign_keys(connection: Any) -> set[tuple[str, ...]]:
    """What SQLAlchemy reads only half of where a column was added to a table: its foreign key."""
    return {tuple(row) for row in connection.exec_driver_sql(_KEYS)}


def _declared_keys() -> set[tuple[str, ...]]:
    every = [each for table in metadata.tables.values() for each in table.foreign_keys]
    return {
        (
            each.parent.table.name,
            each.parent.name,
            each.column.table.name,
            each.column.name,
            each.ondelete or "NO ACTION",
        )
        for each in every
    }


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index")
async def test_migrations_and_tables_agree(backend: Databases, tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path), **backend.new(tmp_path)}, {})
    if settings.sqlite_path is not None:
        engine = sa.create_engine(f"sqlite:///{settings.sqlite_path}")
        with engine.connect() as connection:
            assert [each for each in _differences(connection) if each[0] not in ("add_fk", "remove_fk")] == []
            assert _foreign_keys(connection) == _declared_keys()
            assert _indexes(connection) == {each.name for table in metadata.tables.values() for each in table.indexes}
        engine.dispose()
    else:
        found: list[Any] = []
        assert settings.database_url is not None
        await migrate._run_async(settings.database_url, lambda connection: found.extend(_differences(connection)))
        assert found == []


async def test_large_tables_are_cleaned_up_early(postgresql: Databases, tmp_path: Path) -> None:
    connection = await asyncpg.connect(postgresql.new(tmp_path)["database_url"])
    chosen = await connection.fetchval("SELECT reloptions FROM pg_class WHERE relname = 'dispatches'")
    await connection.close()
    assert "autovacuum_vacuum_scale_factor=0.02" in chosen


def test_a_new_file_is_like_one_that_went_through_every_migration(tmp_path: Path) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    assert migrate.migrate_sqlite(new)
    migrate.migrate_sqlite_by_steps(old)
    assert statements(new) == statements(old)
    assert "\n\n".join(statements(old)) + "\n" == NEW_SQLITE.read_text(), "run python -m scripts.sqlite_schema"
    for path in (new, old):
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            filled = [line for line in connection.iterdump() if line.startswith("INSERT INTO") and "search" not in line]
        connection.close()
        assert [line for line in filled if "sqlite_" not in line] == [
            f"INSERT INTO \"alembic_version\" VALUES('{HEAD}');"
        ]
        assert path.stat().st_mode & 0o777 == 0o600


async def test_migrating_again_does_nothing(backend: Databases, tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path), **backend.new(tmp_path)}, {})
    assert not await migrate.migrate(settings.sqlite_path, settings.database_url)


async def test_a_newer_schema_is_refused_by_name(backend: Databases, tmp_path: Path) -> None:
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
        await migrate.migrate(settings.sqlite_path, settings.database_url)


def test_processes_that_start_together_on_an_empty_file_agree(tmp_path: Path) -> None:
    path = tmp_path / "new.db"

    async def together() -> list[bool | BaseException]:
        return await asyncio.gather(
            *(asyncio.to_thread(migrate.migrate_sqlite, path) for _ in range(4)), return_exceptions=True
        )

    outcomes = finish(together)
    assert [each for each in outcomes if isinstance(each, BaseException)] == []
    assert migrate.sqlite_revision(path) == HEAD
