"""When a deadline is over."""

from __future__ import annotations

from datetime import tzinfo
from typing import Literal

from workhook.core.clock import DAY_MS
from workhook.core.zones import end_of

Urgency = Literal["", "warn", "bad"]
"""`bad`: it is over. `warn`: it will be within a day. Empty for later, for none, and for a task that is completed."""


def urgency(deadline: int | None, *, is_completed: bool, now: int, zone: tzinfo) -> Urgency:
    """`deadline` and `now` in milliseconds. `zone`: where a deadline that is a day ends with the day."""
    if deadline is None or is_completed:
        return ""
    left = end_of(deadline, zone) - now
    return "bad" if left <= 0 else "warn" if left <= DAY_MS else ""
