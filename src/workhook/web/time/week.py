"""`/{owner}/{project}/time`: the week of a project, its timers, entries and budget. Not for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, tzinfo
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.zones import day_in, zone_of
from workhook.http.calls import Response
from workhook.identity.schemas import Repository
from workhook.web.frame.formats import money
from workhook.web.frame.forms import PageForm
from workhook.web.frame.names import called
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.time.days import DAYS, Period, field_text, read_day, week_of, zone_name
from workhook.web.time.forms import offer_tasks, rate_hint
from workhook.work.history.activity.task_history import find_last_edits
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import format_duration
from workhook.work.kernel.people import PersonShape
from workhook.work.money.budgets import BudgetUsage, find_budget_usage
from workhook.work.time.timesheets import queries, rules
from workhook.work.time.timesheets.queries import list_running, list_started
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetTaskShape

By = Literal["person", "task", "project"]


class GridRow(NamedTuple):
    """A row of the week, in milliseconds by day. Only what the grid is grouped by is set; a purged task is None."""

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
    timesheet: Timesheet
    elapsed_ms: int

    @property
    def state(self) -> Literal["running", "paused", "finished"]:
        times = self.timesheet.times
        return "finished" if times.finished else "running" if times.is_active else "paused"


class GridDay(NamedTuple):
    """The entries that started on one day, newest first."""

    day: date
    entries: Sequence[TimeEntry]

    @property
    def total(self) -> int:
        return sum(each.elapsed_ms for each in self.entries)


def entries_of(timesheets: Iterable[Timesheet], now: int) -> list[TimeEntry]:
    return [TimeEntry(each, rules.elapsed_ms(each.times, now)) for each in timesheets]


def grid_of(entries: Iterable[TimeEntry], week: Period, zone: tzinfo, by: By) -> Grid:
    """Sum up timesheets by the day on which they started. Rows are sorted by name or title."""
    cells: dict[object, list[int]] = {}
    known: dict[object, Timesheet] = {}
    key, name = _KEYS[by]
    for each in entries:
        row = key(each.timesheet)
        known.setdefault(row, each.timesheet)
        number = (day_in(each.timesheet.times.start, zone) - week.first).days
        cells.setdefault(row, [0] * DAYS)[number] += each.elapsed_ms
    rows = []
    for row in sorted(cells, key=lambda row: (name(known[row]).casefold(), str(row))):
        person = known[row].user if by == "person" else None
        task = known[row].task if by == "task" else None
        rows.append(GridRow(person, task, known[row].repository if by == "project" else None, cells[row]))
    return Grid(rows, [sum(each.cells[number] for each in rows) for number in range(DAYS)])


_KEYS: dict[By, tuple[Callable[[Timesheet], object], Callable[[Timesheet], str]]] = {
    "person": (lambda each: each.user.id, lambda each: called(each.user)),
    "project": (lambda each: each.repository.id, lambda each: each.repository.title),
    "task": (
        lambda each: each.task.id if each.task else "",
        lambda each: each.task.title if each.task else "\U0010ffff",
    ),
}


def days_of(entries: Iterable[TimeEntry], zone: tzinfo) -> list[GridDay]:
    """Group entries by the day on which they started, newest first."""
    days: dict[date, list[TimeEntry]] = {}
    for each in entries:
        days.setdefault(day_in(each.timesheet.times.start, zone), []).append(each)
    return [GridDay(day, days[day]) for day in sorted(days, reverse=True)]


class BudgetBar(NamedTuple):
    """The used part of the budget, in words and as a percentage, which may exceed 100."""

    words: str
    percent: int

    @property
    def is_short(self) -> bool:
        return self.percent >= 80


def bar_of(standing: BudgetUsage, currency: str) -> BudgetBar | None:
    budget, whole, percent = standing.budget, standing.budget.whole, standing.budget.percent(standing.used)
    if whole is None or percent is None:
        return None
    used = budget.used_by(standing.used)
    write = format_duration if budget.minor is None else partial(money, currency=currency)
    message = (
        gettext("%(used)s of %(whole)s used")
        if budget.minor is not None
        else gettext("%(used)s of %(whole)s hours used")
    )
    return BudgetBar(message % {"used": write(used), "whole": write(whole)}, percent)


ENTRIES_MAX = 500
RUNNING_MAX = 50

places = Places("time")


@places.get("/{owner}/{project}/time")
async def week(visit: Visit) -> Response:
    """Show the time of a week."""
    access = await visit.follow()
    access.require_not_client()
    wanted = {each: visit.query(each) for each in ("week", "user", "by")}
    return await week_page(visit, access, wanted, PageForm())


async def week_page(visit: Visit, access: Access, wanted: Mapping[str, str], form: PageForm) -> Response:
    """Return the page. `wanted` contains its filters, `form` the form that adds an entry."""
    name, now = zone_name(visit), now_ms()
    zone = zone_of(name)
    today = day_in(now, zone)
    shown = week_of(read_day(wanted.get("week", "")) or today)
    user = wanted.get("user", "")
    by: By = "task" if wanted.get("by") == "task" else "person"
    terms = await queries.find_default_terms(visit.database, access)
    found, running, choice, edits, budget = await asyncio.gather(
        list_started(
            visit.database, access, shown.since_ms(zone), shown.to_ms(zone), limit=ENTRIES_MAX + 1, user=user or None
        ),
        list_running(visit.database, access, limit=RUNNING_MAX),
        offer_tasks(visit, access, form.value("task_id")),
        find_last_edits(visit.database, access.repository.id, "timesheet"),
        find_budget_usage(visit.database, access.repository.id),
    )
    entries = entries_of(found[:ENTRIES_MAX], now)

    def link(**changes: date | str) -> str:
        """Return the address with changed filters, without empty ones."""
        given = {"week": shown.first.isoformat(), "user": user, "by": by, **changes}
        kept = {name: str(value) for name, value in given.items() if value and (name, value) != ("by", "person")}
        return f"/{access.repository.full_name}/time?{urlencode(kept)}"

    return visit.page(
        "time/week.html",
        form=form,
        rate_hint=rate_hint(terms.rate_minor, terms.source, access.repository.currency),
        budget=bar_of(budget, access.repository.currency),
        access=access,
        week=shown,
        zone=zone,
        zone_name=name,
        today=today,
        user=user,
        by=by,
        grid=grid_of(entries, shown, zone, by),
        days=days_of(entries, zone),
        more=len(found) > ENTRIES_MAX or found.truncated,
        running=entries_of(running, now),
        choice=choice,
        edits=edits,
        an_hour_ago=field_text(now - HOUR_MS, zone),
        link=link,
    )
