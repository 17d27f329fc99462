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
        [made] = (tmp_path / "backups").iterdir()
        assert made.name.startswith("before-upgrade-20")
        (tmp_path / "data" / "workhook.toml").write_text("retention_days = 40\n")
        shell.run(BACK.replace("/srv/backups/before-upgrade-2026-11-30", str(made)))
    finally:
        shell.stop()
    assert cli.json("user", "list") == before
    assert (tmp_path / "data" / "workhook.toml").exists()
    assert len(Cli(tmp_path / "data.newer", {}).json("user", "list")) == len(before) + 1
