"""The schema of a new database: the tables declared by the areas, plus further DDL.

Statements that SQLAlchemy cannot express, such as triggers and full-text indexes, are declared next to their tables:

    @ddl
    def _order(dialect: str) -> Iterable[str]:
        yield "CREATE TRIGGER …"

An existing database is brought to this schema by the migrations of `storage.migrations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from workhook.storage import dialects
from workhook.storage.metadata import DECLARED, GROWS, metadata

Ddl = Callable[[str], Iterable[str]]

_further: list[Ddl] = []

_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
# With PostgreSQL's default scale of a fifth, two million dead rows would pile up in a table of ten million.
_CLEANED_UP_EARLY = ", ".join(
    f"autovacuum_{what}_scale_factor = 0.02" for what in ("vacuum", "vacuum_insert", "analyze")
)


def ddl(make: Ddl) -> Ddl:
    """Register a function that returns statements for `sqlite` or `postgresql`, run after all tables are created.

    SQL functions must qualify names, as in `{schema}tasks`, because a dump is restored with an empty search path.
    """
    _further.append(make)
    return make


def trigger_function(name: str, event: str, body: str) -> list[str]:
    """Return the statements that create a PostgreSQL trigger and its function."""
    return [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$",
        f"CREATE TRIGGER {name} {event} EXECUTE FUNCTION {name}()",
    ]


def statements(dialect_name: str, revision: str, schema: str = "") -> list[str]:
    """Return the statements that create a database. Requires `bootstrap.import_tables`.

    `schema` is the quoted name of PostgreSQL's schema.
    """
    dialect = dialects.SQLITE if dialect_name == "sqlite" else dialects.postgresql()
    made = [_VERSION_TABLE, f"INSERT INTO alembic_version VALUES ('{revision}')"]  # noqa: S608  # our own number
    for table in metadata.sorted_tables:
        made.append(_compiled(sa.schema.CreateTable(table), dialect))
        if table.info.get(GROWS) and dialect.name == "postgresql":
            made.append(f"ALTER TABLE {table.name} SET ({_CLEANED_UP_EARLY})")
        for index in sorted(table.indexes, key=_index_order):
            if (where := index.info.get("where")) is not None:
                index.dialect_options[dialect.name]["where"] = where
            made.append(_compiled(sa.schema.CreateIndex(index), dialect))
    for further in _further:
        made += [each.replace("{schema}", f"{schema}.") for each in further(dialect_name)]
    return made


def _index_order(index: sa.Index) -> tuple[bool, bool, int]:
    """Sort key of a table's indexes: unique ones first, partial ones last.

    If several indexes can serve a statement, SQLite without statistics prefers the one created last.
    """
    return "where" in index.info and not index.unique, not index.unique, index.info[DECLARED]


def _compiled(element: sa.schema.ExecutableDDLElement, dialect: Dialect) -> str:
    return str(element.compile(dialect=dialect)).strip()
