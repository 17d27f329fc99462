"""Every difference between SQLite and PostgreSQL that reaches a statement or an error."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from workhook.core.errors import Invalid, Unavailable
from workhook.storage.database import RolledBack, UniqueViolation, Value

SQLITE: Dialect = sqlite.dialect()
# Conditions as they are: `x IN (…)` and not `x IN (…) = 1`, which no index serves.
SQLITE.supports_native_boolean = True
POSTGRESQL: Dialect = asyncpg_dialect.dialect(implicit_returning=False)  # type: ignore[no-untyped-call]

# Both dialects' compilers render this construct's ON CONFLICT clause alike.
upsert = postgresql.insert


def sqlite_value(value: Value) -> Any:
    """Lists travel to SQLite as JSON text, see `any_of`."""
    return json.dumps(list(value)) if isinstance(value, (list, tuple, set, frozenset)) else value


class any_of(sa.ColumnElement[bool]):  # noqa: N801  # reads like the SQL it stands for
    """`column = ANY(:name)`: membership in a list that is one parameter, so that the statement is compiled once."""

    inherit_cache = False
    type = sa.Boolean()

    def __init__(self, column: sa.ColumnElement[Any], name: str, *, negate: bool = False) -> None:
        self.column = column
        self.negate = negate
        self.name = name
        array: sa.types.TypeEngine[Any] = postgresql.ARRAY(column.type)
        self.parameter = sa.bindparam(name, type_=array)


@compiles(any_of, "postgresql")
def _any_of_postgresql(element: any_of, compiler: SQLCompiler, **kw: Any) -> str:
    column, array = compiler.process(element.column, **kw), compiler.process(element.parameter, **kw)
    return f"{column} <> ALL({array})" if element.negate else f"{column} = ANY({array})"


@compiles(any_of, "sqlite")
def _any_of_sqlite(element: any_of, compiler: SQLCompiler, **kw: Any) -> str:
    column = compiler.process(element.column, **kw)
    listed = compiler.process(sa.bindparam(element.name, type_=sa.Text()), **kw)
    relation = "NOT IN" if element.negate else "IN"
    return f"{column} {relation} (SELECT value FROM json_each({listed}))"  # noqa: S608  # parts that SQLAlchemy made


class json_rows(sa.ColumnElement[str]):  # noqa: N801  # reads like the SQL it stands for
    """The rows of a correlated SELECT as one JSON text, an array of arrays in no dependable order.

        sa.select(json_rows(users.c.id, users.c.login)).where(…).scalar_subquery().label("assignees")

    So that a list carries what belongs to each of its rows without a second query.
    """

    inherit_cache = False
    type = sa.Text()

    def __init__(self, *columns: sa.ColumnElement[Any]) -> None:
        self.columns = columns

    @property
    def _from_objects(self) -> list[Any]:
        return [table for column in self.columns for table in column._from_objects]


@compiles(json_rows, "postgresql")
def _json_rows_postgresql(element: json_rows, compiler: SQLCompiler, **kw: Any) -> str:
    listed = ", ".join(compiler.process(each, **kw) for each in element.columns)
    return f"coalesce(json_agg(json_build_array({listed}))::text, '[]')"


@compiles(json_rows, "sqlite")
def _json_rows_sqlite(element: json_rows, compiler: SQLCompiler, **kw: Any) -> str:
    listed = ", ".join(compiler.process(each, **kw) for each in element.columns)
    return f"json_group_array(json_array({listed}))"


class json_member(sa.ColumnElement[str]):  # noqa: N801  # reads like the SQL it stands for
    """A text of the JSON object that a text column holds, or NULL: `json_member(installations.c.permissions, "work")`.
    `name`: a constant of letters and underscores."""

    inherit_cache = False
    type = sa.Text()

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        self.column = column
        self.name = name

    @property
    def _from_objects(self) -> list[Any]:
        return list(self.column._from_objects)


@compiles(json_member, "postgresql")
def _json_member_postgresql(element: json_member, compiler: SQLCompiler, **kw: Any) -> str:
    return f"({compiler.process(element.column, **kw)}::json ->> '{element.name}')"


@compiles(json_member, "sqlite")
def _json_member_sqlite(element: json_member, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_extract({compiler.process(element.column, **kw)}, '$.{element.name}')"


def arrays(name: str, columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.TableValuedAlias:
    """On PostgreSQL: parameters `NAME_COLUMN`, an array a column, as a table; its `n` counts the rows."""
    values: list[sa.BindParameter[Any]] = [
        sa.bindparam(f"{name}_{column}", type_=postgresql.ARRAY(kind)) for column, kind in columns.items()
    ]
    shape = [sa.column(column, kind) for column, kind in columns.items()]
    return sa.func.unnest(*values).table_valued(*shape, with_ordinality="n", name=name).render_derived()


class server_now(sa.ColumnElement[int]):  # noqa: N801  # reads like the SQL it stands for
    """The database's own time when the statement begins, in milliseconds since the epoch: for what must not depend on
    how well a process follows that clock."""

    inherit_cache = False
    type = sa.BigInteger()


@compiles(server_now, "postgresql")
def _server_now_postgresql(element: server_now, compiler: SQLCompiler, **kw: Any) -> str:
    return "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"


@compiles(server_now, "sqlite")
def _server_now_sqlite(element: server_now, compiler: SQLCompiler, **kw: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


def sqlite_problem(error: sqlite3.Error) -> Exception:
    """What a driver's error means to the rest of the program."""
    if isinstance(error, sqlite3.IntegrityError) and "UNIQUE" in str(error):
        return UniqueViolation(str(error))
    if isinstance(error, sqlite3.OperationalError):
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return RolledBack("locked", f"The database cannot be used right now: {error}.")
        if name.startswith(_SQLITE_PASSING):
            return Unavailable(f"The database cannot be used right now: {error}.", code="database_unavailable")
    return error


_SQLITE_PASSING = (
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_CANTOPEN",
    "SQLITE_READONLY",
    "SQLITE_NOMEM",
    "SQLITE_PROTOCOL",
)


def postgresql_problem(error: BaseException) -> BaseException:
    """What the error means. Lost connections, full disks, shutdowns, deadlocks and time-outs can succeed later."""
    import asyncpg  # some megabytes, which who has SQLite does not need

    if isinstance(error, asyncpg.UniqueViolationError):
        return UniqueViolation(str(error))
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


# Not the rest of class 40: of 40003 nobody knows whether the transaction stands.
_TAKEN_BACK = {"40P01": "deadlock", "40001": "serialization"}

# Classes of SQLSTATE: connection, transaction rollback, resources, operator intervention, system error; 25: read-only.
_POSTGRESQL_PASSING = frozenset({"08", "25", "40", "53", "55", "57", "58"})


def connect_options(url: str) -> Mapping[str, Any]:
    """`postgresql://…` as SQLAlchemy and asyncpg both take it."""
    return {"dsn": url.replace("postgresql+asyncpg://", "postgresql://", 1)}


def place(url: str) -> str:
    """Where the database is, without who comes there, and without the password."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    host = parts.netloc.rpartition("@")[2] or asked.get("host", ["localhost"])[0]
    return f"{host}{parts.path}"


SILENCE_S = 10  # of a host that has gone, until its connections are given up
_PROBES = {"TCP_KEEPIDLE": SILENCE_S // 2, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": SILENCE_S * 1000}


async def notice_silence(connection: Any) -> None:
    """A host that has gone, or cannot be reached, says nothing, and TCP by itself waits a quarter of an hour for it.

    asyncpg has no setting for this, and no public way to the socket.
    """
    reached: socket.socket | None = connection._transport.get_extra_info("socket")
    if reached is None or reached.family == socket.AF_UNIX:
        return
    reached.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all of them
            reached.setsockopt(socket.IPPROTO_TCP, option, value)


def is_read_only(error: BaseException | None) -> bool:
    """The server was a primary once, or the session was told not to write: another connection may be better."""
    import asyncpg

    return isinstance(error, asyncpg.ReadOnlySQLTransactionError)
