"""The calendar of subscriptions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.clock import DAY_MS, parse_rfc3339, to_millis_text
from workhook.work.checkouts.rules import add_months, days_left, months_between, period_end
from workhook.work.services.schemas import Interval

MOMENTS = st.integers(parse_rfc3339("1971-01-01T00:00:00Z"), parse_rfc3339("2100-01-01T00:00:00Z"))
MONTHS = st.integers(0, 600)
RECURRING: st.SearchStrategy[Interval] = st.sampled_from(["week", "month", "year"])


def ends(start: str, interval: Interval, count: int) -> list[str]:
    anchor = parse_rfc3339(f"{start}T10:30:00.123Z")
    found = [period_end(anchor, interval, number) for number in range(1, count + 1)]
    texts = [to_millis_text(each) for each in found if each is not None]
    assert {text[10:] for text in texts} == {"T10:30:00.123Z"}
    return [text[:10] for text in texts]


def test_months_end_on_the_day_or_the_last_of_a_shorter_month() -> None:
    assert ends("2026-01-31", "month", 5) == ["2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31", "2026-06-30"]
    assert ends("2028-01-30", "month", 2) == ["2028-02-29", "2028-03-30"]
    assert ends("2026-12-15", "month", 2) == ["2027-01-15", "2027-02-15"]


def test_years_and_weeks() -> None:
    assert ends("2024-02-29", "year", 4) == ["2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]
    assert ends("2026-02-20", "week", 3) == ["2026-02-27", "2026-03-06", "2026-03-13"]


def test_what_is_paid_once_has_no_end() -> None:
    assert period_end(0, "one_time", 1) is None


@given(MOMENTS, MONTHS)
def test_the_time_of_day_stays_and_the_day_never_grows(at: int, months: int) -> None:
    moved = add_months(at, months)
    before, after = datetime.fromtimestamp(at // 1000, UTC), datetime.fromtimestamp(moved // 1000, UTC)
    assert moved % DAY_MS == at % DAY_MS
    assert (after.year * 12 + after.month) - (before.year * 12 + before.month) == months
    assert after.day == before.day or (after.day < before.day and (after.day >= 28))


@given(MOMENTS, RECURRING, st.integers(1, 200))
def test_periods_follow_each_other_without_drift(anchor: int, interval: Interval, number: int) -> None:
    first, second = period_end(anchor, interval, number), period_end(anchor, interval, number + 1)
    assert first is not None
    assert second is not None
    shortest, longest = {"week": (7, 7), "month": (28, 31), "year": (365, 366)}[interval]
    assert shortest * DAY_MS <= second - first <= longest * DAY_MS


@given(MOMENTS, MONTHS, st.integers(0, 27 * DAY_MS))
def test_months_are_counted_when_they_are_whole(start: int, months: int, more_ms: int) -> None:
    end = add_months(start, months)
    assert months_between(start, end) == months
    assert months_between(start, end + more_ms) == months
    if months:
        assert months_between(start, end - 1) == months - 1
        assert months_between(end, start) == 0


@pytest.mark.parametrize(
    ("before_end_ms", "days"), [(0, 0), (-1, 0), (-DAY_MS, 0), (1, 1), (DAY_MS, 1), (DAY_MS + 1, 2), (31 * DAY_MS, 31)]
)
def test_a_day_that_has_begun_counts(before_end_ms: int, days: int) -> None:
    end = 1_000 * DAY_MS + 12_345
    assert days_left(end - before_end_ms, end) == days
