"""A database with rows in every table is migrated to the next release while the previous version uses it.

PostgreSQL itself checks this: the sessions that run during the migration set `lock_timeout`, so one that waits for
longer than a second fails. An SQLite file is migrated in one transaction before a server starts.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.waiting import until
from tests.migrations.beside import Beside, beside
from tests.migrations.filled import ROWS, fill, sums, tables
from tests.migrations.shape import shape, sqlite_shape
from tests.migrations.upgrade_kit import UNRELEASED, make_database, on_database
from workhook.core.config import load
from workhook.storage import migrate

OLD, NEW = migrate.HEAD, "9999"
MINUTES = 20.0
pytestmark = [
    pytest.mark.timeout(60 * 2 * MINUTES),
    pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index"),
]


class Migration:
    """`workhook migrate` of the next release as a process, and its output."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.said: list[str] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
        ours = {f"WORKHOOK_{name.upper()}": str(value) for name, value in settings.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.migrations.upgrade_kit", settings["data"], "migrate"],
            env={**kept, **ours},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self.said.extend(said)

    def __enter__(self) -> Migration:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def says(self, *words: str) -> bool:
        if over := self.process.poll() is not None:
            self._reading.join()
        found = any(all(word in line for word in words) for line in list(self.said))
        assert found or not over, "".join(self.said)
        return found

    def ends(self) -> None:
        assert self.process.wait(60 * MINUTES) == 0, "".join(self.said)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._reading.join()


class OldDatabase:
    """A database of the current version, before the migration."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        known = load(settings, {})
        self.file, self.url = known.sqlite_path, known.database_url or ""
        self.columns: dict[str, list[str]] = {}
        self.sizes: dict[str, int] = {}
        on_database(settings, self._fill)
        self.before = self.sums()

    def _fill(self, connection: sa.Connection) -> None:
        self.columns = {each.name: [column.name for column in each.columns] for each in tables(connection)}
        self.sizes = fill(connection)

    def sums(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        on_database(self.settings, lambda connection: found.update(sums(connection, self.columns, self.sizes)))
        return found

    def check(self) -> None:
        """Check that there were rows and that every row is unchanged."""
        assert {name: count for name, (count, _) in self.before.items()} == self.sizes
        assert self.before["deliveries"][0] == ROWS
        assert self.sums() == self.before


@pytest.mark.whole
def test_a_file_with_a_million_rows_is_migrated(sqlite: Databases, tmp_path: Path) -> None:
    old = OldDatabase(make_database(sqlite, tmp_path, UNRELEASED))
    assert old.file is not None
    there = _indexes(old.file)
    with Migration(old.settings) as killed:
        until(lambda: killed.says("building_index"), 60 * MINUTES)
    # It is one transaction, which a fast machine may have committed before the kill.
    assert migrate.sqlite_revision(old.file) in (OLD, NEW)
    with Migration(old.settings) as again:
        again.ends()
    new = _empty(sqlite, tmp_path / "empty")
    assert sqlite_shape(old.file) == sqlite_shape(new)
    built = "".join(killed.said + again.said)
    assert {each for each in _indexes(new) - there if each not in built} == set(), "each is said when it is built"
    with sqlite3.connect(old.file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    old.check()


def _empty(databases: Databases, folder: Path) -> Path:
    """Return an empty database file after an undisturbed migration."""
    settings = make_database(databases, folder, UNRELEASED)
    with Migration(settings) as alone:
        alone.ends()
    file = load(settings, {}).sqlite_path
    assert file is not None
    return file


def _indexes(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    connection.close()
    return {name for (name,) in names}


@pytest.mark.whole
async def test_a_million_rows_are_migrated_while_an_earlier_version_runs(postgresql: Databases, tmp_path: Path) -> None:
    """The first migration is killed half-way, and a second one continues."""
    old = OldDatabase(make_database(postgresql, tmp_path, UNRELEASED))
    look = await asyncpg.connect(old.url)
    try:
        async with beside(old.url) as others:
            await _kill_half_way(old, others, look)
            with Migration(old.settings) as again:
                await _until(lambda: again.process.poll() is not None, others)
                again.ends()
            others.check()
            await _until(lambda: min(others.rounds.values()) > 0 and len(others.rounds) == 5, others)
        for table, written in others.written.items():
            count = await look.fetchval(f'SELECT count(*) FROM "{table}"')  # only names from this module
            assert count == old.sizes[table] + written, f"{table}: what was acknowledged is there, once"
        alone = make_database(postgresql, tmp_path / "empty", UNRELEASED)
        with Migration(alone) as migration:
            await asyncio.to_thread(migration.ends)
        new = await asyncpg.connect(alone["database_url"])
        assert await shape(look) == await shape(new)
        await new.close()
        old.check()
    finally:
        await look.close()


async def _kill_half_way(old: OldDatabase, others: Beside, look: Any) -> None:
    """Kill the migration while its index on the audit log waits for an uncommitted write, as its log shows."""
    slow = await asyncpg.connect(old.url)
    try:
        async with slow.transaction():
            await slow.execute("UPDATE audit_log SET times = times WHERE id = 1")
            with Migration(old.settings) as killed:
                await _until(lambda: killed.says("building_index", "ix_audit_log", "phase", "waiting"), others)
    finally:
        await slow.close()
    assert await look.fetchval("SELECT version_num FROM alembic_version") == OLD
    assert await look.fetchval("SELECT to_regclass('stars') IS NOT NULL"), "the first steps are done"


async def _until(probe: Any, others: Beside) -> None:
    def found() -> bool:
        others.check()
        return bool(probe())

    await asyncio.to_thread(until, found, 60 * MINUTES)
