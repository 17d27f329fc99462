"""When a deadline is over."""

from __future__ import annotations

from typing import Literal

from workhook.core.clock import DAY_MS

Urgency = Literal["", "warn", "bad"]
"""`bad`: it is over. `warn`: it will be within a day. Empty for later, for none, and for a task that is completed."""


def end_of(deadline: int) -> int:
    """When it is over. A deadline that is a day is its midnight (UTC): it is over when the day is."""
    return deadline + DAY_MS if deadline % DAY_MS == 0 else deadline


def urgency(deadline: int | None, *, is_completed: bool, now: int) -> Urgency:
    """`deadline` and `now` in milliseconds."""
    if deadline is None or is_completed:
        return ""
    left = end_of(deadline) - now
    return "bad" if left <= 0 else "warn" if left <= DAY_MS else ""
