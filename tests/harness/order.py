"""Which worker runs what, and when: `pytest -n`.

A unit is what one server serves: the tests of one file on one database. The units that take longest begin, or a worker
would end alone with one of them. `make test ARGS=--record-seconds` writes down how long each took.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

from tests.harness.depth import DEPTH, usual_database

ROOT = Path(__file__).parents[2]
SECONDS = Path(__file__).with_name("seconds.json")

# What is tested there is the databases themselves: it always runs on both.
OF_DATABASES = ("tests/storage/", "tests/plans/", "tests/migrations/", "tests/crash/", "tests/cli/test_backup.py")

SHORT_S = 1.0  # units that take less are not written down
USUAL_S = 0.1  # of a test in a unit that is not
BROWSER_S = 3.0  # of one in a browser


def unit(name: str) -> str:
    """Of a test's name: its file, and its database if it has one."""
    file, _, rest = name.partition("::")
    database = re.search(r"\[(?:.*-)?(sqlite|postgresql)\b", rest)
    return f"{file} {database[1]}" if database else file


def is_left_out(name: str, *, whole: bool = False, one_database: bool = False, depth: str = DEPTH) -> bool:
    """Whether the test of this name is left out, mostly because it is run on the other database: see `harness.depth`.

    `whole`, `one_database`: it has that mark.
    """
    if whole and depth == "usual":
        return True
    file, _, database = unit(name).partition(" ")
    if depth == "deep" or not database:
        return False
    if one_database:
        return database != "sqlite"
    return depth == "usual" and not file.startswith(OF_DATABASES) and database != usual_database(file)


def arrange(items: list[pytest.Item]) -> None:
    """Units one after the other, those that take longest first."""
    known: dict[str, float] = json.loads(SECONDS.read_text())
    units = {item: unit(item.nodeid) for item in items}
    numbers = Counter(units.values())

    def lasts(name: str) -> float:
        each = BROWSER_S if name.startswith("tests/browser/") else USUAL_S
        return known.get(name, numbers[name] * each)

    items.sort(key=lambda item: (-lasts(units[item]), units[item]))


class Recorder:
    """Writes down at the end how long each unit took that was run."""

    def __init__(self) -> None:
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[unit(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # of what failed or was cut off the seconds say little
        known = {**json.loads(SECONDS.read_text()), **self._seconds}
        kept = {
            name: round(seconds, 1)
            for name, seconds in sorted(known.items())
            if seconds >= SHORT_S and (ROOT / name.split()[0]).is_file()
        }
        SECONDS.write_text(json.dumps(kept, indent=0) + "\n")


class ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # LoadScopeScheduling has no types
    """Gives a worker the next unit when it has nearly done its last."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
