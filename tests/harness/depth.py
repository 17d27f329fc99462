"""The extent of a test run, set by the variable `TESTS`:

- `usual` (the default): `make test`, within ten minutes on two cores. Each file with tests for both databases runs on
  a fixed one of them. Of similar variants of a test (mark `variants`, such as window widths or user roles), one runs.
  Tests with three or more cases run a third of them, as do tests that iterate over very many cases (`is_taken`).
  Tests marked `whole` are skipped. Slow tests according to `seconds.json` are skipped as well, except the fastest test
  of each file and those marked `usual`.
- `whole`: `.ci/run`. Everything, on both databases.
- `deep`: `make test-deep`. Like `whole`, with ten times as many random examples, and every test on both databases.
"""

from __future__ import annotations

import os
import zlib

DEPTHS = ("usual", "whole", "deep")
DEPTH = os.environ.get("TESTS") or "usual"
if DEPTH not in DEPTHS:
    raise SystemExit(f"TESTS is {DEPTH}; it can be one of: {', '.join(DEPTHS)}")

DEEP = DEPTH == "deep"


def deep(usual: int, thorough: int) -> int:
    """Return the number of examples, rounds or events for this run."""
    return thorough if DEEP else usual


def is_taken(name: str) -> bool:
    """Return whether a test that iterates over very many cases runs this one. The usual run takes a fixed third."""
    return DEPTH != "usual" or zlib.crc32(name.encode()) % 3 == 0


def usual_database(file: str) -> str:
    """Return the database on which the test file (a path from the root) runs. Each database gets about half of the
    files."""
    return ("sqlite", "postgresql")[zlib.crc32(file.encode()) % 2]
