"""The end of due dates, as all pages show it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.core.zones import calendar_day, midnight_of, moved_to, start_of, zone_names, zone_of
from workhook.work.board.tasks.schemas import urgency

MIDNIGHT = 20_000 * DAY_MS
NOON = MIDNIGHT + 12 * HOUR_MS


@pytest.mark.parametrize(
    ("deadline", "now", "expected"),
    [
        (None, NOON, ""),
        (MIDNIGHT, MIDNIGHT - 1, ""),
        (MIDNIGHT, MIDNIGHT, "warn"),  # a day is over at its end
        (MIDNIGHT, MIDNIGHT + DAY_MS - 1, "warn"),
        (MIDNIGHT, MIDNIGHT + DAY_MS, "bad"),
        (NOON, NOON - DAY_MS - 1, ""),
        (NOON, NOON - 1, "warn"),  # a moment is over immediately
        (NOON, NOON, "bad"),
    ],
)
def test_the_urgency_of_a_task_depends_on_its_due_date(deadline: int | None, now: int, expected: str) -> None:
    assert urgency(deadline, is_completed=False, now=now, zone=UTC) == expected
    assert urgency(deadline, is_completed=True, now=now, zone=UTC) == ""


zones = st.sampled_from(zone_names()).map(zone_of)
days = st.dates(date(1970, 1, 2), date(9997, 12, 30))


@given(days, zones)
def test_a_due_day_is_overdue_when_it_ends_in_the_time_zone(day: date, zone: tzinfo) -> None:
    deadline = midnight_of(day)
    end = start_of(day + timedelta(days=1), zone)
    assert urgency(deadline, is_completed=False, now=end - 1, zone=zone) == "warn"
    assert urgency(deadline, is_completed=False, now=end, zone=zone) == "bad"
    assert calendar_day(deadline, zone) == day


@given(days, days, zones, st.integers(1, DAY_MS - 1))
def test_moving_to_another_day_keeps_the_time_of_day(before: date, after: date, zone: tzinfo, at_ms: int) -> None:
    assert moved_to(after, midnight_of(before), zone) == midnight_of(after)
    moment = midnight_of(before) + at_ms
    moved = moved_to(after, moment, zone)
    wanted = datetime.fromtimestamp(moment // 1000, zone).time()
    found = datetime.fromtimestamp(moved // 1000, zone)
    assert moved % 1000 == moment % 1000
    local = datetime.combine(after, wanted, zone)
    exists = datetime.fromtimestamp(local.timestamp(), zone).replace(tzinfo=None) == local.replace(tzinfo=None)
    assert (found.date(), found.time()) == (after, wanted) or not exists  # the clocks moved forward
