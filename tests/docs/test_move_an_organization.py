"""The commands of the page on moving an organization work as documented."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.cli.cli_kit import Cli
from tests.docs.pages import Shell, blocks, new_machine
from tests.docs.reader import guided

EXPORT, DOWNLOAD, LOOK, IMPORT = blocks("docs/operators/move-an-organization.md", "sh")


def test_an_organization_is_moved_to_another_server(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with guided(here) as page:
        page.shell.run(EXPORT)
        token = "$(workhook token create --user octo --scopes admin:org,work:read | head -1)"
        changed = {"https://work.example.com": "$W", "TOKEN": token, "tar xf": "tar tf"}
        block = DOWNLOAD
        for written, used in changed.items():
            assert written in block
            block = block.replace(written, used)
        page.shell.run(block)
        with tarfile.open(here / "acme.tar") as archive:
            assert "acme-export/manifest.json" in archive.getnames()
    there.mkdir()
    Cli(there / "data", {}).json("setup", "--organization", "other", "--owner", "else", "--email", "e@example.com")
    (there / "acme-export").symlink_to(here / "acme-export")
    shell = Shell(there, new_machine(there))
    try:
        assert "would import acme" in shell.run(LOOK)
        assert "imported acme" in shell.run(IMPORT)
    finally:
        shell.stop()
