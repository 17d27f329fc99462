"""The blocks of the page on upgrades create a backup and restore it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.cli_kit import Cli
from tests.docs.pages import Shell, blocks, new_machine

BEFORE, BACK = blocks("docs/operators/upgrade.md", "sh")


def test_a_backup_reverts_the_upgrade(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {})
    cli.setup("--project", "Website")
    before = cli.json("user", "list")
    shell = Shell(tmp_path, new_machine(tmp_path))
    try:
        shell.run(BEFORE.replace("/srv/backups", str(tmp_path / "backups")))
        cli.json("user", "add", "--login", "late", "--email", "late@example.com")
        shell.run(BACK.replace("/srv/backups", str(tmp_path / "backups")))
    finally:
        shell.stop()
    assert cli.json("user", "list") == before
    assert len(Cli(tmp_path / "data.newer", {}).json("user", "list")) == len(before) + 1
