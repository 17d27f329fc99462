"""Which worker runs what, and when: `pytest -n`.

A unit is what one server serves: the tests of one file on one database. The units that take longest begin, or a worker
would end alone with one of them. `TESTS=whole make test ARGS=--record-seconds` writes down how long each took, and each
slow test of it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

from tests.harness.depth import DEPTH, usual_database

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SECONDS = Path(__file__).with_name("seconds.json")

SHORT_S = 1.0  # units that take less are not written down
USUAL_S = 0.1  # of a test in a unit that is not
BROWSER_S = 3.0  # of one in a browser
SLOW_S = 1.5  # the mean of a test's cases, without their set-up: the usual run leaves it out


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
    return depth == "usual" and database != usual_database(file)


class Variant(NamedTuple):
    """A test with parameters; `indices`: the number of each of its values, by name. `little`: the names of those that
    make little difference."""

    name: str
    indices: Mapping[str, int]
    little: Collection[str]


def variants_of(items: Iterable[pytest.Item]) -> list[Variant]:
    """Of the tests that have the mark `variants`."""
    found = []
    for item in items:
        little = {each for mark in item.iter_markers("variants") for each in mark.args}
        if little and isinstance(item, pytest.Function):
            assert little <= item.callspec.indices.keys(), f"{item.nodeid} has no such parameter"
            found.append(Variant(item.nodeid, item.callspec.indices, little))
    return found


def others_of_variants(variants: Iterable[Variant], depth: str = DEPTH) -> set[str]:
    """The names that the usual run leaves out: all but one of those that differ little, always the same one."""
    if depth != "usual":
        return set()
    groups = defaultdict[object, list[str]](list)
    for name, indices, little in variants:
        others = tuple(sorted((each, index) for each, index in indices.items() if each not in little))
        groups[name.partition("[")[0], others].append(name)
    return {each for key, group in groups.items() for each in group if each != group[_number(key) % len(group)]}


MANY = 3  # cases of one test


def others_of_many(names: Sequence[str], depth: str = DEPTH) -> set[str]:
    """The names that the usual run leaves out where a test has many cases: it takes each third, always the same ones.
    Those of `tests/unit` take next to no time."""
    if depth != "usual":
        return set()
    cases = defaultdict[str, list[str]](list)
    for name in names:
        test, _, case = name.partition("[")
        if case and not name.startswith("tests/unit/"):
            cases[test].append(name)
    return {
        name
        for test, found in cases.items()
        if len(found) >= MANY
        for index, name in enumerate(found, _number(test))
        if index % 3
    }


def slow_ones(names: Iterable[str], seconds: Mapping[str, float], depth: str = DEPTH) -> set[str]:
    """Return the names that the usual run leaves out because they are slow. It keeps the quickest test of each file.

    `seconds`: how long a case of a test takes, by the test's name without its case; tests that are not there are quick.
    """
    if depth != "usual":
        return set()
    files = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
    for name in names:
        files[name.partition("::")[0]][name.partition("[")[0]].append(name)
    left_out = set[str]()
    for tests in files.values():
        quickest = min(tests, key=lambda test: seconds.get(test, 0.0))
        slow = [test for test in tests if test != quickest and seconds.get(test, 0.0) >= SLOW_S]
        left_out.update(name for test in slow for name in tests[test])
    return left_out


def known_seconds() -> dict[str, float]:
    """Return how long units take ("tests/api/test_x.py sqlite") and slow tests do ("tests/api/test_x.py::test_y")."""
    known: dict[str, float] = json.loads(SECONDS.read_text())
    return known


def _number(key: object) -> int:
    """The same in each process."""
    return zlib.crc32(repr(key).encode())


def arrange(items: list[pytest.Item]) -> None:
    """Units one after the other, those that take longest first."""
    known = known_seconds()
    units = {item: unit(item.nodeid) for item in items}
    numbers = Counter(units.values())

    def lasts(name: str) -> float:
        each = BROWSER_S if name.startswith("tests/browser/") else USUAL_S
        return known.get(name, numbers[name] * each)

    items.sort(key=lambda item: (-lasts(units[item]), units[item]))


def beginning_at(arguments: list[str], number: int, of: int) -> list[str]:
    """Where worker `number` (from 0) of so many looks for tests, and in which order: each begins elsewhere.

    On a fresh clone pytest rewrites what asserts, which is most of the time that this takes, and keeps it. All would
    rewrite the same file at the same time, but each finds that the others have rewritten most.
    """
    if [Path(each).resolve() for each in arguments] != [TESTS]:
        return arguments
    sizes = Counter[Path]()
    for each in TESTS.glob("*/**/*.py"):
        sizes[each.parent] += each.stat().st_size
    folders = sorted(folder for folder in sizes if any(folder.glob("test_*.py")))
    before = [sum(sizes[each] for each in folders[:index]) for index in range(len(folders))]
    share = sum(sizes[each] for each in folders) * number / of
    first = min(range(len(folders)), key=lambda index: abs(before[index] - share))
    return [str(each) for each in folders[first:] + folders[:first]]


class Recorder:
    """Writes down at the end how long each unit took that was run, and each case of a slow test on average."""

    def __init__(self) -> None:
        self._units = defaultdict[str, float](float)
        self._cases = defaultdict[str, list[float]](list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._units[unit(report.nodeid)] += report.duration
        if report.when == "call":
            self._cases[report.nodeid.partition("[")[0]].append(report.duration)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # of what failed or was cut off the seconds say little
        means = {name: sum(each) / len(each) for name, each in self._cases.items()}
        kept = {
            name: round(seconds, 1)
            for name, seconds in sorted({**known_seconds(), **self._units, **means}.items())
            if seconds >= SHORT_S and (ROOT / re.split(" |::", name)[0]).is_file()
        }
        SECONDS.write_text(json.dumps(kept, indent=0) + "\n")


class ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # LoadScopeScheduling has no types
    """Gives a worker the next unit when it has nearly done its last."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
