"""How much of what has no end is tried: `make test`, or `make test-deep`, which sets `TESTS=deep`."""

from __future__ import annotations

import os

DEEP = os.environ.get("TESTS") == "deep"


def deep(usual: int, thorough: int) -> int:
    """A number of examples, rounds or events."""
    return thorough if DEEP else usual
