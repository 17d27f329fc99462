"""`workhook organization export` and `import`: an organization of a studio with rows in every table goes elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from tests.copy.exports import Lines, comparable, differences, export, members, pause
from tests.copy.filled import Filled
from tests.harness.databases import PostgresDatabases
from tests.harness.world import with_services
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.storage.metadata import metadata
from workhook.work.portability.moving.kinds import KINDS, STAY


@pytest.fixture
def cli(file: Path) -> Cli:
    return Cli(file.parent, {})


def organizations(filled: Filled) -> list[str]:
    return [row["login"] for row in filled.dump["accounts"].values() if row["kind"] == "organization"]


def server(folder: Path, postgres: PostgresDatabases | None = None) -> Cli:
    """A server with an organization of its own."""
    settings = {"database_url": postgres.new(folder)["database_url"]} if postgres else {}
    cli = Cli(folder, {**settings, "delivery_allow_networks": "127.0.0.0/8"})  # the webhooks' receivers are here
    cli.json("setup", "--organization", "elsewhere", "--owner", "here", "--email", "here@example.com")
    return cli


def add_people(cli: Cli, lines: Lines) -> None:
    """Everybody in an export who is a user gets an account of the same login, unless there is one."""
    there = {each["login"] for each in cli.json("user", "list")}
    missing = [each for each in lines["people"] if each["kind"] == "user" and each["login"] not in there]

    async def add(services: Services) -> None:
        async with services.database.transaction() as tx:
            for each in missing:
                email = each["email"] or "nobody@example.com"
                await actions.create_account(tx, "user", each["login"], name=None, email=email)

    with_services(cli.settings, add)


def test_every_table_is_exported_or_stays_for_a_reason() -> None:
    exported = {each.source.name for each in KINDS}
    named = {*exported, *STAY, "accounts"}
    not_ours = {each for each in STAY if each.startswith("search_")} | {"alembic_version"}
    assert {each.name for each in metadata.sorted_tables} == named - not_ours
    assert not exported & STAY.keys()


def test_every_column_is_exported_or_left_out() -> None:
    for kind in KINDS:
        assert kind.left_out.keys() <= {each.name for each in kind.source.columns}, kind.name


@pytest.mark.variants("target")
@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_what_goes_out_comes_in(
    filled: Filled, cli: Cli, target: str, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    other = server(tmp_path / "there", postgres if target == "postgresql" else None)
    seen = set()
    for number, login in enumerate(organizations(filled)):
        first = export(cli, tmp_path / f"first-{number}", login)
        add_people(other, first)
        made = other.json("organization", "import", str(tmp_path / f"first-{number}"), *members(first["people"]))
        logins = {each["was"]: each["login"] for each in made["newcomers"]}
        second = export(other, tmp_path / f"second-{number}", login)
        pause(first, tmp_path / f"first-{number}")
        assert differences(comparable(first, logins), comparable(second, {})) == []
        seen |= {name for name, rows in first.items() if rows}
    assert {each.name for each in KINDS} - seen == set()


@pytest.mark.whole
def test_the_commands_need_nothing_that_another_has_loaded(tmp_path: Path) -> None:
    """Each in a process of its own, as people run them."""
    here, there = server(tmp_path / "here"), server(tmp_path / "there")
    words = ("--member", "here=here", "--login", "moved")
    for cli, asked in ((here, ("export", "out")), (there, ("import", "out", *words))):
        command = [sys.executable, "-m", "workhook", "organization", *asked]
        done = subprocess.run(command, env=cli.environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "moved" in done.stdout
