"""A database of a released schema with rows in every table, inserted by the database itself, and its checksums."""

from __future__ import annotations

import zlib
from typing import Any

import sqlalchemy as sa

from tests.harness.depth import deep

ROWS = deep(2_000, 1_000_000)  # for each table of the webhook history
FEW = deep(200, 1_000)  # for each table that others refer to
_TIME = 1_700_000_000_000
_SIZES = {
    **dict.fromkeys(("events", "dispatches", "deliveries"), ROWS),
    "audit_log": ROWS // 4,
    "timesheets": ROWS // 10,
    "tasks": ROWS // 10,
    "event_keys": ROWS // 20,
}
# `i` is the row number. Columns not listed here get a value of their type, even if they are nullable.
_OF_HISTORY = {
    "repository_id": f"i % {FEW} + 1",
    "hook_id": f"i % {FEW} + 1",
    "account_id": f"i % {FEW} + 1",
    "event_id": "i",
    "dispatch_id": "i",
    "actor_id": f"i % {FEW} + 1",
}
_KINDS = "CASE i % 3 WHEN 0 THEN 'task' WHEN 1 THEN 'push' ELSE 'column' END"
_VALUES = {
    "events": {**_OF_HISTORY, "name": _KINDS, "action": "CASE i % 2 WHEN 0 THEN 'created' END", "listed": "i % 9 > 0"},
    "dispatches": {**_OF_HISTORY, "next_attempt_at": f"CASE WHEN i % 100 = 0 THEN {_TIME} + i END"},
    "deliveries": {
        **_OF_HISTORY,
        "event": _KINDS,
        "action": "CASE i % 2 WHEN 0 THEN 'created' END",
        "status_code": "CASE WHEN i % 50 = 0 THEN 503 ELSE 200 END",
        "throttled_at": "CAST(NULL AS BIGINT)",
        "redelivery": "i % 70 = 0",
    },
    "audit_log": {**_OF_HISTORY, "action": "CASE i % 2 WHEN 0 THEN 'hook.create' ELSE 'task.update' END"},
    # A user has at most one running timer.
    "timesheets": {
        "is_active": f"i % 2 = 0 AND i <= {FEW}",
        "running_since": f"CASE WHEN i <= {FEW} THEN {_TIME} + i END",
    },
    "invoices": {"buyer": """'{"name": "Buyer ' || i || '"}'"""},
    # Triggers maintain the order of tasks.
    "tasks": {"column_id": "CAST(NULL AS TEXT)", "bucket_id": "CAST(NULL AS BIGINT)", "rank": "CAST(NULL AS BIGINT)"},
}
_NOT_OURS = ("alembic_version", "task_buckets", "timesheet_changes", "search_")  # triggers fill the second and third


def tables(connection: sa.Connection) -> list[sa.Table]:
    """Return the tables to fill, each after the tables it refers to."""
    there = sa.MetaData()
    there.reflect(connection, only=lambda name, _: not name.startswith(_NOT_OURS[-1]))
    return [each for each in there.sorted_tables if each.name not in _NOT_OURS]


def fill(connection: sa.Connection) -> dict[str, int]:
    """Fill every table and return its number of rows by name."""
    sizes = {}
    for table in tables(connection):
        size = sizes[table.name] = _SIZES.get(table.name, FEW)
        given = _VALUES.get(table.name, {})
        values = {each.name: given.get(each.name) or _value(connection, each) for each in table.columns}
        names = ", ".join(f'"{name}"' for name in values)
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {size})"
        into = f'INSERT INTO "{table.name}" ({names})'  # only names from this module or the schema
        connection.exec_driver_sql(f"{into} {numbers} SELECT {', '.join(values.values())} FROM n")
        _count_on(connection, table, size)
    return sizes


def _value(connection: sa.Connection, column: sa.Column[Any]) -> str:
    number, of = "i", column.table.name if list(column.table.primary_key) == [column] else "x"
    for key in column.foreign_keys:
        of = key.column.table.name
        number = f"((i - 1) % {_SIZES.get(of, FEW)} + 1)"
    if column.name == "deleted_at":
        return f"CASE WHEN i % 10 = 0 THEN {_TIME} + i END"
    if isinstance(column.type, sa.Boolean):
        return "(i % 2 = 0)"
    if isinstance(column.type, sa.Text):
        return f"'{of}' || {number}"
    if isinstance(column.type, sa.LargeBinary):
        return "CAST('x' || i AS BLOB)" if connection.dialect.name == "sqlite" else "convert_to('x' || i, 'UTF8')"
    return f"{_TIME} + i" if column.name.endswith("_at") else number


def _count_on(connection: sa.Connection, table: sa.Table, size: int) -> None:
    if connection.dialect.name == "sqlite" or table.autoincrement_column is None:
        return
    sequence = sa.func.pg_get_serial_sequence(table.name, table.autoincrement_column.name)
    connection.execute(sa.select(sa.func.setval(sequence, size)).where(sequence.is_not(None)))


def sums(connection: sa.Connection, columns: dict[str, list[str]], sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return the number of rows inserted by `fill` and a checksum of the given columns, by table."""
    return {name: _sum(connection, name, columns[name], sizes[name]) for name in columns}


def _sum(connection: sa.Connection, table: str, columns: list[str], size: int) -> tuple[int, int]:
    listed = ", ".join(f'"{name}"' for name in columns)
    # Rows that the concurrent writers have added have higher numbers, or IDs with another prefix.
    ours = ""
    if table in ("events", "dispatches", "deliveries", "audit_log"):
        ours = f"WHERE id <= {size}"
    elif table in ("tasks", "timesheets"):
        ours = f"WHERE substr(id, 1, {len(table)}) = '{table}'"
    if connection.dialect.name == "postgresql":
        hashed = f"hashtextextended(CAST(ROW({listed}) AS text), 0)"
        asked = f'SELECT count(*), coalesce(sum(CAST({hashed} AS numeric)), 0) FROM "{table}" {ours}'
        count, total = connection.exec_driver_sql(asked).one()
        return int(count), int(total)
    count = total = 0
    for row in connection.exec_driver_sql(f'SELECT {listed} FROM "{table}" {ours}'):
        count, total = count + 1, total + zlib.crc32(repr(tuple(row)).encode())
    return count, total
