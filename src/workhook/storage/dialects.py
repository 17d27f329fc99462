"""All differences between SQLite and PostgreSQL that affect statements or errors."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite.dml import OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from workhook.core.errors import Invalid, Unavailable
from workhook.storage.database import ConditionFailed, RolledBack, UniqueViolation
from workhook.storage.statements import Value

_Sql = Callable[[Any], str]

SQLITE: Dialect = sqlite.dialect()
# Write conditions unchanged: `x IN (…)` rather than `x IN (…) = 1`, which no index supports.
SQLITE.supports_native_boolean = True

upsert = sqlite.insert
"""`INSERT … ON CONFLICT` for both databases, without `constraint`, which SQLite does not have."""


@compiles(OnConflictDoNothing, "postgresql")
@compiles(OnConflictDoUpdate, "postgresql")
def _write_on_conflict(clause: Any, compiler: Any, **kw: Any) -> str:
    """Compile SQLite's `ON CONFLICT` clause for PostgreSQL.

    PostgreSQL's compiler reads `constraint_target`, which only its own construct has. Using that construct instead
    would load PostgreSQL's dialect on SQLite too.
    """
    clause.constraint_target = None
    found: str = getattr(compiler, f"visit_{clause.__visit_name__}")(clause, **kw)
    return found


@cache
def postgresql() -> Dialect:
    from sqlalchemy.dialects.postgresql import asyncpg  # imported here because SQLite does not need its 2 MiB

    dialect: Dialect = asyncpg.dialect(implicit_returning=False)  # type: ignore[no-untyped-call]
    return dialect


def sqlite_value(value: Value) -> Any:
    """Return the value for SQLite's driver. Lists are passed as JSON text; see `any_of`."""
    return json.dumps(list(value)) if isinstance(value, (list, tuple, set, frozenset)) else value


class _Written(sa.ColumnElement[Any]):
    """A column written as SQL text, separately for each database.

    `write` receives a function that renders a nested element, and whether the database is SQLite. A SELECT of this
    column includes the tables of `columns` in its FROM clause.
    """

    inherit_cache = False

    def __init__(
        self, kind: sa.types.TypeEngine[Any], write: Callable[[_Sql, bool], str], *columns: sa.ColumnElement[Any]
    ) -> None:
        self.type, self.write, self.columns = kind, write, columns

    @property
    def _from_objects(self) -> list[Any]:
        return [table for column in self.columns for table in column._from_objects]


@compiles(_Written)
def _write(element: _Written, compiler: SQLCompiler, **kw: Any) -> str:
    return element.write(lambda part: compiler.process(part, **kw), compiler.dialect.name == "sqlite")


def any_of(column: sa.ColumnElement[Any], name: str, *, negate: bool = False) -> sa.ColumnElement[bool]:
    """`column = ANY(:name)`: membership in a list passed as one parameter, so the statement is compiled only once."""

    def write(sql: _Sql, on_sqlite: bool) -> str:
        if on_sqlite:
            listed = sql(sa.bindparam(name, type_=sa.Text()))
            return f"{sql(column)} {'NOT ' * negate}IN (SELECT value FROM json_each({listed}))"  # noqa: S608  # SQLAlchemy's own parts
        return f"{sql(column)} {'<> ALL' if negate else '= ANY'}({sql(array)})"

    array = sa.bindparam(name, type_=sa.ARRAY(column.type))
    return _Written(sa.Boolean(), write)


def json_rows(*columns: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """The rows of a correlated SELECT as JSON text: an array of arrays, in no particular order.

        sa.select(json_rows(users.c.id, users.c.login)).where(…).scalar_subquery().label("assignees")

    With it, a list includes the related rows of each of its rows without a second query.
    """

    def write(sql: _Sql, on_sqlite: bool) -> str:
        listed = ", ".join(map(sql, columns))
        if on_sqlite:
            return f"json_group_array(json_array({listed}))"
        return f"coalesce(json_agg(json_build_array({listed}))::text, '[]')"

    return _Written(sa.Text(), write, *columns)


def json_row(*columns: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """The columns as one JSON array, as text. In one database, rows with equal values have the same text."""

    def write(sql: _Sql, on_sqlite: bool) -> str:
        listed = ", ".join(map(sql, columns))
        return f"json_array({listed})" if on_sqlite else f"json_build_array({listed})::text"

    return _Written(sa.Text(), write, *columns)


_FAILED = "a required condition does not hold"


def required(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """True, or the error `ConditionFailed`, which undoes the statement.

    An invalid conversion causes it, because neither database has an expression that only raises an error.
    """

    def write(sql: _Sql, on_sqlite: bool) -> str:
        if on_sqlite:
            return f"json_extract('1', CASE WHEN {sql(condition)} THEN '$' ELSE '{_FAILED}' END) = 1"
        return f"CAST(CASE WHEN {sql(condition)} THEN '1' ELSE '{_FAILED}' END AS integer) = 1"

    return _Written(sa.Boolean(), write)


def json_member(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[str]:
    """A string member of the JSON object in a text column, or NULL.

    `name` is not escaped, so it must be a constant of letters and underscores.
    """

    def write(sql: _Sql, on_sqlite: bool) -> str:
        return f"json_extract({sql(column)}, '$.{name}')" if on_sqlite else f"({sql(column)}::json ->> '{name}')"

    return _Written(sa.Text(), write, column)


def json_has(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """Whether the JSON array in a text column contains the value of the parameter `name`."""

    def write(sql: _Sql, on_sqlite: bool) -> str:
        array, wanted = sql(column), sql(sa.bindparam(name, type_=sa.Text()))
        each = f"json_each({array})" if on_sqlite else f"json_array_elements_text(({array})::json) AS texts(value)"
        return f"EXISTS (SELECT 1 FROM {each} WHERE value = {wanted})"  # noqa: S608  # SQLAlchemy's own clauses

    return _Written(sa.Boolean(), write, column)


def server_now() -> sa.ColumnElement[int]:
    """The database's own time at the start of the statement, in milliseconds since the epoch."""

    def write(_: _Sql, on_sqlite: bool) -> str:
        if on_sqlite:
            return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
        return "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

    return _Written(sa.BigInteger(), write)


def arrays(name: str, columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.TableValuedAlias:
    """On PostgreSQL, return array parameters `NAME_COLUMN`, one per column, as a table. Its `n` numbers the rows."""
    values: list[sa.BindParameter[Any]] = [
        sa.bindparam(f"{name}_{column}", type_=sa.ARRAY(kind)) for column, kind in columns.items()
    ]
    shape = [sa.column(column, kind) for column, kind in columns.items()]
    return sa.func.unnest(*values).table_valued(*shape, with_ordinality="n", name=name).render_derived()


def join_few(
    dialect: str, each: sa.FromClause, top: sa.Select[Any], table: sa.Table, key: str = "id"
) -> tuple[sa.Join, sa.FromClause]:
    """Join each row with the rows of `table` that `top`, a SELECT correlated with it, returns.

    Returns the join, and the joined rows as part of it. SQLite has no LATERAL, so there the rows are fetched a second
    time by their primary key `key`, with all columns of the table.
    """
    if dialect == "postgresql":
        few: sa.FromClause = top.lateral("few")
        return each.join(few, sa.true()), few
    few = table.alias("few")
    return each.join(few, few.c[key].in_(top.with_only_columns(top.selected_columns[key]))), few


def join_by_key(
    dialect: str, rows: sa.Join, table: sa.Table, key: sa.ColumnElement[int], names: Sequence[str]
) -> tuple[sa.Join, sa.FromClause]:
    """Join each row with the columns `names` of the row of `table` whose ID is `key`.

    Returns the join, and the joined row as part of it. On PostgreSQL, OFFSET keeps the planner from reading `table`
    first while its statistics say that the table is nearly empty.
    """
    if dialect != "postgresql":
        return rows.join(table, table.c.id == key), table
    found = sa.select(*(table.c[name] for name in names)).where(table.c.id == key).offset(sa.literal_column("0"))
    there = found.lateral(f"{table.name}_by_key")
    return rows.join(there, sa.true()), there


def sqlite_problem(error: sqlite3.Error) -> Exception:
    """Translate an error of SQLite's driver into the program's own error."""
    if isinstance(error, sqlite3.IntegrityError) and "UNIQUE" in str(error):
        return UniqueViolation(str(error))
    if isinstance(error, sqlite3.OperationalError):
        if _FAILED in str(error):
            return ConditionFailed()
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return RolledBack("locked", f"The database cannot be used right now: {error}.")
        if name.startswith(_SQLITE_PASSING):
            return Unavailable(f"The database cannot be used right now: {error}.", code="database_unavailable")
    return error


_SQLITE_PASSING = tuple(f"SQLITE_{each}" for each in ("FULL", "IOERR", "CANTOPEN", "READONLY", "NOMEM", "PROTOCOL"))


def postgresql_problem(error: BaseException) -> BaseException:
    """Translate an error of the PostgreSQL driver into the program's own error.

    Lost connections, full disks, shutdowns, deadlocks and timeouts can succeed later.
    """
    import asyncpg  # imported here because SQLite does not need its several megabytes

    if isinstance(error, asyncpg.UniqueViolationError):
        return UniqueViolation(str(error))
    if isinstance(error, asyncpg.InvalidTextRepresentationError) and _FAILED in str(error):
        return ConditionFailed()
    if isinstance(error, asyncpg.CharacterNotInRepertoireError):
        return Invalid("Text cannot contain the character NUL.")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return RolledBack("schema")
    if isinstance(error, asyncpg.PostgresError) and (reason := _TAKEN_BACK.get(str(error.sqlstate))):
        return RolledBack(reason)
    if isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)) or (
        isinstance(error, asyncpg.PostgresError) and str(error.sqlstate or "")[:2] in _POSTGRESQL_PASSING
    ):
        return Unavailable("The database cannot be used right now.", code="database_unavailable")
    return error


# Not the rest of class 40: after 40003 the outcome of the commit is unknown.
_TAKEN_BACK = {"40P01": "deadlock", "40001": "serialization"}

# SQLSTATE classes: connection, transaction rollback, resources, operator intervention, system error; 25: read-only.
_POSTGRESQL_PASSING = frozenset({"08", "25", "40", "53", "55", "57", "58"})


def connect_options(url: str) -> Mapping[str, Any]:
    """Return the arguments for asyncpg. The connections are named `workhook` unless the URL has a name."""
    dsn = url.replace("postgresql+asyncpg://", "postgresql://", 1)
    if "application_name" not in parse_qs(urlsplit(dsn).query):
        dsn += f"{'&' if '?' in dsn else '?'}application_name=workhook"
    return {"dsn": dsn}


def database_address(url: str) -> str:
    """Return the address of the database without user name and password."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    host = parts.netloc.rpartition("@")[2] or asked.get("host", ["localhost"])[0]
    return f"{host}{parts.path}"


SILENCE_S = 10  # until connections to a host that does not answer are closed
_PROBES = {"TCP_KEEPIDLE": SILENCE_S // 2, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": SILENCE_S * 1000}


async def set_tcp_timeouts(connection: Any) -> None:
    """Set short TCP timeouts. By default TCP waits a quarter of an hour for a host that is gone.

    asyncpg has no setting for this, and no public access to the socket.
    """
    reached: socket.socket | None = connection._transport.get_extra_info("socket")
    if reached is None or reached.family == socket.AF_UNIX:
        return
    reached.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all of them
            reached.setsockopt(socket.IPPROTO_TCP, option, value)
