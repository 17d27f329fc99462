"""The blocks of the page on backups work as documented."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from tests.docs.pages import Shell, blocks, new_machine
from tests.harness.databases import Databases

BACKUP, KEY, WITH_KEY, CHECK, RESTORE, ELSEWHERE = blocks("docs/operators/backup.md", "sh")


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_backup_is_created_checked_and_restored(backend: Databases, tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {})
    cli.setup("--project", "Website")
    safe = tmp_path / "safe"
    safe.mkdir()
    shell = Shell(tmp_path, new_machine(tmp_path))
    try:
        for block in (BACKUP, KEY, WITH_KEY, CHECK, RESTORE):
            shell.run(block.replace("/somewhere/safe", str(safe)))
        url = backend.empty(tmp_path / "unused")["database_url"]
        shell.run(
            ELSEWHERE.replace("/somewhere/safe", str(safe)).replace(
                "postgresql://workhook@db.example.com/workhook", f"'{url}'"
            )
        )
    finally:
        shell.stop()
    assert stat.S_IMODE((tmp_path / "backups" / "monday").stat().st_mode) == 0o700
    assert not (tmp_path / "backups" / "monday" / "secret.key").exists()
    assert (tmp_path / "backups" / "tuesday" / "secret.key").exists()
    everybody = cli.json("user", "list")
    assert Cli(tmp_path / "restored", {}).json("user", "list") == everybody
    assert Cli(tmp_path / "restored-elsewhere", {"database_url": url}).json("user", "list") == everybody
