"""Invoice lines created from recorded time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.clock import parse_rfc3339
from workhook.core.errors import Fault, Invalid
from workhook.work.kernel.billing_settings import RoundMode
from workhook.work.kernel.durations import amount_minor, format_duration, whole_seconds
from workhook.work.money.invoices.drafts import _as_many_as_fit
from workhook.work.money.invoices.rules import Item, items_of, items_text
from workhook.work.money.invoices.time_lines import (
    GroupBy,
    InvoicedTime,
    complaint,
    in_language,
    lines_of,
)
from workhook.work.time.rates import Rounding

EXACT = Rounding()
HOUR_MS = 3_600_000
DAY = ("2026-11-20", "2026-11-20")
HOSTING = Item("Hosting", Decimal(1), 1000)


def time(name: str = "tms_1", *, day: str = "2026-11-20", **more: Any) -> InvoicedTime:
    known = {"duration_ms": 5_405_000, "rate_minor": 8000, "billable": True, "finished": True, "invoice_id": None}
    where = {"title": "Logo", "task_id": "tsk_1", "person": "Olivia", "user_id": 1}
    start = parse_rfc3339(f"{day}T09:00:00Z")
    return InvoicedTime(**{"id": name, "start_time": start, **where, **known, **more})


def line_of(entry: InvoicedTime, rounding: Rounding = EXACT) -> Item:
    [line] = lines_of([entry], None, rounding)
    return line


def test_time_is_billed_as_hours_at_a_rate() -> None:
    assert line_of(time()) == Item("Logo (20 Nov 2026)", Decimal("1.501389"), 8000, ("tms_1",), (5_405_000,), days=DAY)
    assert line_of(time(rate_minor=None, duration_ms=0)) == Item(
        "Logo (20 Nov 2026)", Decimal(0), 0, ("tms_1",), (0,), days=DAY
    )


def test_a_time_line_includes_the_notes() -> None:
    assert line_of(time(notes=" Two drafts\n")).description == "Logo (20 Nov 2026): Two drafts"
    long = line_of(time(notes="a" * 301)).description
    assert long == f"Logo (20 Nov 2026): {'a' * 299}\u2026"
    assert line_of(time(notes="  ")).description == "Logo (20 Nov 2026)"


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_the_amount_of_time_is_the_same_on_invoices_and_reports(duration_ms: int, rate_minor: int) -> None:
    line = line_of(time(duration_ms=duration_ms, rate_minor=rate_minor))
    assert line.amount_minor == amount_minor(whole_seconds(duration_ms), rate_minor)


def test_amounts_are_not_rounded_from_truncated_hours() -> None:
    line = line_of(time(duration_ms=50 * 60_000, rate_minor=8703))
    assert (line.qty, line.amount_minor) == (Decimal("0.833333"), 7253)


@pytest.mark.parametrize(
    ("minutes", "mode", "hours"),
    [(0, "up", "1.501389"), (15, "up", "1.75"), (15, "nearest", "1.5"), (1, "nearest", "1.5"), (6, "up", "1.6")],
)
def test_time_is_rounded_per_entry(minutes: int, mode: RoundMode, hours: str) -> None:
    rounding = Rounding(minutes, mode)
    line = line_of(time(), rounding)
    assert line.qty == Decimal(hours)
    assert line.amount_minor == 12_011 if not minutes else line.qty * 8000
    [both] = lines_of([time(), time("tms_2")], "task", rounding)
    assert both.duration_ms == 2 * (line.duration_ms or 0)


def test_half_a_step_is_rounded_up_and_zero_stays_zero() -> None:
    assert [Rounding(6, "nearest").of(each * 60_000) for each in (0, 2, 3, 8, 9)] == [0, 0, 360_000, 360_000, 720_000]
    assert [Rounding(6).of(each) for each in (0, 1_000, 360_000, 361_000)] == [0, 360_000, 360_000, 720_000]


def test_a_fraction_of_a_second_does_not_start_another_step() -> None:
    line = line_of(time(duration_ms=900_350), Rounding(15, "up"))
    assert (line.qty, format_duration(line.duration_ms or 0)) == (Decimal("0.25"), "0:15")
    assert [Rounding(6).of(each) for each in (999, 360_999, 361_000)] == [0, 360_000, 720_000]


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (None, "the project has no such timesheet"),
        (time(invoice_id="inv_2"), "it is on another invoice"),
        (time(finished=False), "it is not finished"),
        (time(billable=False), "it is not billable"),
        (time(), None),
        (time(invoice_id="inv_1"), None),
    ],
)
def test_time_that_cannot_be_invoiced_is_explained(found: InvoicedTime | None, wrong: str | None) -> None:
    assert complaint(found, "inv_1") == wrong


# --- groups -------------------------------------------------------------------------------------------------------

WEEK = [
    time("tms_1", day="2026-11-16", notes="Two drafts"),
    time("tms_2", day="2026-11-17", person="Milan", user_id=2, notes="Two drafts"),
    time("tms_3", day="2026-11-17", title="Site", task_id="tsk_2", notes="Menu"),
    time("tms_4", day="2026-11-18", rate_minor=9000),
]


@pytest.mark.parametrize(
    ("group_by", "lines"),
    [
        (
            "task",
            [
                ("Logo (16 Nov 2026 \u2013 17 Nov 2026): Two drafts", "tms_1 tms_2"),
                ("Site (17 Nov 2026): Menu", "tms_3"),
                ("Logo (18 Nov 2026)", "tms_4"),
            ],
        ),
        (
            "person",
            [
                ("Olivia (16 Nov 2026 \u2013 17 Nov 2026): Two drafts; Menu", "tms_1 tms_3"),
                ("Milan (17 Nov 2026): Two drafts", "tms_2"),
                ("Olivia (18 Nov 2026)", "tms_4"),
            ],
        ),
        (
            "day",
            [
                ("16 Nov 2026: Logo", "tms_1"),
                ("17 Nov 2026: Logo; Site", "tms_2 tms_3"),
                ("18 Nov 2026: Logo", "tms_4"),
            ],
        ),
    ],
)
def test_each_group_and_rate_has_its_own_line(group_by: GroupBy, lines: list[tuple[str, str]]) -> None:
    found = lines_of(WEEK, group_by, EXACT)
    assert [(each.description, " ".join(each.timesheet_ids)) for each in found] == lines
    assert [each.unit_price_minor for each in found] == [9000 if "tms_4" in ids else 8000 for _, ids in lines]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 10**8), st.sampled_from([0, 50, 8000]))),
    st.sampled_from(["task", "person", "day", None]),
    st.sampled_from([0, 6, 15]),
)
def test_grouped_lines_contain_all_time_once(
    entries: list[tuple[int, int, int, int]], group_by: GroupBy | None, minutes: int
) -> None:
    times = [
        time(f"tms_{n}", task_id=f"tsk_{task}", user_id=user, duration_ms=duration_ms, rate_minor=rate_minor)
        for n, (task, user, duration_ms, rate_minor) in enumerate(entries)
    ]
    lines, rounding = lines_of(times, group_by, Rounding(minutes)), Rounding(minutes)
    assert sorted(each for line in lines for each in line.timesheet_ids) == sorted(each.id for each in times)
    for rate in (0, 50, 8000):
        of_rate = [rounding.of(each.duration_ms) for each in times if each.rate_minor == rate]
        assert sum(each.duration_ms or 0 for each in lines if each.unit_price_minor == rate) == sum(of_rate)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 10**8)), max_size=20),
    st.integers(0, 10**6),
    st.sampled_from([0, 6, 15]),
)
def test_time_costs_the_same_however_it_is_grouped(
    entries: list[tuple[int, int, int]], rate_minor: int, minutes: int
) -> None:
    times = [
        time(f"tms_{n}", task_id=f"tsk_{task}", user_id=user, duration_ms=duration_ms, rate_minor=rate_minor)
        for n, (task, user, duration_ms) in enumerate(entries)
    ]
    rounding = Rounding(minutes)
    cost = sum(amount_minor(rounding.of(each.duration_ms), rate_minor) for each in times)
    ways: list[GroupBy | None] = [None, "task", "person", "day"]
    for way in ways:
        lines = items_of(items_text(lines_of(times, way, rounding)))
        assert sum(each.amount_minor for each in lines) == cost
        assert all(abs(each.rounding_minor) <= len(each.times_ms) for each in lines)


def test_grouped_short_entries_cost_the_same_as_in_reports() -> None:
    both = [time("tms_1", duration_ms=18_000, rate_minor=2500), time("tms_2", duration_ms=18_000, rate_minor=2500)]
    [line] = lines_of(both, "task", EXACT)
    assert (line.amount_minor, line.rounding_minor, line.duration_ms) == (26, 1, 36_000)


def test_a_time_line_shows_its_days_in_the_language_of_the_invoice() -> None:
    [german, _, _] = lines_of(WEEK, "task", EXACT, "de")
    assert german.description == "Logo (16.11.2026 \u2013 17.11.2026): Two drafts"
    assert german.days == ("2026-11-16", "2026-11-17")
    again = in_language([HOSTING, german], WEEK, "task", "en")
    assert [each.description for each in again] == ["Hosting", "Logo (16 Nov 2026 \u2013 17 Nov 2026): Two drafts"]


def test_as_much_time_as_fits_is_invoiced() -> None:
    for count in range(1, 20):
        for most in range(count + 1):

            def planned(number: int, most: int = most) -> Any:
                if number > most:
                    raise Invalid(faults=[Fault(field="invoice_items", code="too_long", message="too long")])
                return number

            if most:
                found: Any = _as_many_as_fit(planned, count)
                assert found == (most, most)
            else:
                with pytest.raises(Invalid):
                    _as_many_as_fit(planned, count)
