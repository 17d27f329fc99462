"""How much is tried. The variable `TESTS` says it:

- `usual` (also without it): `make test`, within ten minutes on two cores. What runs on both databases runs on one of
  them, each file on the same. Of the variants of a test that differ little (mark `variants`: the width of a window,
  the role of who walks through every page) one is taken. Of three and more cases of a test it takes a third, and so
  it does of very many that a test goes through (`is_taken`). What has the mark `whole` is left out, and so is what
  `seconds.json` says is slow, but for the quickest test of each file and those with the mark `usual`.
- `whole`: `.ci/run`. Everything, on both databases.
- `deep`: `make test-deep`. `whole`, with ten times as much of what has no end, and each test on both databases.
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
    """A number of examples, rounds or events."""
    return thorough if DEEP else usual


def is_taken(name: str) -> bool:
    """Of very many cases that one test goes through: whether this one is among those that are tried. The usual run
    takes a third of them, always the same."""
    return DEPTH != "usual" or zlib.crc32(name.encode()) % 3 == 0


def usual_database(file: str) -> str:
    """Of a file of tests (its path from the root): `sqlite` or `postgresql`. About as many have one as the other."""
    return ("sqlite", "postgresql")[zlib.crc32(file.encode()) % 2]
