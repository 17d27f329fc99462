"""Other requests are answered while a file is planned: the server's own process parses none of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness.waiting import WAIT_S
from tests.work.trello import encoded, make_export
from workhook.work.portability.imports import plan_process, sources
from workhook.work.portability.imports.plan import ImportPlan
from workhook.work.portability.imports.sources import Choices, SourceFile, plan_of_any

PACKAGE = Path(sources.__file__).parents[3]
FILES = {
    "Relaunch.json": encoded(make_export(5, lists=3, closed_lists=0, cards=600, closed=0, actions=0, comments=0)),
    "tasks.csv": b"Title,Description\n" + b"Write,%s\n" % (b"x" * 500) * 600,
}
PARSERS = ("plan_of_any", "plans_of", "detect")


@pytest.mark.parametrize("name", FILES)
async def test_others_have_their_turn_while_a_file_is_planned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_server_calls_no_parser_of_files() -> None:
    """Only the limited process does, and the command line, where no requests wait."""
    calling = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(f"{parser}(" in path.read_text() for parser in PARSERS[:2])
    }
    imports = "work/portability/imports"
    assert calling == {"cli/imports.py", f"{imports}/plan_script.py", f"{imports}/sources.py"}
