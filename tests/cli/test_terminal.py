"""Lists on a terminal: nothing is truncated, and control characters are escaped."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.cli_kit import Cli
from tests.harness import forge

STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = Cli(Path(tmp_path_factory.mktemp("terminal")) / "data", {})
    cli.setup()
    return cli


def seen(cli: Cli, width: int, *words: str, forked: bool = True) -> str:
    """Return what a terminal of this width receives, without bold."""
    ours, theirs = os.openpty()
    shown = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # the other end is closed, so nothing more will arrive
            while block := os.read(ours, 65_536):
                shown.extend(block)

    reader = Thread(target=read, daemon=True)
    reader.start()
    environment = {**cli.environment, "TERM": "xterm", "COLUMNS": str(width)}
    way = forge.forge() if forked else forge.NoForge()
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile("w+") as trouble:
        status = way.start(words, environment, (nothing.fileno(), theirs, trouble.fileno()), None).wait(60)
        trouble.seek(0)
        said = trouble.read()
    os.close(theirs)
    reader.join(30)
    os.close(ours)
    assert (status, said) == (0, "")
    return STYLE.sub("", shown.decode().replace("\r\n", "\n"))


def test_a_row_that_does_not_fit_is_printed_one_column_per_line(cli: Cli) -> None:
    [row] = cli.json("token", "list")
    narrow = seen(cli, 40, "token", "list")
    assert "…" not in narrow
    assert f"\ncreated at    {row['created_at']}\n" in narrow
    assert f"\nscopes        {', '.join(row['scopes'])}\n" in narrow
    header, line = seen(cli, 400, "token", "list").splitlines()
    assert header.startswith("id  kind")
    assert row["created_at"] in line


def test_the_token_list_fits_a_hundred_columns(cli: Cli) -> None:
    cli.json("token", "create", "--user", "octo", "--scopes", "repo,work,admin:org", "--note", "n" * 100)
    rows = cli.json("token", "list")
    header, *lines = seen(cli, 100, "token", "list", forked=False).splitlines()
    assert header.split() == ["id", "kind", "user", "may", "note", "ends", "last", "used"]
    assert [line.split()[0] for line in lines] == [str(row["id"]) for row in rows]
    assert all(len(line) <= 100 for line in (header, *lines))


def test_control_characters_are_escaped(cli: Cli) -> None:
    cli.json("token", "create", "--user", "octo", "--scopes", "repo", "--note", "a\x1b]0;owned\x07b Ä")
    for shown in (seen(cli, 400, "token", "list"), seen(cli, 40, "token", "list"), cli.text("token", "list")):
        assert r"a\x1b]0;owned\x07b Ä" in shown
        assert "\x1b]" not in shown
