"""The week as a table: people, tasks or projects, by days, with sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Literal, NamedTuple

from workhook.core.zones import day_in
from workhook.identity.schemas import Repository
from workhook.web.frame.names import called
from workhook.web.time.days import DAYS, Week
from workhook.work.kernel.people import PersonShape
from workhook.work.time.timesheets import rules
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetTaskShape

By = Literal["person", "task", "project"]


class GridRow(NamedTuple):
    """Milliseconds of each day of the week. What the rows are not by is None; so is a task that is gone for good."""

    person: PersonShape | None
    task: TimesheetTaskShape | None
    project: Repository | None
    cells: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.cells)


class Grid(NamedTuple):
    rows: Sequence[GridRow]
    sums: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.sums)


class TimeEntry(NamedTuple):
    """A timesheet, and what was spent on it so far."""

    timesheet: Timesheet
    elapsed_ms: int

    @property
    def state(self) -> Literal["running", "paused", "finished"]:
        times = self.timesheet.times
        return "finished" if times.finished else "running" if times.is_active else "paused"


class GridDay(NamedTuple):
    """What started on one day, the newest first."""

    day: date
    entries: Sequence[TimeEntry]

    @property
    def total(self) -> int:
        return sum(each.elapsed_ms for each in self.entries)


def entries_of(timesheets: Iterable[Timesheet], now: int) -> list[TimeEntry]:
    return [TimeEntry(each, rules.elapsed_ms(each.times, now)) for each in timesheets]


def grid_of(entries: Iterable[TimeEntry], week: Week, by: By) -> Grid:
    """Timesheets belong to the day on which they started. People are in the order of their names, tasks and
    projects of their titles."""
    cells: dict[object, list[int]] = {}
    known: dict[object, Timesheet] = {}
    key, name = _KEYS[by]
    for each in entries:
        row = key(each.timesheet)
        known.setdefault(row, each.timesheet)
        number = (day_in(each.timesheet.times.start, week.zone) - week.monday).days
        cells.setdefault(row, [0] * DAYS)[number] += each.elapsed_ms
    order = sorted(cells, key=lambda row: (name(known[row]).casefold(), str(row)))
    rows = [_row(known[row], by, cells[row]) for row in order]
    return Grid(rows, [sum(each.cells[number] for each in rows) for number in range(DAYS)])


def _row(one: Timesheet, by: By, cells: Sequence[int]) -> GridRow:
    return GridRow(
        one.user if by == "person" else None,
        one.task if by == "task" else None,
        one.repository if by == "project" else None,
        cells,
    )


_KEYS: dict[By, tuple[Callable[[Timesheet], object], Callable[[Timesheet], str]]] = {
    "person": (lambda each: each.user.id, lambda each: called(each.user)),
    "project": (lambda each: each.repository.id, lambda each: each.repository.title),
    "task": (
        lambda each: each.task.id if each.task else "",
        lambda each: each.task.title if each.task else "\U0010ffff",
    ),
}


def days_of(entries: Iterable[TimeEntry], week: Week) -> list[GridDay]:
    """The days on which something started, the newest first."""
    days: dict[date, list[TimeEntry]] = {}
    for each in entries:
        days.setdefault(day_in(each.timesheet.times.start, week.zone), []).append(each)
    return [GridDay(day, days[day]) for day in sorted(days, reverse=True)]
