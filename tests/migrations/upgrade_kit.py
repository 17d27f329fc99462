"""A database of an earlier version, and the migrations on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from tests.harness.waiting import finish
from workhook.core.config import load
from workhook.storage import migrate


def migrate_to(connection: Any, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def insert(connection: Any, table: str, **row: object) -> None:
    """A row in the table as it is at the revision, whatever columns this version knows."""
    connection.execute(sa.insert(sa.table(table, *map(sa.column, row))), [row])


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
