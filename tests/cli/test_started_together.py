"""Servers, workers and `workhook setup` started at the same time on an empty database."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Cli
from tests.harness.databases import Databases
from tests.harness.depth import deep
from tests.harness.own_process import OwnProcess
from workhook.bootstrap import open_services
from workhook.cli import queries, setup
from workhook.cli.queries import lock_first_start
from workhook.core.config import load
from workhook.storage import Transaction, sqlite

ROUNDS = deep(1, 20)
SERVERS = 3


def _servers(folder: Path, settings: dict[str, Any]) -> list[OwnProcess]:
    return [OwnProcess(folder, settings) for _ in range(SERVERS)]


def _start(server: OwnProcess) -> str:
    try:
        server.start()
    except AssertionError:
        return server.log()
    return ""


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_one_of_several_servers_creates_the_first_owner(backend: Databases, round_: int, tmp_path: Path) -> None:
    settings = backend.empty(tmp_path / "data")
    servers = _servers(tmp_path / "data", settings)
    try:
        with ThreadPoolExecutor(SERVERS) as pool:
            assert list(pool.map(_start, servers)) == [""] * SERVERS
        logins = [user["login"] for user in Cli(tmp_path / "data", settings).json("user", "list")]
        assert logins == ["owner"]
        assert sum("first start" in each.log() for each in servers) == 1
        assert [each.stop() for each in servers] == [0] * SERVERS
    finally:
        for each in servers:
            each.close()


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_concurrent_setup_runs_issue_one_token(backend: Databases, round_: int, tmp_path: Path) -> None:
    settings = backend.empty(tmp_path / "data")
    servers, cli = _servers(tmp_path / "data", settings), Cli(tmp_path / "data", settings)
    try:
        with ThreadPoolExecutor(SERVERS + 2) as pool:
            asked = [pool.submit(cli.setup, "--project", "Website") for _ in range(2)]
            assert list(pool.map(_start, servers)) == [""] * SERVERS
            answers = [each.result() for each in asked]
        assert sorted(answer["token"] is None for answer in answers) == [False, True], "one token, shown once"
        assert len({answer["project_id"] for answer in answers}) == 1
        logins = {user["login"] for user in cli.json("user", "list")}
        assert logins in ({"octo"}, {"owner", "octo"})
    finally:
        for each in servers:
            each.close()


async def test_two_processes_that_find_the_database_empty_make_one_first_start(
    backend: Databases, tmp_path: Path
) -> None:
    """Both check before their transactions begin, so the second must check again inside its own."""
    settings = load({"data": str(tmp_path / "data"), **backend.empty(tmp_path / "data")}, {})
    async with open_services(settings) as one, open_services(settings) as other:
        made = await asyncio.gather(*(setup.first_start(each, "http://localhost") for each in (one, other)))
    assert [each is None for each in made].count(False) == 1


@pytest.mark.one_database
async def test_the_first_start_waits_longer_than_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of SQLite may be held longer on a slow machine than a request would wait for it."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr(sqlite, "STILL_BUSY_TIMEOUT_S", 0.01)
    settings = load({"data": str(tmp_path / "data")}, {})
    async with open_services(settings) as services:
        with closing(sqlite3.connect(tmp_path / "data" / "workhook.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            tries = 0

            async def lock(tx: Transaction) -> None:
                nonlocal tries
                tries += 1
                if tries == 10:
                    other.execute("ROLLBACK")
                await lock_first_start(tx)

            monkeypatch.setattr(queries, "lock_first_start", lock)
            assert await setup.first_start(services, "http://localhost") is not None
