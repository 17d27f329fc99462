"""Periods of reports, the geometry of their charts, and localized numbers."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS
from workhook.core.errors import Invalid
from workhook.core.zones import zone_of
from workhook.web.frame import formats, texts
from workhook.web.hooks import charts as hook_charts
from workhook.web.time import charts, days
from workhook.web.time.days import Period
from workhook.work.time.timesheets.reports import Spent

MONDAY = date(2026, 1, 5)


def spent(ms: int, billable_ms: int = 0) -> Spent:
    return Spent(1, ms, billable_ms)


@pytest.mark.parametrize(
    ("name", "today", "first", "last"),
    [
        ("week", date(2026, 1, 1), date(2025, 12, 29), date(2026, 1, 4)),
        ("last-week", date(2026, 1, 4), date(2025, 12, 22), date(2025, 12, 28)),
        ("month", date(2024, 2, 29), date(2024, 2, 1), date(2024, 2, 29)),
        ("last-month", date(2026, 1, 31), date(2025, 12, 1), date(2025, 12, 31)),
        ("last-month", date(2026, 3, 31), date(2026, 2, 1), date(2026, 2, 28)),
        ("no such name", date(2026, 1, 5), date(2026, 1, 5), date(2026, 1, 11)),
    ],
)
def test_named_periods_have_the_right_days(name: str, today: date, first: date, last: date) -> None:
    assert days.period_named(name, today) == Period(first, last)


def test_the_name_of_a_period_is_recognized() -> None:
    today = date(2026, 1, 14)
    for name in days.PERIODS:
        assert days.period_name(days.period_named(name, today), today) == name
    assert days.period_name(Period(today, today), today) == ""


def test_a_period_has_at_most_a_year() -> None:
    last = MONDAY + timedelta(days=days.PERIOD_MAX_DAYS - 1)
    assert len(days.read_period("2026-01-05", last.isoformat()).days) == days.PERIOD_MAX_DAYS
    with pytest.raises(Invalid) as refused:
        days.read_period("2026-01-05", (last + timedelta(days=1)).isoformat())
    assert [each.field for each in refused.value.faults] == ["to"]


def test_days_with_a_clock_change_have_their_real_length() -> None:
    """In Vienna, one day in March has 23 hours, and one in October 25."""
    zone = zone_of("Europe/Vienna")
    lengths = [
        Period(day, day).to_ms(zone) - Period(day, day).since_ms(zone)
        for day in (date(2026, 3, 29), date(2026, 3, 30), date(2026, 10, 25))
    ]
    assert lengths == [23 * HOUR_MS, DAY_MS, 25 * HOUR_MS]


def test_each_day_has_a_bar_in_two_parts() -> None:
    chart = charts.columns(Period(MONDAY, MONDAY + timedelta(days=6)), {MONDAY: spent(4 * HOUR_MS, HOUR_MS)})
    assert [each.total_ms for each in chart.columns] == [4 * HOUR_MS, 0, 0, 0, 0, 0, 0]
    bar = chart.columns[0]
    assert (bar.billable, bar.rest) == (charts.HEIGHT // 4, charts.HEIGHT * 3 // 4)
    assert (bar.rest_y, bar.rest_y + bar.rest, bar.billable_y + bar.billable) == (0, bar.billable_y, charts.HEIGHT)
    assert [(each.y, each.label) for each in chart.lines] == [
        (charts.HEIGHT, "0\u202fh"), (120, "1\u202fh"), (80, "2\u202fh"), (40, "3\u202fh"), (0, "4\u202fh"),
    ]  # fmt: skip


@pytest.mark.parametrize("most", [1, MINUTE_MS, HOUR_MS + 1, 7 * HOUR_MS, 99 * HOUR_MS, 100_000 * HOUR_MS])
def test_a_chart_fits_the_highest_bar_and_has_few_lines(most: int) -> None:
    chart = charts.columns(Period(MONDAY, MONDAY), {MONDAY: spent(most, most)})
    assert 2 <= len(chart.lines) <= 5
    assert chart.lines[-1].y == 0
    assert 0 <= chart.columns[0].billable_y <= charts.HEIGHT


def test_an_empty_chart_has_lines() -> None:
    chart = charts.columns(Period(MONDAY, MONDAY), {MONDAY: spent(0)})
    assert (chart.columns[0].billable, chart.columns[0].rest, len(chart.lines)) == (0, 0, 2)
    assert charts.rows([("a", spent(0))])[0].rest == "0.000%"


def test_long_periods_are_shown_as_weeks_with_the_same_sum() -> None:
    period = Period(date(2026, 1, 1), date(2026, 12, 31))
    chart = charts.columns(period, {day: spent(HOUR_MS + 1) for day in period.days})
    assert chart.by_weeks
    assert sum(each.total_ms for each in chart.columns) == 365 * (HOUR_MS + 1)
    assert {each.day.weekday() for each in chart.columns} == {0}


def test_excess_rows_are_combined() -> None:
    rows = charts.rows([(f"row {number}", spent(100 - number)) for number in range(30)])
    assert len(rows) == charts.ROWS_MAX
    assert rows[-1].label == "19 others"
    assert sum(each.total_ms for each in rows) == sum(100 - number for number in range(30))


def test_numbers_have_the_readers_decimal_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> list[str]:
        return [
            formats.hours(5_400_000),
            formats.hundredths(123_456_789),
            hook_charts.share(0.998),
            hook_charts.took(1234),
            charts.columns(Period(MONDAY, MONDAY), {MONDAY: spent(HOUR_MS)}).lines[1].label,
        ]

    assert written() == ["1.50", "1,234,567.89", "99.8%", "1.2\u202fs", "0.25\u202fh"]
    monkeypatch.setattr(texts, "language", lambda: "de")
    assert written() == ["1,50", "1.234.567,89", "99,8\u202f%", "1,2\u202fs", "0,25\u202fh"]


@pytest.mark.parametrize(
    ("language", "names"),
    [
        ("en", ("November 30, 2026", "Monday, November 30", "Nov 30")),
        ("de", ("30. November 2026", "Montag, 30. November", "30. Nov.")),
    ],
)
def test_days_are_written_as_in_the_language(
    monkeypatch: pytest.MonkeyPatch, language: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(texts, "language", lambda: language)
    day = date(2026, 11, 30)
    assert names == (formats.full_day_name(day), formats.weekday_day_name(day), formats.axis_day_name(day))
    assert names[-1] in [each.label for each in charts.columns(Period(day, day), {day: spent(HOUR_MS)}).columns]


@pytest.mark.parametrize(
    ("language", "now", "then"), [("en", "Mar 1", "Mar 1, 2025"), ("de", "1. März", "1. März 2025")]
)
def test_a_date_has_its_year_unless_it_is_the_current_one(
    monkeypatch: pytest.MonkeyPatch, language: str, now: str, then: str
) -> None:
    monkeypatch.setattr(texts, "language", lambda: language)
    monkeypatch.setattr(formats, "today", lambda: date(2026, 11, 30))
    assert (formats.short_day_name(date(2026, 3, 1)), formats.short_day_name(date(2025, 3, 1))) == (now, then)
    assert formats.dated(date(2026, 3, 1)).endswith(
        f'datetime="2026-03-01" data-controller="when" data-when-style-value="day">{now}</time>'
    )
