"""The imported modules, which every command waits for at startup and an idle server keeps in memory."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.harness.waiting import WAIT_S
from tests.work.trello import encoded, make_export
from tests.work.trello_importer import small
from workhook.core.errors import Message, phrase, say
from workhook.storage.metadata import metadata
from workhook.web.frame import texts
from workhook.web.frame.refusals import in_words
from workhook.work.portability.imports import plan_process, sources
from workhook.work.portability.imports.apply import Counts, Remaining, remarks_of
from workhook.work.portability.imports.people import UnmatchedPerson, unknown_people
from workhook.work.portability.imports.plan import Choices, ImportPlan
from workhook.work.portability.imports.sources import SourceFile, plan_of_any

PROGRAM = """
import atexit, sys
from workhook.cli import main

atexit.register(lambda: print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules} | {*sys.modules})))
main()
"""
SERVING = {"httptools", "uvicorn", "uvloop"}
STORING = {"cryptography", "sqlalchemy", "structlog", "prometheus_client"}
# Needed only with particular features: pages, mail, replies, a proxy, PostgreSQL, migrations, S3, sign-in, invoices.
SELDOM = {
    "aiohttp",
    "alembic",
    "argon2",
    "asyncpg",
    "backports.zstd",
    "boto3",
    "brotli",
    "email.headerregistry",
    "jinja2",
    "joserfc",
    "nh3",
    "obstore",
    "pydantic",
    "segno",
    "typst",
    "xml",
}
SELDOM |= {"sqlalchemy.dialects.postgresql"}


def run(data: Path, *words: str, until: str | None = None) -> tuple[list[str], set[str]]:
    """Return the command's output and the modules it has loaded at its end. It is told to stop at the line `until`."""
    command = [sys.executable, "-c", PROGRAM, *words]
    environment = {"WORKHOOK_DATA": str(data)}
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if until is not None and line.startswith(until):
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert said[-1].startswith("loaded: ")
    return said, set(said[-1].split())


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["token", "list", "--help"]], ids=" ".join)
def test_help_loads_neither_a_database_nor_a_server(tmp_path: Path, words: list[str]) -> None:
    _, loaded = run(tmp_path, *words)
    assert "click" in loaded
    assert not loaded & (SERVING | STORING | SELDOM | {"rich"})


def test_a_command_loads_no_server(tmp_path: Path) -> None:
    run(tmp_path, "setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com")
    said, loaded = run(tmp_path, "token", "create", "--user", "octo", "--scopes", "repo,work", "--note", "mine")
    assert said[0].startswith("whp_")
    assert loaded >= STORING
    assert not loaded & (SERVING | SELDOM)


def test_an_idle_server_keeps_only_what_every_server_needs(tmp_path: Path) -> None:
    """The rule includes the first start, which creates a sign-in link."""
    _, loaded = run(tmp_path, "serve", "--port", "0", until="workhook: listening")
    assert "/login/link/" in (tmp_path / "first-sign-in.txt").read_text()
    assert loaded >= SERVING | STORING
    assert not loaded & SELDOM


TABLES = """
from workhook.cli.lazy_imports import lazy_imports

with lazy_imports():  # as every command does
    from workhook.cli.app import app
from workhook import asgi
from workhook.storage.metadata import metadata

assert app
print(*sorted(metadata.tables))
"""


def test_the_command_line_registers_every_table() -> None:
    """`workhook database copy` copies the tables known to it."""
    from workhook import asgi

    assert asgi.described()
    found = subprocess.run([sys.executable, "-c", TABLES], capture_output=True, text=True, check=True)
    assert found.stdout.split() == sorted(metadata.tables)


# --- import remarks ---------------------------------------------------------------------------------------------------
# Warnings of an import about a file, worded for pages.


HOSTILE = (
    "' \" <b>",
    "': its description is shortened to 64 KiB",
    "\\'",
    "\\",
    "%(name)s %s",
    "a and 3 more",
    "\U000e0001" * 90,
)


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "de")


def _remarks_of(board: dict[str, Any]) -> list[Message]:
    return plan_of_any(SourceFile("x.json", encoded(board)), Choices(done=["Nowhere"])).warnings


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("name", HOSTILE)
def test_every_remark_about_a_card_is_translated_whatever_its_name(name: str) -> None:
    custom = [{"id": f"f{at}", "name": f"Field {at}"} for at in range(120)]
    card = {
        "name": name + "n" * 300,
        "desc": "ä" * 40_000,
        "due": "soon",
        "cover": {"sharedSourceUrl": "javascript:x"},
        "customFieldItems": [{"idCustomField": each["id"], "value": {"text": "y"}} for each in custom],
    }
    lists = [{"id": f"l{at}", "name": f"{name} {at} " + "x" * 300} for at in range(3)]
    remarks = _remarks_of(small(card, name="b" * 300, customFields=custom, lists=lists))
    assert len(remarks) >= 7
    said = [in_words(each) for each in remarks]
    assert [each for each, was in zip(said, remarks, strict=True) if each == was] == []
    of_cards = [each for each in said if each.startswith("Karte ")]
    assert "Die Beschreibung wurde auf 64 KiB gekürzt." in " ".join(of_cards)
    assert all((name + "n" * 300)[:77] in each for each in of_cards)


@pytest.mark.usefixtures("german")
def test_unmatched_people_are_listed_up_to_a_limit() -> None:
    some = [UnmatchedPerson(f"Person {at}", f"p{at}", assigned=True) for at in range(2_012)]
    [said] = map(in_words, unknown_people(some, ""))
    assert said.startswith("Kein passendes Konto gefunden für: Person 0, Person 1, ")
    assert said.endswith("Person 9 und 2.002 weitere.")


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, "1 Karte wurde in der Quelle seit dem letzten Import geändert und blieb hier unverändert: Card 0"),
        (
            2,
            "2 Karten wurden in der Quelle seit dem letzten Import geändert und blieben hier unverändert: "
            "Card 0, Card 1",
        ),
    ],
)
def test_changes_in_the_source_program_are_reported(number: int, expected: str) -> None:
    changed = [f"Card {at}" for at in range(number)]
    rest = Remaining(None, {}, [], [], [], [], Counts(0, 0, 0), changed, {}, [], ["Far"], ["Lone"])
    assert [in_words(each) for each in remarks_of(rest)] == [
        expected,
        "Nicht importiert, weil diese Karten schon in ein anderes Projekt importiert wurden: Far",
        "Diese Karten können hier keine Unteraufgaben sein und wurden als eigene Karten importiert: Lone",
    ]


@pytest.mark.usefixtures("german")
def test_the_reason_for_missing_blockers_is_translated() -> None:
    remark = say("task “{}” was imported without its blockers: {}", "b", phrase("Not Found"))
    said = (
        "Karte „b“ wurde ohne ihre blockierenden Aufgaben importiert: "
        "Diese Seite gibt es nicht, oder Sie haben keinen Zugriff darauf."
    )
    assert in_words(remark) == said


# --- planning process -------------------------------------------------------------------------------------------------
# Other requests are served while a file is planned, because the server process does not parse it.


PACKAGE = Path(sources.__file__).parents[3]
FILES = {
    "Relaunch.json": encoded(make_export(5, lists=3, closed_lists=0, cards=600, closed=0, actions=0, comments=0)),
    "tasks.csv": b"Title,Description\n" + b"Write,%s\n" % (b"x" * 500) * 600,
}
PARSERS = ("plan_of_any", "plans_of", "detect")


@pytest.mark.parametrize("name", FILES)
async def test_planning_an_import_does_not_block_the_event_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, choices = SourceFile(name, FILES[name]), Choices()
    expected = plan_of_any(file, choices)
    for parser in PARSERS:
        monkeypatch.delattr(sources, parser)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    try:
        async with asyncio.timeout(WAIT_S):
            made: ImportPlan = await plan_process.plan_in_process(1, file, choices)
    finally:
        beside.cancel()
    assert made == expected
    assert turns > len(expected.tasks) // plan_process.DECODED_AT_ONCE


def test_the_server_process_never_parses_files() -> None:
    """Files are parsed only by the limited process, and by the command line, which does not serve requests."""
    calling = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(f"{parser}(" in path.read_text() for parser in PARSERS[:2])
    }
    imports = "work/portability/imports"
    assert calling == {"cli/imports.py", f"{imports}/plan_script.py", f"{imports}/sources.py"}


def test_the_server_is_installed_with_what_migrations_of_postgresql_need() -> None:
    """The development environment has greenlet in any case, because Playwright needs it."""
    needed = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]["dependencies"]
    assert any(each.startswith("greenlet") for each in needed), "SQLAlchemy's asynchronous engine imports it"
