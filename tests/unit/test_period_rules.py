"""The calendar of subscriptions."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.clock import DAY_MS, HOUR_MS, parse_rfc3339, to_millis_text
from workhook.core.zones import zone_of
from workhook.work.money.checkouts.rules import State, add_months, months_between, period_end
from workhook.work.money.services.schemas import Interval

MOMENTS = st.integers(parse_rfc3339("1971-01-01T00:00:00Z"), parse_rfc3339("2100-01-01T00:00:00Z"))
MONTHS = st.integers(0, 600)
RECURRING: st.SearchStrategy[Interval] = st.sampled_from(["week", "month", "year"])


def ends(start: str, interval: Interval, count: int) -> list[str]:
    anchor = parse_rfc3339(f"{start}T10:30:00.123Z")
    found = [period_end(anchor, interval, number) for number in range(1, count + 1)]
    texts = [to_millis_text(each) for each in found if each is not None]
    assert {text[10:] for text in texts} == {"T10:30:00.123Z"}
    return [text[:10] for text in texts]


def test_monthly_periods_end_on_the_same_day_or_the_last_of_a_shorter_month() -> None:
    assert ends("2026-01-31", "month", 5) == ["2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31", "2026-06-30"]
    assert ends("2028-01-30", "month", 2) == ["2028-02-29", "2028-03-30"]
    assert ends("2026-12-15", "month", 2) == ["2027-01-15", "2027-02-15"]


def test_yearly_and_weekly_periods_end_on_the_same_day() -> None:
    assert ends("2024-02-29", "year", 4) == ["2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]
    assert ends("2026-02-20", "week", 3) == ["2026-02-27", "2026-03-06", "2026-03-13"]


def test_a_one_time_price_has_no_period_end() -> None:
    assert period_end(0, "one_time", 1) is None


@given(MOMENTS, MONTHS)
def test_adding_months_keeps_the_time_and_never_increases_the_day(at: int, months: int) -> None:
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


@pytest.mark.parametrize(
    ("zone", "start", "ends"),
    [
        # The last day of January in the studio's time zone, but the 30th in UTC.
        ("Pacific/Auckland", "2026-01-30T20:00:00Z", ["2026-02-27T20:00", "2026-03-30T20:00", "2026-04-29T21:00"]),
        ("America/New_York", "2026-02-01T02:00:00Z", ["2026-03-01T02:00", "2026-04-01T01:00", "2026-05-01T01:00"]),
        ("Africa/Casablanca", "2026-01-31T08:00:00Z", ["2026-02-28T09:00", "2026-03-31T08:00", "2026-04-30T08:00"]),
        # Half past two does not exist on that day, but it does in later periods.
        ("Europe/Berlin", "2027-02-28T01:30:00Z", ["2027-03-28T01:30", "2027-04-28T00:30"]),
    ],
)
def test_months_are_counted_in_the_studios_time_zone(zone: str, start: str, ends: list[str]) -> None:
    found = [period_end(parse_rfc3339(start), "month", number, zone_of(zone)) for number in range(1, len(ends) + 1)]
    assert [to_millis_text(each)[:16] for each in found if each is not None] == ends


@given(MOMENTS, RECURRING, st.integers(1, 200), st.sampled_from(sorted(available_timezones())))
def test_a_period_ends_at_the_local_time_and_day(anchor: int, interval: Interval, number: int, name: str) -> None:
    zone = zone_of(name)
    end = period_end(anchor, interval, number, zone)
    assert end is not None
    before, after = (datetime.fromtimestamp(each // 1000, zone).replace(tzinfo=None) for each in (anchor, end))
    months = {"week": 0, "month": number, "year": 12 * number}[interval]
    year, month = divmod(before.year * 12 + before.month - 1 + months, 12)
    day = min(before.day, monthrange(year, month + 1)[1])
    wanted = before + timedelta(weeks=number) if interval == "week" else before.replace(year, month + 1, day)
    # Only a time skipped by a clock change differs, by at most a day for zones that skipped one.
    exists = datetime.fromtimestamp(wanted.replace(tzinfo=zone).timestamp(), zone).replace(tzinfo=None) == wanted
    assert after == wanted if exists else wanted < after <= wanted + timedelta(days=1)
    assert months_between(anchor, end + HOUR_MS * 26, zone) >= months


@given(MOMENTS, MONTHS, st.integers(0, 27 * DAY_MS))
def test_only_whole_months_are_counted(start: int, months: int, more_ms: int) -> None:
    end = add_months(start, months)
    assert months_between(start, end) == months
    assert months_between(start, end + more_ms) == months
    if months:
        assert months_between(start, end - 1) == months - 1
        assert months_between(end, start) == 0


@pytest.mark.parametrize(
    ("before_end_ms", "days"), [(0, 0), (-1, 0), (-DAY_MS, 0), (1, 1), (DAY_MS, 1), (DAY_MS + 1, 2), (31 * DAY_MS, 31)]
)
def test_a_started_day_counts_as_left(before_end_ms: int, days: int) -> None:
    end = 1_000 * DAY_MS + 12_345
    assert State(period_end=end).days_left(end - before_end_ms) == days
