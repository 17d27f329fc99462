"""The layout of report charts, which the template draws as SVG.

Widths are percentages, which keeps texts readable on a phone; heights are pixels. Each bar has a billable part and a
rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from workhook.core.clock import HOUR_MS, MINUTE_MS
from workhook.web.frame.formats import axis_day_name, with_mark
from workhook.web.frame.texts import gettext
from workhook.web.time.days import Period
from workhook.work.time.timesheets.reports import Spent

HEIGHT = 160
"""Height of the plot without its labels, in pixels."""
ROW_HEIGHT = 42  # as in the template
ROWS_MAX = 12
DAYS_MAX = 92  # more bars would be too narrow on a phone
_LABELS = 6
_LINES = 4
_FILLED = 0.8  # share of its slot that a bar fills
_STEPS = [
    *(minutes * MINUTE_MS for minutes in (15, 30)),
    *(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 8, 12, 24, 48)),
]


class GridLine(NamedTuple):
    y: int
    label: str


class ColumnBar(NamedTuple):
    """A vertical bar: the billable part at the bottom, the rest above. `label` is empty for most bars."""

    x: str
    middle: str
    width: str
    billable_y: int
    billable: int
    rest_y: int
    rest: int
    label: str
    day: date
    total_ms: int


class ColumnChart(NamedTuple):
    """Time by day, or by week for more than `DAYS_MAX` days."""

    columns: Sequence[ColumnBar]
    lines: Sequence[GridLine]
    by_weeks: bool


class BarRow(NamedTuple):
    """A horizontal bar below its label: the billable part, then the rest."""

    y: int
    label: str
    total_ms: int
    billable: str
    rest_x: str
    rest: str


def columns(period: Period, spent: Mapping[date, Spent]) -> ColumnChart:
    days = period.days
    by_weeks = len(days) > DAYS_MAX
    sums: dict[date, Spent] = {}
    for day in days:
        bar = day - timedelta(days=day.weekday()) if by_weeks else day
        sums[bar] = sums.get(bar, Spent()).plus(spent.get(day, Spent()))
    most = max(each.duration_ms for each in sums.values())
    step = _step(most)
    top = max(step, -(-most // step) * step)
    share, every = 100 / len(sums), -(-len(sums) // _LABELS)
    found = []
    for number, (day, each) in enumerate(sums.items()):
        billable, whole = each.billable_ms * HEIGHT // top, each.duration_ms * HEIGHT // top
        found.append(
            ColumnBar(
                x=_percent(share * (number + (1 - _FILLED) / 2)),
                middle=_percent(share * (number + 0.5)),
                width=_percent(share * _FILLED),
                billable_y=HEIGHT - billable,
                billable=billable,
                rest_y=HEIGHT - whole,
                rest=whole - billable,
                label=axis_day_name(day) if number % every == 0 else "",
                day=day,
                total_ms=each.duration_ms,
            )
        )
    lines = [GridLine(HEIGHT - at * HEIGHT // top, _hours(at)) for at in range(0, top + 1, step)]
    return ColumnChart(found, lines, by_weeks)


def rows(spent: Sequence[tuple[str, Spent]]) -> list[BarRow]:
    """Return the chart of time by label, in the given order. Rows beyond `ROWS_MAX` are summed up in the last bar."""
    shown = list(spent)
    if len(shown) > ROWS_MAX:
        shown, rest = shown[: ROWS_MAX - 1], shown[ROWS_MAX - 1 :]
        others = Spent()
        for _, each in rest:
            others = others.plus(each)
        shown.append((gettext("%(number)d others", number=len(rest)), others))
    most = max((each.duration_ms for _, each in shown), default=0) or 1
    return [
        BarRow(
            y=number * ROW_HEIGHT,
            label=label,
            total_ms=each.duration_ms,
            billable=_percent(100 * each.billable_ms / most),
            rest_x=_percent(100 * each.billable_ms / most),
            rest=_percent(100 * (each.duration_ms - each.billable_ms) / most),
        )
        for number, (label, each) in enumerate(shown)
    ]


def _step(most: int) -> int:
    step = next((each for each in _STEPS if each * _LINES >= most), _STEPS[-1])
    while step * _LINES < most:
        step *= 2
    return step


def _hours(ms: int) -> str:
    number = f"{ms / HOUR_MS:.2f}".rstrip("0").rstrip(".")
    return f"{with_mark(number)}\u202fh"


def _percent(value: float) -> str:
    return f"{value:.3f}%"  # SVG syntax, not localized
