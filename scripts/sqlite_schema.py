"""Writes the schema of a new SQLite file: `python -m scripts.sqlite_schema`, after every new migration.

A new database needs no history, and no Alembic: the server starts sooner and stays smaller. A test compares the file
with what the migrations make.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from workhook.storage.migrate import NEW_SQLITE, migrate_sqlite_by_steps

_OBJECTS = """
SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite~_%' ESCAPE '~' AND name NOT IN
(SELECT name FROM pragma_table_list WHERE type = 'shadow') ORDER BY rowid
"""


def statements(path: Path) -> list[str]:
    """What makes a file like this one: tables, indexes, triggers, and the rows that migrations wrote."""
    with sqlite3.connect(path) as connection:
        made = [row[0] for row in connection.execute(_OBJECTS)]
        made += [line for line in connection.iterdump() if line.startswith('INSERT INTO "alembic_version"')]
    connection.close()
    return ["\n".join(line.rstrip() for line in each.rstrip(";").splitlines() if line.strip()) for each in made]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        migrate_sqlite_by_steps(path)
        NEW_SQLITE.write_text("\n\n".join(statements(path)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
