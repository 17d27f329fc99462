"""An import of an organization that is killed in the middle of its writing leaves no row, and can be done again."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.cli.cli_kit import Cli
from tests.copy.exports import Lines, comparable, differences, export, members, pause
from tests.copy.filled import Filled
from tests.copy.test_moving import add_people, organizations
from tests.harness.databases import PostgresDatabases
from tests.harness.locks import nobody_writes
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.walls.dump import Dump, Reader

IsWriting = Callable[[], bool]

# An import comes to it with its organization, people, projects and tasks written; then it is busy for ever.
_STUCK = """CREATE TRIGGER stuck BEFORE INSERT ON timesheets BEGIN
    SELECT count(*) FROM (WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT n FROM more);
END"""


@contextmanager
def stuck_on_sqlite(data: Path) -> Iterator[IsWriting]:
    """An import stays where it writes timesheets. It is in its transaction while nobody else may write."""

    def is_writing() -> bool:
        with closing(sqlite3.connect(data / "workhook.db", isolation_level=None, timeout=0)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            return False

    with closing(sqlite3.connect(data / "workhook.db", isolation_level=None)) as database:
        database.execute(_STUCK)
        yield is_writing
        database.execute("DROP TRIGGER stuck")


@contextmanager
def stuck_on_postgres(data: Path, url: str) -> Iterator[IsWriting]:
    """The same. It waits for a lock there, and what it has written before is in its transaction."""
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'timesheets'::regclass AND NOT granted)"
    with asyncio.Runner() as runner, nobody_writes(data, url, "timesheets"):
        connection = runner.run(asyncpg.connect(url))
        yield lambda: bool(runner.run(connection.fetchval(waiting)))
        runner.run(connection.close())


def dump(cli: Cli, settings: dict[str, str]) -> Dump:
    reader = Reader(Server(cli.data, settings))
    try:
        return reader.dump()
    finally:
        reader.close()


def kill_in_the_middle(cli: Cli, words: list[str], stuck: AbstractContextManager[IsWriting]) -> None:
    with stuck as is_writing:
        command = [sys.executable, "-m", "workhook", *words]
        with subprocess.Popen(
            command, env=cli.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                until(lambda: is_writing() or process.poll() is not None)
                assert process.poll() is None, process.stdout and process.stdout.read()
            finally:
                process.kill()


@pytest.mark.variants("target")
@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_an_import_that_is_killed_leaves_no_row(
    filled: Filled, target: str, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    filled.copied(tmp_path / "data")
    here = Cli(tmp_path / "data", {})
    exports = {login: export(here, tmp_path / login, login) for login in organizations(filled)}
    login, lines = max(exports.items(), key=lambda each: len(each[1]["timesheets"]))
    settings = {"database_url": postgres.new(tmp_path / "there")["database_url"]} if target == "postgresql" else {}
    there = Cli(tmp_path / "there", settings)
    there.json("setup", "--organization", "elsewhere", "--owner", "here", "--email", "here@example.com")
    add_people(there, lines)
    before = dump(there, settings)
    words = [
        "organization",
        "import",
        str(tmp_path / login),
        "--allow-network",
        "127.0.0.0/8",
        *members(lines["people"]),
    ]
    stuck = stuck_on_postgres(there.data, settings["database_url"]) if settings else stuck_on_sqlite(there.data)
    kill_in_the_middle(there, words, stuck)
    until(lambda: dump(there, settings) == before)
    made = there.json(*words)
    assert_same(lines, export(there, tmp_path / "again", login), tmp_path / login, made["newcomers"])


def assert_same(first: Lines, second: Lines, folder: Path, newcomers: list[dict[str, str]]) -> None:
    """What came in is what went out."""
    pause(first, folder)
    logins = {each["was"]: each["login"] for each in newcomers}
    assert differences(comparable(first, logins), comparable(second, {})) == []
