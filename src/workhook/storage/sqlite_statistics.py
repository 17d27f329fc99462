"""What SQLite's planner goes by: how many rows of an index are alike. It gathers nothing of its own accord.

`ANALYZE` looks at some rows of each index, so that it holds the writer for milliseconds, however many there are; each
table is a transaction of its own. `PRAGMA optimize` would go by what its connection has read, and the writer's reads
next to nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

LOOKS_AT = 400  # rows of an index

_TABLES = """
SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
"""
_TOUCHED = "statistics_were_renewed"


def tables(connection: sqlite3.Connection) -> list[str]:
    return sorted(row[0] for row in connection.execute(_TABLES))


def analyzing(table: str) -> Callable[[sqlite3.Connection], None]:
    def analyze(connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA analysis_limit={LOOKS_AT}")
        connection.execute(f'ANALYZE "{table}"')

    return analyze


def show_others(connection: sqlite3.Connection) -> None:
    """Connections read the statistics with the schema, and that again only when it has changed: so it changes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"CREATE TABLE {_TOUCHED} (empty)")
        connection.execute(f"DROP TABLE {_TOUCHED}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
