"""The shared metadata object, and column types that both databases support without conversion.

Columns contain integers, text, bytes, floats and booleans. Times are in milliseconds; JSON is text or bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite assigns IDs itself only in a column declared as INTEGER.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Millis = sa.BigInteger

GROWS = "grows"
"""Key in the `info` of a table that may have millions of rows (`storage.schema`)."""
DECLARED = "declared"
"""Key in the `info` of an index: its position among the indexes its table declares, starting at 1."""


@sa.event.listens_for(sa.Index, "after_parent_attach")
def _note_place(index: sa.Index, table: sa.Table) -> None:
    index.info[DECLARED] = len(table.indexes)


def plain_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *parts, **options)


def numbered_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """Return a table whose rows have an `id` that the database assigns and never reuses."""
    return plain_table(name, sa.Column("id", BigId, primary_key=True), *parts, sqlite_autoincrement=True, **options)


NOT_PRIVATE = sa.column("private", sa.Boolean).is_(sa.false())
"""The condition of an index over rows that are not private."""


def partial_index(name: str, *columns: Any, where: sa.ColumnElement[bool] | sa.TextClause, **options: Any) -> sa.Index:
    """Return an index over the rows for which `where` is true, on either database.

    Only `storage.schema` adds the condition, so nothing else may create tables: `postgresql_where` would load
    PostgreSQL's dialect, 2 MiB that SQLite does not need.
    """
    return sa.Index(name, *columns, info={"where": where}, **options)


def in_project(*, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    """Return the column `repository_id` of a table whose rows belong to a project and are deleted with it."""
    project = sa.ForeignKey("projects.repository_id", ondelete="CASCADE")
    return sa.Column("repository_id", sa.BigInteger, project, nullable=nullable, **options)


def of_account(name: str, **options: Any) -> sa.Column[Any]:
    """Return a column that references a user or organization. The row is deleted with the account."""
    return sa.Column(name, sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), **options)


def is_in_project(table: sa.Table) -> bool:
    return any(each.target_fullname == "projects.repository_id" for each in table.foreign_keys)


def insert_into(table: sa.Table, *columns: str) -> sa.Insert:
    """Return an `INSERT` of exactly these columns, each a parameter with the column's name."""
    return sa.insert(table).values({name: sa.bindparam(name) for name in columns})


@cache
def insert_for_id(table: sa.Table, columns: tuple[str, ...]) -> Executable:
    """Return an `INSERT` of exactly these columns that returns the row's ID."""
    return insert_into(table, *columns).returning(table.c.id)


def bigint_param(name: str) -> sa.BindParameter[int]:
    """Return a 64-bit integer parameter: PostgreSQL needs the width."""
    return sa.bindparam(name, type_=sa.BigInteger())


# A row that readiness checks write, because a database that is read-only is not ready.
probe = plain_table(
    "probe",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("written_at", Millis, nullable=False),
)

# A value sealed with the first key. A process that cannot open it has the wrong key for this database.
key_check = plain_table(
    "key_check",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
)
