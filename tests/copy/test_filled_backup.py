"""`workhook backup` and `workhook restore` of a studio that has rows in every table, which must come back unchanged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Cli
from tests.copy.filled import SETTINGS, Filled
from tests.copy.test_copy import _works, answered, settled
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.walls.dump import Dump, Reader, numbered

pytestmark = pytest.mark.whole


def dump_of(data: Path, settings: dict[str, Any]) -> Dump:
    reader = Reader(Server(data, settings))
    try:
        return reader.dump()
    finally:
        reader.close()


def last_numbers(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(file)) as connection:
        found = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    return {table: found[table] for table, _ in numbered()}


@pytest.mark.parametrize("moved", [False, True], ids=["from a file", "from a server"])
def test_every_row_and_number_is_restored(
    filled: Filled, file: Path, url: str, moved: bool, receiver: Receiver, tmp_path: Path
) -> None:
    numbers, settings = last_numbers(file), dict[str, str]()
    if moved:
        answered("copy", file, url)
        settings = {"database_url": url}
    made = Cli(file.parent, settings).json("backup", str(tmp_path / "backup"), "--with-key")
    assert made["rows"] == sum(map(len, filled.dump.values()))
    restored = tmp_path / "restored"
    assert Cli(restored, {}).json("restore", str(tmp_path / "backup"))["rows"] == made["rows"]
    assert settled(dump_of(restored, {})) == settled(filled.dump)
    assert last_numbers(restored / "workhook.db") == numbers
    server = Server(restored, SETTINGS).start()
    try:
        _works(server, filled, receiver)
    finally:
        server.close()


def test_every_row_is_restored_into_postgresql(filled: Filled, file: Path, url: str, tmp_path: Path) -> None:
    Cli(file.parent, {}).json("backup", str(tmp_path / "backup"), "--with-key")
    cli = Cli(tmp_path / "restored", {"database_url": url})
    assert cli.json("restore", str(tmp_path / "backup"))["rows"] == sum(map(len, filled.dump.values()))
    assert settled(dump_of(cli.data, {"database_url": url})) == settled(filled.dump)
    assert not (cli.data / "restoring").exists()
