"""Databases of released schemas, and a future release."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import sqlalchemy as sa

from scripts.release_schema import RELEASED, script
from tests.harness.databases import Databases
from tests.harness.waiting import finish
from workhook.core.config import load
from workhook.storage import migrate

UNRELEASED = "unreleased"
VERSIONS = (*sorted({path.name.rpartition(".")[0].rpartition(".")[0] for path in RELEASED.glob("*.sql")}), UNRELEASED)
"""Every version whose databases are upgraded. The last is this commit's schema, as its release would record it."""

NEXT = Path(__file__).with_name("next_release.py")


def make_database(backend: Databases, folder: Path, version: str) -> dict[str, Any]:
    """Create an empty database with the schema of that version and return its settings."""
    settings = {"data": str(folder), **backend.empty(folder)}
    if version == UNRELEASED:
        statements = script(backend.kind)
    else:
        statements = (RELEASED / f"{version}.{backend.kind}.sql").read_text(encoding="utf-8")
    known = load(settings, {})
    if known.sqlite_path is not None:
        with closing(sqlite3.connect(known.sqlite_path)) as connection:
            connection.executescript(statements)
    else:
        finish(lambda: _run_on_postgresql(known.database_url, statements))
    return settings


async def _run_on_postgresql(url: str | None, statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def on_database(settings: dict[str, Any], work: Callable[[Any], None]) -> None:
    known = load(settings, {})
    if known.sqlite_path is not None:
        engine = sa.create_engine(f"sqlite:///{known.sqlite_path}")
        with engine.begin() as connection:
            work(connection)
        engine.dispose()
    else:
        assert known.database_url is not None
        url = known.database_url
        finish(lambda: migrate._run_async(url, work))


def add_next_release(folder: Path) -> None:
    """Add the migration `next_release` to this process. The migrations are copied to `folder`."""
    migrations = folder / "migrations"
    shutil.copytree(migrate.MIGRATIONS, migrations, dirs_exist_ok=True)
    shutil.copy(NEXT, migrations / "versions" / "9999_next_release.py")
    migrate.MIGRATIONS, migrate.HEAD = migrations, "9999"


if __name__ == "__main__":  # `workhook migrate` of the next release
    from workhook.cli import main

    add_next_release(Path(sys.argv.pop(1)))
    main()
