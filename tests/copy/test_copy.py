"""`workhook database copy` moves a real studio from SQLite to PostgreSQL completely, even after interruptions."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.copy.filled import SETTINGS, Filled
from tests.harness import forge
from tests.harness.databases import PostgresDatabases
from tests.harness.options import commands, misnamed
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from tests.walls.dump import TABLES, Dump, Reader, numbered
from workhook.storage import copying
from workhook.storage.metadata import metadata
from workhook.storage.row_stream import CopyRefused

ENVIRONMENT = Server(Path("unused"), {}).environment()
ORDERED = metadata.sorted_tables


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return forge.run(("database", *map(str, words)), ENVIRONMENT, timeout_s=110)


def answered(*words: object) -> Any:
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*words: object) -> str:
    done = run(*words)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert misnamed(done.stderr, commands()["database", str(words[0])]) == []
    return done.stderr


def ask(url: str, query: str, *values: object) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query, *values)
        finally:
            await connection.close()

    return finish(fetch)


def dump_of(url: str) -> Dump:
    reader = Reader(Server(Path("unused"), {"database_url": url}))
    try:
        return reader.dump()
    finally:
        reader.close()


def settled(dump: Dump) -> Dump:
    """Return the dump with booleans as integers, as SQLite stores them."""
    return {
        table: {key: {name: _plain(value) for name, value in row.items()} for key, row in rows.items()}
        for table, rows in dump.items()
    }


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


# --- Complete copies -------------------------------------------------------------------------------------------------


def test_the_studio_has_rows_in_every_table(filled: Filled) -> None:
    """This makes sure that new tables are copied and compared.

    Whoever adds a table must add a row of it in `filled.py`.
    """
    assert [table.name for table in TABLES if not filled.dump[table.name]] == []


def test_every_row_number_and_secret_is_copied(
    filled: Filled, file: Path, url: str, receiver: Receiver, tmp_path: Path
) -> None:
    answer = answered("copy", file, url)
    there = dump_of(url)
    assert settled(there) == settled(filled.dump)
    assert answer["tables"] == {
        table.name: {"rows": len(filled.dump[table.name]), "checksum": answer["tables"][table.name]["checksum"]}
        for table in TABLES
    }
    assert (answer["rows"], answer["resumed"]) == (sum(map(len, filled.dump.values())), False)
    assert ask(url, "SELECT to_regclass('workhook_copy')") is None
    with closing(sqlite3.connect(file)) as connection:
        given = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    for table, column in numbered():
        sequence = ask(url, "SELECT pg_get_serial_sequence($1, $2)", table, column)
        assert ask(url, f"SELECT nextval('{sequence}')") == given[table] + 1, table

    server = Server(file.parent, {**SETTINGS, "database_url": url}).start()
    try:
        _works(server, filled, receiver)
    finally:
        server.close()


def _works(server: Server, filled: Filled, receiver: Receiver) -> None:
    """Assert that tokens are valid, that the pending delivery is sent with its secret, and that rows can be added."""
    with server.client(filled.token) as client:
        waiting = client.get(filled.hook_path).raise_for_status().json()["id"]

        def sent() -> list[Any]:
            found = client.get(f"{filled.hook_path}/deliveries").raise_for_status().json()
            return [each for each in found if each["event"] == "push"]

        [delivery] = until(sent)
        request = client.get(f"{filled.hook_path}/deliveries/{delivery['id']}").json()["request"]
        assert request["payload"]["mark"] == Filled.waiting
        assert waiting
        config = {"url": receiver.url, "content_type": "json"}
        client.patch(filled.hook_path, json={"config": config}).raise_for_status()
        client.post(f"{filled.repo_path}/events", json={"event": "push", "payload": {}}).raise_for_status()
        receiver.wait_for(1)
        columns = client.get("/api/v1/projects").raise_for_status()
        assert columns.json()


@pytest.mark.whole
def test_no_server_starts_with_a_copied_file(file: Path, url: str) -> None:
    answered("copy", file, url)
    server = Server(file.parent, {})
    with pytest.raises(AssertionError, match="copied to PostgreSQL"):
        server.start()
    assert "is not empty" in refused("copy", file, url)
    ask(url, "DROP SCHEMA public CASCADE")
    ask(url, "CREATE SCHEMA public")
    assert "was already copied" in refused("copy", file, url)
    assert answered("release", file)["released"] is True
    assert answered("release", file)["released"] is False
    server = Server(file.parent, {}).start()
    server.close()


# --- Interruptions ---------------------------------------------------------------------------------------------------


def test_a_killed_copy_can_be_resumed(filled: Filled, file: Path, postgres: PostgresDatabases, tmp_path: Path) -> None:
    """It is killed in the middle of a table, where it waits for a lock that the test holds."""
    url = postgres.new(tmp_path / "unused")["database_url"]  # migrated and empty
    with asyncio.Runner() as runner:
        holder = runner.run(asyncpg.connect(url))
        runner.run(holder.execute("BEGIN"))
        runner.run(holder.execute("LOCK TABLE events IN SHARE MODE"))
        process, output = forge.start(("database", "copy", str(file), url), ENVIRONMENT)
        until(lambda: runner.run(holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")))
        process.kill()
        process.wait(30)
        output.close()
        runner.run(holder.execute("ROLLBACK"))
        runner.run(holder.close())
    assert ask(url, "SELECT count(*) FROM accounts") == len(filled.dump["accounts"])
    assert ask(url, "SELECT count(*) FROM events") == 0
    for settings in ({}, {"database_url": url}):  # neither side can be served before the copy is complete
        with pytest.raises(AssertionError, match="workhook database"):
            Server(file.parent, settings).start()
    assert answered("copy", file, url)["resumed"] is True
    assert settled(dump_of(url)) == settled(filled.dump)


class Stopped(Exception):
    pass


def _stopping(at: int) -> Callable[[str, int, int], None]:
    calls = 0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal calls
        assert 0 <= done <= total
        calls += 1
        if calls == at:
            raise Stopped

    return progress


def _copy(file: Path, url: str, progress: Callable[[str, int, int], None] = lambda *_: None) -> copying.Copied:
    return asyncio.run(copying.copy(file, url, ORDERED, progress, rows_a_part=7))


def _interrupted(file: Path, url: str) -> Iterator[int]:
    """Interrupt each run after more steps than the one before, until one completes."""
    for at in range(2, 10_000, 37):
        yield at
        try:
            _copy(file, url, _stopping(at))
        except Stopped:
            continue
        return


@pytest.mark.whole
def test_a_copy_interrupted_many_times_is_complete(filled: Filled, file: Path, url: str) -> None:
    assert len(list(_interrupted(file, url))) > 3
    assert settled(dump_of(url)) == settled(filled.dump)


@pytest.mark.whole
async def test_a_lost_connection_is_reopened(
    filled: Filled, file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAUSES_S", (0.01,) * 3)
    killer = await asyncpg.connect(url)
    mine = await killer.fetchval("SELECT pg_backend_pid()")
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"
    killing: list[asyncio.Task[Any]] = []
    calls = 0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        # One at a time, because the killer's connection runs one statement at a time.
        if calls % 40 == 0 and all(each.done() for each in killing):
            killing.append(asyncio.ensure_future(killer.execute(kill, mine)))

    done = await copying.copy(file, url, ORDERED, progress, rows_a_part=7)
    await asyncio.gather(*killing)
    await killer.close()
    assert len(killing) > 3
    assert {name: each.rows for name, each in done.tables.items()} == {
        name: len(rows) for name, rows in filled.dump.items()
    }
    assert settled(await asyncio.to_thread(dump_of, url)) == settled(filled.dump)


# --- Refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.variants("change", "said")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM audit_log WHERE id = (SELECT max(id) FROM audit_log)", "audit_log has"),
        ("INSERT INTO rate_windows VALUES ('x', 1, 1, 1)", "rate_windows has"),
        ("UPDATE hooks SET secret = '\\x00' WHERE id = (SELECT max(id) FROM hooks)", "hooks has different values"),
        ("UPDATE tasks SET rank = rank + 1 WHERE id = (SELECT max(id) FROM tasks)", "tasks has different values"),
    ],
)
def test_differences_after_the_copy_are_found(file: Path, url: str, change: str, said: str) -> None:
    """The copy was written to before it was complete."""

    def progress(what: str, done: int, total: int) -> None:
        if what == copying.COMPARED:
            raise Stopped

    with pytest.raises(Stopped):
        _copy(file, url, progress)
    ask(url, change)
    told = refused("copy", file, url)
    assert said in told
    assert ask(url, "SELECT version_num FROM alembic_version") == "copying"


def test_a_database_that_is_not_empty_is_refused(file: Path, url: str, postgres: PostgresDatabases) -> None:
    ask(url, "CREATE TABLE other (id int)")
    assert "has tables (other)" in refused("copy", file, url)
    served = postgres.new(file.parent / "unused")["database_url"]
    ask(served, "INSERT INTO probe VALUES (1, 1)")
    assert "is not empty: probe has rows" in refused("copy", file, served)
    old = postgres.new(file.parent / "unused")["database_url"]
    ask(old, "UPDATE alembic_version SET version_num = '0003'")
    assert "workhook migrate" in refused("copy", file, old)
    Server(file.parent, {}).start().close()  # the file was not marked


def test_a_file_that_is_in_use_is_refused(file: Path, url: str) -> None:
    server = Server(file.parent, {}).start()
    try:
        said = refused("copy", file, url)
    finally:
        server.stop()
    assert f"{file} is in use" in said
    assert "Stop the server" in said
    assert ask(url, "SELECT to_regclass('alembic_version')") is None


@pytest.mark.whole
def test_the_file_is_locked_during_the_copy(file: Path, url: str) -> None:
    source = copying.CopySource.open(file)
    try:
        with pytest.raises(AssertionError, match="locked"):
            Server(file.parent, {}).start()
        assert "is in use" in refused("copy", file, url)
    finally:
        source.close()


def test_the_copy_of_another_file_is_not_resumed(filled: Filled, file: Path, url: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        _copy(file, url, _stopping(20))
    other = filled.copied(tmp_path / "other")
    assert "another file" in refused("copy", other, url)
    assert answered("release", file)["released"]
    assert "before servers used it again" in refused("copy", file, url)


@pytest.mark.whole
def test_a_copy_to_another_database_invalidates_the_first(
    file: Path, url: str, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    """Otherwise both would look complete although only one of them is the studio."""
    with pytest.raises(Stopped):
        _copy(file, url, _stopping(20))
    _copy(file, postgres.empty(tmp_path / "another")["database_url"])
    assert "another file" in refused("copy", file, url)


def test_an_unusable_source_or_target_is_refused(file: Path, url: str) -> None:
    nowhere = "postgresql://somebody:a-password@127.0.0.1:1/nowhere"
    told = refused("copy", file, nowhere)
    assert "PostgreSQL at 127.0.0.1:1" in told
    assert "a-password" not in told
    assert "Check the URL, " in told
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
    assert "workhook migrate" in refused("copy", file, url)
    assert f"file {file.with_name('none.db')} does not exist" in refused("copy", file.with_name("none.db"), url)
    done = run("copy", file, "mysql://localhost/x")
    assert (done.returncode, "the PostgreSQL URL must have the form" in done.stderr) == (2, True)


@pytest.mark.variants("value", "said")
@pytest.mark.parametrize(
    ("value", "said"), [("'a' || char(0)", "the character NUL"), ("x'00'", "is not text"), ("5", None)]
)
def test_a_row_that_postgresql_rejects_is_named(file: Path, url: str, value: str, said: str | None) -> None:
    """SQLite stores any value in any column; text columns convert numbers to text."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE tasks SET title = {value} WHERE id = (SELECT max(id) FROM tasks)")
    if said is None:
        assert _copy(file, url).tables
    else:
        with pytest.raises(CopyRefused, match=f"tasks, id tsk_.*: title .*{said}"):
            _copy(file, url)
