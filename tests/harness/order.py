"""Which worker runs what, and when: `pytest -n`.

A unit is what one server serves: the tests of one file on one database. The units that take longest begin, or a worker
would end alone with one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

ROOT = Path(__file__).parents[2]

# The units that take more than some ten seconds, the longest first.
LONG = (
    "tests/api/test_schemathesis_work.py",
    "tests/api/test_schemathesis.py",
    "tests/crash/test_kill.py",
    "tests/crash/test_database_trouble.py",
    "tests/delivery/test_two_workers.py",
    "tests/crash/test_stop.py",
    "tests/api/test_cli.py",
    "tests/work/test_import_trello.py",
    "tests/api/test_nothing_secret.py",
    "tests/walls/test_two_of_everything.py",
    "tests/walls/test_side_effects.py",
    "tests/work/test_stream.py",
    "tests/api/test_hardening.py",
    "tests/delivery/test_worker_retries.py",
    "tests/identity/test_matrix.py",
    "tests/work/test_query_counts.py",
)


def unit(name: str) -> str:
    """Of a test's name: its file, and its database if it has one."""
    file, _, rest = name.partition("::")
    database = re.search(r"\[(?:.*-)?(sqlite|postgresql)\b", rest)
    return f"{file} {database[1]}" if database else file


def arrange(items: list[pytest.Item]) -> None:
    """Units one after the other: the long ones, then those with most tests."""
    long = {ROOT / file: place for place, file in enumerate(LONG)}
    assert all(file.is_file() for file in long), "LONG names a file that is not there any more"
    numbers = Counter(unit(item.nodeid) for item in items)
    items.sort(
        key=lambda item: (long.get(item.path, len(long)), -numbers[unit(item.nodeid)], unit(item.nodeid)),
    )


class ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # likewise
    """Gives a worker the next unit when it has nearly done its last."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
