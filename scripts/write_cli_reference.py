"""Writes docs/operators/cli.md from the commands themselves. A test compares the two.

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

`.venv/bin/workhook` after `make install`. Every command works beside a running server and without one: it opens the
database itself, so whoever may read the data folder may do everything. `--json` answers with one line of JSON on
standard output. Names, flags and JSON are a promise to scripts; a change of one is in the changelog.

| exit status | means |
| --- | --- |
| 0 | done |
| 1 | not done; standard error says why, and what to do about it |
| 2 | an option or a setting that cannot be used; all of them are named at once |

Options win over variables, variables over `workhook.toml` ([settings](settings.md)).

Your shell completes commands, options, and values that are paths or one of a few words:

| shell | do this once |
| --- | --- |
| bash 4.4 or newer | add `eval "$(workhook completion bash)"` to `~/.bashrc` |
| zsh | add `eval "$(workhook completion zsh)"` to `~/.zshrc`, after `compinit` |
| fish | `workhook completion fish > ~/.config/fish/completions/workhook.fish` |
"""


def commands() -> list[list[str]]:
    """Return the words of every command, such as `["user", "add"]`, in the order of the help. `[]` is the top-level
    command."""
    return list(_below(app, []))


def _below(command: click.Command, words: list[str]) -> Iterator[list[str]]:
    yield words
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _below(inner, [*words, name])


def help_of(words: list[str]) -> str:
    """Return the output of `--help` for a terminal of 80 columns, without colors."""
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
    """Return one command's section of the page."""
    name = " ".join(["workhook", *words])
    return f"\n## {name}\n\n```text\n{help_of(words)}```\n"


def render() -> str:
    """Return the whole page."""
    return HEAD + "".join(section(words) for words in commands())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
