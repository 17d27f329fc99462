"""Messages of `workhook database` and other commands about a file that was copied, is being copied or cannot be."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from tests.copy.filled import Filled
from tests.copy.test_copy import ENVIRONMENT, answered, ask, refused, run
from tests.harness import forge
from tests.harness.databases import PostgresDatabases
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.storage.dialects import database_address

_WAITS = """
SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def _interrupted(file: Path, url: str, table: str = "events", mode: str = "SHARE") -> str:
    """Interrupt a copy with SIGINT while it waits for a table lock held by the test. Return its output."""
    with asyncio.Runner() as runner:
        holder = runner.run(asyncpg.connect(url))
        runner.run(holder.execute("BEGIN"))
        runner.run(holder.execute(f"LOCK TABLE {table} IN {mode} MODE"))
        process, output = forge.start(("database", "copy", str(file), url), ENVIRONMENT)
        until(lambda: runner.run(holder.fetchval(_WAITS)))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        with output:
            said = output.read()
        runner.run(holder.execute("ROLLBACK"))
        runner.run(holder.close())
    assert "Traceback" not in said
    return said


@pytest.mark.whole
def test_an_interrupted_copy_explains_how_to_resume(file: Path, postgres: PostgresDatabases, tmp_path: Path) -> None:
    url = postgres.new(tmp_path / "unused")["database_url"]  # migrated and empty
    said = _interrupted(file, url)
    assert f"The copy of {file} to PostgreSQL at {database_address(url)} is incomplete" in said
    assert "Run the same `workhook database copy` again to continue it." in said
    assert f"workhook database release {file}" in said
    assert answered("copy", file, url)["resumed"] is True


def test_a_copy_interrupted_before_it_started_reports_that_nothing_was_copied(
    file: Path, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    url = postgres.new(tmp_path / "unused")["database_url"]
    said = _interrupted(file, url, "alembic_version", "ACCESS EXCLUSIVE")
    assert "nothing was copied" in said
    Server(file.parent, {}).start().close()


@pytest.mark.whole
def test_every_command_on_a_copied_file_names_the_file_and_the_copy(filled: Filled, url: str, tmp_path: Path) -> None:
    file = filled.copied(tmp_path / "a folder")
    answered("copy", file, url)
    release = f"workhook database release {shlex.quote(str(file))}"
    for words in (("user", "list"), ("doctor",), ("migrate",), ("setup", "--organization", "a", "--owner", "b")):
        done = forge.run((*words, "--data", str(file.parent)), ENVIRONMENT, timeout_s=110)
        said = done.stdout + done.stderr
        assert done.returncode == 1
        for each in (str(file), database_address(url), release):
            assert each in said, words
        assert "moved" not in said.replace(str(tmp_path), "")


def test_an_incomplete_copy_is_reported_for_both_databases(file: Path, postgres: PostgresDatabases) -> None:
    url = postgres.new(file.parent / "unused")["database_url"]
    _interrupted(file, url)
    for words, other in ((("--data", str(file.parent)), str(file)), (("--database-url", url), "incomplete copy")):
        for command in (("user", "list"), ("doctor",)):
            done = forge.run((*command, *words), {**ENVIRONMENT, "WORKHOOK_SECRET_KEY": "k" * 40}, timeout_s=110)
            said = done.stdout + done.stderr
            assert done.returncode == 1
            assert database_address(url) in said
            assert other in said
            assert "database copy" in said


def test_a_database_without_a_schema_is_reported_clearly(file: Path, url: str) -> None:
    empty = file.with_name("empty.db")
    with closing(sqlite3.connect(empty)) as connection:
        connection.execute("CREATE TABLE other (id INTEGER)")
    said = refused("copy", empty, url)
    assert "schema None" not in said
    assert "schema none" not in said
    assert f"{empty} is not a Workhook database" in said
    ask(url, "CREATE TABLE alembic_version (version_num text)")
    said = refused("copy", file, url)
    assert "None" not in said
    assert "has no schema" in said


@pytest.mark.whole
def test_release_reports_what_it_did(file: Path, url: str, tmp_path: Path) -> None:
    assert run("release", file).stdout == f"nothing to do: {file} was not copied, and servers can use it\n"
    answered("copy", file, url)
    done = run("release", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"servers can use {file} again" in done.stdout
    assert f"the copy at {database_address(url)} is now an independent database" in done.stdout
    missing = refused("release", tmp_path / "none.db")
    assert f"file {tmp_path / 'none.db'} does not exist" in missing
    folder = tmp_path / "folder"
    folder.mkdir()
    assert f"file {folder / 'workhook.db'} does not exist" in refused("release", folder)


@pytest.mark.parametrize("words", [("copy",), ("release",)])
def test_a_url_instead_of_a_file_is_refused_without_showing_its_password(words: tuple[str, ...], url: str) -> None:
    given = "postgresql://ada:hidden@127.0.0.1:1/x"
    done = run(*words, given, *([url] if words == ("copy",) else []))
    assert done.returncode == 2
    assert "SQLITE" in done.stderr
    assert "hidden" not in done.stderr
