"""Write docs/operators/cli.md from the commands themselves. `check_repository` compares the two.

python -m scripts.write_cli_reference
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import click

from workhook.cli.app import app

PAGE = Path(__file__).parent.parent / "docs" / "operators" / "cli.md"

HEAD = """# Commands

In a checkout, the command is `.venv/bin/workhook` after `make install`. Commands open the database themselves, so they
work with or without a running server. Anyone who can read the data folder can run all of them.

`--json` prints one line of JSON on standard output. Scripts can rely on names, options, and JSON. The changelog
announces changes to them. Options override variables, and variables override `workhook.toml` ([settings](settings.md)).

| exit status | meaning |
| --- | --- |
| 0 | success |
| 1 | failure; standard error says why, and what to do about it |
| 2 | invalid options or settings, all listed at once |

To complete commands, options, and values in your shell:

| shell | do this once |
| --- | --- |
| bash 4.4 or newer | add `eval "$(workhook completion bash)"` to `~/.bashrc` |
| zsh | add `eval "$(workhook completion zsh)"` to `~/.zshrc`, after `compinit` |
| fish | `workhook completion fish > ~/.config/fish/completions/workhook.fish` |
"""


def commands() -> list[list[str]]:
    """Return the words of every command, such as `["user", "add"]`, in the order of the help; `[]` is the root."""
    return list(_below(app, []))


def _below(command: click.Command, words: list[str]) -> Iterator[list[str]]:
    yield words
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _below(inner, [*words, name])


def help_of(words: list[str]) -> str:
    """Return what `--help` prints on a terminal of 80 columns or more, without colors."""
    said = io.StringIO()
    kept = dict(os.environ)
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    try:
        with contextlib.redirect_stdout(said):
            app([*words, "--help"], prog_name="workhook", standalone_mode=False)
    finally:
        os.environ.clear()
        os.environ.update(kept)
    return said.getvalue().rstrip() + "\n"


def section(words: list[str]) -> str:
    """Return one command's part of the page."""
    name = " ".join(["workhook", *words])
    return f"\n## {name}\n\n```text\n{help_of(words)}```\n"


def render() -> str:
    """Return the whole page."""
    return HEAD + "".join(section(words) for words in commands())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
