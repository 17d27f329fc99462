"""The assignment of tests to workers and their order with `pytest -n`.

A unit is the set of tests that share a server: those of one file on one database. The longest units start first,
because otherwise one of them could keep a single worker busy at the end. `TESTS=whole make test ARGS=--record-seconds`
records the durations of units and slow tests.
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
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # untyped library

from tests.harness.depth import DEPTH, usual_database

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SECONDS = Path(__file__).with_name("seconds.json")

SHORT_S = 1.0  # shorter units are not recorded
USUAL_S = 0.1  # assumed for a test in an unrecorded unit
BROWSER_S = 3.0  # assumed for a browser test
SLOW_S = 1.5  # a test whose cases take this long on average, without setup, is slow; the usual run skips it


def unit(name: str) -> str:
    """Return the unit of a test: its file, and its database if it has one."""
    file, _, rest = name.partition("::")
    database = re.search(r"\[(?:.*-)?(sqlite|postgresql)\b", rest)
    return f"{file} {database[1]}" if database else file


def is_left_out(name: str, *, whole: bool = False, one_database: bool = False, depth: str = DEPTH) -> bool:
    """Return whether the test is skipped, usually because it runs on the other database (see `harness.depth`).

    `whole` and `one_database` state whether it has that mark.
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
    """A parametrized test.

    `indices` contains the index of each parameter's value, by name. `little` contains the names of parameters that make
    little difference.
    """

    name: str
    indices: Mapping[str, int]
    little: Collection[str]


def variants_of(items: Iterable[pytest.Item]) -> list[Variant]:
    """Return the tests marked with `variants`."""
    found = []
    for item in items:
        little = {each for mark in item.iter_markers("variants") for each in mark.args}
        if little and isinstance(item, pytest.Function):
            assert little <= item.callspec.indices.keys(), f"{item.nodeid} has no such parameter"
            found.append(Variant(item.nodeid, item.callspec.indices, little))
    return found


def others_of_variants(variants: Iterable[Variant], depth: str = DEPTH) -> set[str]:
    """Return the tests that the usual run skips: of each group of similar variants, all but one fixed choice."""
    if depth != "usual":
        return set()
    groups = defaultdict[object, list[str]](list)
    for name, indices, little in variants:
        others = tuple(sorted((each, index) for each, index in indices.items() if each not in little))
        groups[name.partition("[")[0], others].append(name)
    return {each for key, group in groups.items() for each in group if each != group[_number(key) % len(group)]}


MANY = 3  # cases of one test


def others_of_many(names: Sequence[str], depth: str = DEPTH) -> set[str]:
    """Return the cases that the usual run skips in tests with many cases. A fixed third of the cases runs.

    Tests in `tests/unit` are exempt because they take hardly any time.
    """
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
    """Return the slow tests that the usual run skips. It keeps the fastest test of each file.

    `seconds` contains the mean duration of a test's cases by the name of the test without a case. Tests missing from it
    are fast.
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
    """Return the durations of units ("tests/api/test_x.py sqlite") and of slow tests
    ("tests/api/test_x.py::test_y")."""
    known: dict[str, float] = json.loads(SECONDS.read_text())
    return known


def _number(key: object) -> int:
    """Return a hash that is the same in every process."""
    return zlib.crc32(repr(key).encode())


def arrange(items: list[pytest.Item]) -> None:
    """Sort the tests by unit, longest units first."""
    known = known_seconds()
    units = {item: unit(item.nodeid) for item in items}
    numbers = Counter(units.values())

    def lasts(name: str) -> float:
        each = BROWSER_S if name.startswith("tests/browser/") else USUAL_S
        return known.get(name, numbers[name] * each)

    items.sort(key=lambda item: (-lasts(units[item]), units[item]))


def beginning_at(arguments: list[str], number: int, of: int) -> list[str]:
    """Return the folders to collect for worker `number` (from 0) of `of`. Each worker starts with another folder.

    On a fresh clone, pytest rewrites assertions and caches the result, which takes most of the collection time. With
    different starting points the workers share this work instead of rewriting the same files simultaneously.
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
    """Records the durations of units and of slow tests at the end of the run."""

    def __init__(self) -> None:
        self._units = defaultdict[str, float](float)
        self._cases = defaultdict[str, list[float]](list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._units[unit(report.nodeid)] += report.duration
        if report.when == "call":
            self._cases[report.nodeid.partition("[")[0]].append(report.duration)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # durations of failed or interrupted runs mean little
        means = {name: sum(each) / len(each) for name, each in self._cases.items()}
        kept = {
            name: round(seconds, 1)
            for name, seconds in sorted({**known_seconds(), **self._units, **means}.items())
            if seconds >= SHORT_S and (ROOT / re.split(" |::", name)[0]).is_file()
        }
        SECONDS.write_text(json.dumps(kept, indent=0) + "\n")


class ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # untyped base class
    """Assigns the next unit to a worker that has nearly finished its last one."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
