"""Tables and indexes of migrations, written as short texts.

    make_table(
        "memberships",
        "organization_id bigint, user_id bigint, role text, created_at bigint",
        key="organization_id, user_id",
        foreign=["organization_id > accounts.id CASCADE", "user_id > accounts.id CASCADE"],
    )

A column is NOT NULL unless its type ends in `?`. Types have PostgreSQL's names. The database numbers the rows of
`serial` and `bigserial` columns; SQLite never gives a number twice. Constraints are named as in `storage.metadata`.

Migrations that were released depend on this text: what it means never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from workhook.storage.metadata import BigId

_NUMBERED: dict[str, Any] = {"serial": sa.Integer(), "bigserial": BigId}
_TYPES: dict[str, Any] = {
    **_NUMBERED,
    "smallint": sa.SmallInteger(),
    "integer": sa.Integer(),
    "bigint": sa.BigInteger(),
    "boolean": sa.Boolean(),
    "bytea": sa.LargeBinary(),
    "text": sa.Text(),
}


def column(text: str, default: Any = None) -> sa.Column[Any]:
    """A column such as `title text?` or, with a default that is a number, `revision bigint=0`."""
    name, kind = text.split()
    kind, _, number = kind.partition("=")
    plain = kind.removesuffix("?")
    default = sa.text(number) if number else default
    nullable, numbered = kind != plain, plain in _NUMBERED
    return sa.Column(name, _TYPES[plain], autoincrement=numbered, nullable=nullable, server_default=default)


def make_table(
    name: str,
    columns: str,
    *,
    key: str = "id",
    foreign: Sequence[str] = (),
    unique: Sequence[str] = (),
    create: Callable[..., object] = op.create_table,
    **options: Any,
) -> None:
    """Create a table. `key`: its primary key; `unique`: columns that are unique, alone or together.
    `create`: `storage.online.create_table`, where servers use the database meanwhile."""
    parts: list[Any] = [*map(column, columns.split(", "))]
    if any(each.autoincrement for each in parts):
        options["sqlite_autoincrement"] = True
    for each in foreign:
        column_name, _, target, *deleted = each.split()
        parts.append(
            sa.ForeignKeyConstraint(
                [column_name], [target], name=op.f(f"fk_{name}_{column_name}"), ondelete=" ".join(deleted) or None
            )
        )
    parts.append(sa.PrimaryKeyConstraint(*key.split(", "), name=op.f(f"pk_{name}")))
    for each in unique:
        names = each.split(", ")
        parts.append(sa.UniqueConstraint(*names, name=op.f(f"uq_{name}_{'_'.join(names)}")))
    create(name, *parts, **options)


def make_index(name: str, table: str, columns: str, *, unique: bool = False, where: str | None = None) -> None:
    """Create an index, of the rows for which `where` is true. Writers of the table wait meanwhile; where servers use
    the database, `storage.online.create_index` does without that."""
    condition = None if where is None else sa.text(where)
    listed: list[str | sa.TextClause] = [*columns.split(", ")]
    op.create_index(name, table, listed, unique=unique, sqlite_where=condition, postgresql_where=condition)
