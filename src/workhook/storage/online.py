"""Migration steps that run while servers use the database.

On PostgreSQL indexes are built CONCURRENTLY. Other steps must get their locks within `LOCK_S`; otherwise they give up,
let the sessions waiting behind them proceed, and retry. Each step is its own transaction, because otherwise it would
wait for one table while blocking another. A migration can therefore stop half-way. Each step keeps whatever already
exists and rebuilds anything that an interruption left unusable.

SQLite's file is migrated in one transaction, before the server starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
import structlog
from alembic import op

LOCK_S = 0.3  # how long others wait behind a step that waits for its locks

log = structlog.get_logger(__name__)

_invalid = sa.text("SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid")


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a nullable column, for which PostgreSQL does not rewrite any rows."""
    with _gives_way(1):
        op.add_column(table, column, **_if_not_exists())


def add_reference(table: str, column: str, target: str, *, on_delete: str) -> None:
    """Add a nullable text column that references the `id` of the table `target`.

    PostgreSQL validates the constraint in a separate step, alongside readers and writers.
    """
    name, action = f"fk_{table}_{column}", f"REFERENCES {target} (id) ON DELETE {on_delete}"
    if _is_sqlite():
        op.execute(f"ALTER TABLE {table} ADD COLUMN {column} TEXT CONSTRAINT {name} {action}")
        return
    add_column(table, sa.Column(column, sa.Text))
    with _gives_way(len({table, target})):
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}")
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({column}) {action} NOT VALID")
    with _gives_way(len({table, target})):
        op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def create_table(name: str, *parts: Any, **options: Any) -> None:
    keys = [each for part in parts if isinstance(part, sa.ForeignKeyConstraint) for each in part.elements]
    named = {each.target_fullname.partition(".")[0] for each in keys}
    with _gives_way(max(1, len(named))):
        op.create_table(name, *parts, **_if_not_exists(), **options)


def create_index(
    name: str, table: str, columns: Sequence[str | sa.TextClause], *, unique: bool = False, where: str | None = None
) -> None:
    condition = None if where is None else sa.text(where)
    log.info("building_index", index=name, table=table)
    options: dict[str, Any] = {
        "sqlite_where": condition,
        "postgresql_where": condition,
        "postgresql_concurrently": True,
    }
    with autocommit():
        if not _is_sqlite() and op.get_bind().execute(_invalid, {"name": name}).scalar():
            op.drop_index(name, table, postgresql_concurrently=True, if_exists=True)
        op.create_index(name, table, list(columns), unique=unique, **_if_not_exists(), **options)


@contextmanager
def autocommit() -> Iterator[None]:
    """On PostgreSQL, run each statement inside in its own transaction, so that none holds a lock for long.

    Use it first in a migration, or after statements that may be committed.
    """
    if _is_sqlite():
        yield
        return
    with op.get_context().autocommit_block():
        yield


def create_trigger(*statements: str) -> None:
    """Create or replace a PostgreSQL trigger. This waits for the table's writers, and they wait for it."""
    with _gives_way(1):
        for each in statements:
            op.get_bind().exec_driver_sql(each)


def set_storage(table: str, **parameters: float) -> None:
    """Set storage parameters of a table that may be in use. Does nothing on SQLite."""
    if not _is_sqlite():
        written = ", ".join(f"{name} = {value}" for name, value in parameters.items())
        with _gives_way(1):
            op.execute(f"ALTER TABLE {table} SET ({written})")


def drop_index(name: str, table: str) -> None:
    with autocommit():
        op.drop_index(name, table, postgresql_concurrently=True, if_exists=None if _is_sqlite() else True)


@contextmanager
def _gives_way(locks: int) -> Iterator[None]:
    """Run a step that locks `locks` tables, on PostgreSQL with a lock timeout.

    Others wait behind the step for as long as it waits itself. After the timeout `storage.migrate` starts again.
    """
    if _is_sqlite():
        yield
        return
    with op.get_context().autocommit_block():
        op.execute(f"SET lock_timeout = '{round(LOCK_S * 1000) // locks}ms'")
        yield
        # Building an index waits for open transactions but blocks none.
        op.execute("RESET lock_timeout")


def _if_not_exists() -> dict[str, Any]:
    """Return options that tolerate existing objects, because PostgreSQL migrations may resume after an interruption."""
    return {} if _is_sqlite() else {"if_not_exists": True}


def _is_sqlite() -> bool:
    return bool(op.get_bind().dialect.name == "sqlite")
