"""When a deadline is over, whatever page tells of it."""

from __future__ import annotations

import pytest

from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.work.tasks.deadlines import urgency

MIDNIGHT = 20_000 * DAY_MS
NOON = MIDNIGHT + 12 * HOUR_MS


@pytest.mark.parametrize(
    ("deadline", "now", "expected"),
    [
        (None, NOON, ""),
        (MIDNIGHT, MIDNIGHT - 1, ""),
        (MIDNIGHT, MIDNIGHT, "warn"),  # a day: it is over when the day is
        (MIDNIGHT, MIDNIGHT + DAY_MS - 1, "warn"),
        (MIDNIGHT, MIDNIGHT + DAY_MS, "bad"),
        (NOON, NOON - DAY_MS - 1, ""),
        (NOON, NOON - 1, "warn"),  # a moment: it is over then
        (NOON, NOON, "bad"),
    ],
)
def test_how_urgent_a_task_is(deadline: int | None, now: int, expected: str) -> None:
    assert urgency(deadline, is_completed=False, now=now) == expected
    assert urgency(deadline, is_completed=True, now=now) == ""
