"""Numbers in the sentences of commands have their nouns in the singular or plural."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workhook.cli import backups, database, organizations, secrets
from workhook.cli.options import permission_list
from workhook.cli.output import cell
from workhook.cli.reencrypt import Reencrypted
from workhook.core.text import counted

COMMANDS = Path(__file__).parent.parent.parent / "src" / "workhook" / "cli"


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (0, ("file",), "0 files"),
        (1, ("issued invoice",), "1 issued invoice"),
        (2, ("file",), "2 files"),
        (1200, ("delivery", "deliveries"), "1,200 deliveries"),
        (1, ("entry", "entries"), "1 entry"),
    ],
)
def test_a_noun_follows_its_number(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert counted(number, *nouns) == text


def test_commands_use_the_helper() -> None:
    """A constant is never 1."""
    counted = re.compile(r"\{(?!(?:\w+\.)?[A-Z_]+:)[^{}]*:,\} (?:[a-z]+ )?[a-z]+s\b")
    wrong = [
        f"{path.name}: {found[0]}"
        for path in COMMANDS.glob("*.py")
        for found in counted.finditer(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(("number", "ending"), [(1, ""), (2, "s")])
def test_sentences_of_commands(number: int, ending: str) -> None:
    made: Any = SimpleNamespace(
        login="acme", lines={"projects": number, "tasks": number, "invoices": number}, files=number, newcomers=(),
        webhooks_off=number, timers_paused=number, files_missing=number,
    )  # fmt: skip
    first, _, timers, files = organizations._sentences(made, dry_run=False).splitlines()
    nouns = ", ".join(f"{number} {noun}{ending}" for noun in ("project", "task", "invoice", "file"))
    assert first == f"imported acme: {nouns}"
    assert timers == f"paused timers: {number}"
    assert files == f"files already missing from the export: {number}"
    backup: Any = SimpleNamespace(
        database=SimpleNamespace(rows={"accounts": number}), files=SimpleNamespace(count=number), created_at="today"
    )
    assert backups._counts(backup) == f"{number} row{ending} and {number} file{ending} of today"
    copied: Any = SimpleNamespace(rows=number, tables=dict.fromkeys(range(number)), place="there")
    sentence = database._sentences(Path("here"), copied)
    assert sentence.startswith(f"copied {number} row{ending} of {number} table{ending} to there;")
    done = Reencrypted()
    done.changed = done.unreadable = number
    told = list(secrets._sentences(False, done, number))
    assert told[0] == f"{number} secret{ending} encrypted with the newest key"
    assert told[1].startswith(f"{number} secret{ending} cannot be decrypted")
    assert told[2].startswith(f"{number} old key{ending} dropped;")


def test_an_empty_cell_is_a_dash() -> None:
    assert [cell(each) for each in (None, [], ["repo", "work"])] == ["-", "-", "repo, work"]


def test_permissions_are_shown_as_they_are_entered() -> None:
    assert cell({"work": "write", "repository_hooks": "read"}) == "repository_hooks=read, work=write"
    for text in ("work=write,repository_hooks=read", "work:write, repository_hooks:read,"):
        assert permission_list(text) == {"work": "write", "repository_hooks": "read"}
    assert not [path.name for path in COMMANDS.glob("*.py") if "NAME:LEVEL,…" in path.read_text(encoding="utf-8")]
