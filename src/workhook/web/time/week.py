"""`/{owner}/{project}/time`: a project's week, timers, entries and budget, hidden from clients. Also `/time`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, tzinfo
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from msgspec import UNSET

from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.errors import NotFound
from workhook.core.money import DEFAULT_CURRENCY
from workhook.core.zones import day_in, zone_of
from workhook.http.calls import Response
from workhook.http.lists import WHOLE_LIST_MAX
from workhook.identity.schemas import Repository
from workhook.web.frame.formats import money
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.names import called
from workhook.web.frame.paging import OPTIONS_MAX
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import safe_return_to
from workhook.web.frame.texts import gettext
from workhook.web.time.days import DAYS, Period, field_text, read_day, week_of, zone_name
from workhook.web.time.forms import CALLED, NAMES, at_week_of, offer_tasks, query_of, rate_hint, spent, words_asked
from workhook.work.board.projects.listing import find_visible, list_newest
from workhook.work.board.tasks.actions import get_task
from workhook.work.board.tasks.assigned import list_assigned
from workhook.work.board.tasks.listing import list_tasks
from workhook.work.board.tasks.schemas import Task
from workhook.work.history.activity.queries import find_last_edits
from workhook.work.history.all_projects import AllTasksQuery, AllTimesheetsQuery
from workhook.work.history.time_reports import ROWS_MAX, sum_timesheets
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import format_duration
from workhook.work.kernel.lists import read
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.scopes import source_across_projects
from workhook.work.money.budgets import BudgetUsage, find_budget_usage
from workhook.work.time.timesheets import actions, queries, rules
from workhook.work.time.timesheets.queries import list_running, list_started
from workhook.work.time.timesheets.reports import ReportQuery
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetCreate, TimesheetTaskShape

By = Literal["person", "task", "project"]


class GridRow(NamedTuple):
    """A row of the week, with milliseconds by day.

    Only the field that the grid is grouped by is set, or none if that is a purged task.
    """

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
    """The newest entries that started on one day, newest first, and the `total` of all."""

    day: date
    entries: Sequence[TimeEntry]
    total: int


class Spell(NamedTuple):
    """Time spent on one day. `project` is known only if the time is that of entries."""

    day: date
    ms: int
    person: PersonShape | None
    task: TimesheetTaskShape | None
    project: Repository | None = None


def spells_of(entries: Iterable[TimeEntry], zone: tzinfo) -> list[Spell]:
    """Return the time of entries, on the day on which they started."""
    sheets = ((each.timesheet, each.elapsed_ms) for each in entries)
    return [Spell(day_in(its.times.start, zone), ms, its.user, its.task, its.repository) for its, ms in sheets]


def entries_of(timesheets: Iterable[Timesheet], now: int) -> list[TimeEntry]:
    return [TimeEntry(each, rules.elapsed_ms(each.times, now)) for each in timesheets]


def grid_of(spells: Iterable[Spell], week: Period, by: By) -> Grid:
    """Sum up time by day. Rows are sorted by name or title."""
    cells: dict[object, list[int]] = {}
    known: dict[object, Spell] = {}
    key, name = _KEYS[by]
    for each in spells:
        row = key(each)
        known.setdefault(row, each)
        cells.setdefault(row, [0] * DAYS)[(each.day - week.first).days] += each.ms
    rows = []
    for row in sorted(cells, key=lambda row: (name(known[row]).casefold(), str(row))):
        person = known[row].person if by == "person" else None
        task = known[row].task if by == "task" else None
        rows.append(GridRow(person, task, known[row].project if by == "project" else None, cells[row]))
    return Grid(rows, [sum(each.cells[number] for each in rows) for number in range(DAYS)])


_KEYS: dict[By, tuple[Callable[[Spell], object], Callable[[Spell], str]]] = {
    "person": (lambda each: each.person and each.person.id, lambda each: called(each.person) if each.person else ""),
    "project": (
        lambda each: each.project and each.project.id,
        lambda each: each.project.title if each.project else "",
    ),
    "task": (
        lambda each: each.task.id if each.task else "",
        lambda each: each.task.title if each.task else "\U0010ffff",
    ),
}


def days_of(entries: Iterable[TimeEntry], week: Period, zone: tzinfo, grid: Grid) -> list[GridDay]:
    """Group entries by the day on which they started, newest first."""
    days: dict[date, list[TimeEntry]] = {}
    for each in entries:
        days.setdefault(day_in(each.timesheet.times.start, zone), []).append(each)
    return [GridDay(day, days[day], grid.sums[(day - week.first).days]) for day in sorted(days, reverse=True)]


class BudgetBar(NamedTuple):
    """The used part of the budget, in words and as a percentage, which may exceed 100."""

    words: str
    percent: int


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


async def _sum_up(visit: Visit, access: Access, week: Period, user: str, by: By) -> list[Spell]:
    """Return the project's time of a week by day and person or task."""
    zone = zone_of(name := zone_name(visit))
    query = ReportQuery(
        group_by="task" if by == "task" else "user",
        project_id=access.repository.project_id,
        user=user or UNSET,
        timezone=name,
        from_=week.since_ms(zone),
        to=week.to_ms(zone),
    )
    groups = await sum_timesheets(visit.database, visit.actor, query, now=now_ms(), limit=ROWS_MAX, by_day=True)
    return [Spell(each.day, each.spent.duration_ms, each.user, each.task) for each in groups if each.day]


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
    spells, more = spells_of(entries, zone), len(found) > ENTRIES_MAX or found.truncated
    if more:  # the grid has all time, not only that of the listed entries
        spells = await _sum_up(visit, access, shown, user, by)
    grid = grid_of(spells, shown, by)

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
        grid=grid,
        days=days_of(entries, shown, zone, grid),
        more=more,
        running=entries_of(running, now),
        choice=choice,
        edits=edits,
        an_hour_ago=field_text(now - HOUR_MS, zone),
        link=link,
    )


# --- `/time`: the visitor's week across all projects in which they are on the team; empty for clients -----------------

TASKS_MAX, FINISHED_MAX = 100, 50
OWN_PATH = "/time"

own_places = Places("own_time")


class TaskGroup(NamedTuple):
    """Tasks of a project, titles by ID: open ones, for which a timer can be started, and finished ones."""

    project: str
    tasks: dict[str, str]
    finished: dict[str, str]

    @property
    def size(self) -> int:
        return len(self.tasks)

    @property
    def whole_size(self) -> int:
        return len(self.tasks) + len(self.finished)


class Offered(NamedTuple):
    repository: Repository
    id: str
    title: str
    is_finished: bool


@own_places.get(OWN_PATH)
async def own_week(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Show the visitor's time of a week across projects."""
    week = visit.query("week")
    if form is not UNSENT:
        await visit.load_frame()
        week = query_of(own_page(visit.fields.get("return_to"))).get("week", "")
    name, now = zone_name(visit), now_ms()
    zone = zone_of(name)
    today = day_in(now, zone)
    shown = week_of(read_day(week) or today)
    reader, user = visit.database, visit.actor.user
    found, running = await asyncio.gather(
        queries.list_own_started(reader, user, shown.since_ms(zone), shown.to_ms(zone), limit=ENTRIES_MAX + 1),
        queries.find_running(reader, user),
    )
    entries = entries_of(found[:ENTRIES_MAX], now)
    grid = grid_of(spells_of(entries, zone), shown, "project")

    def link(monday: object) -> str:
        """Return the address of another week, or of this week."""
        return f"{OWN_PATH}?{urlencode({'week': str(monday)})}" if monday else OWN_PATH

    return visit.page(
        "time/own.html",
        form=form,
        week=shown,
        zone=zone,
        zone_name=name,
        rate_hint="",
        today=today,
        grid=grid,
        days=days_of(entries, shown, zone, grid),
        more=len(found) > ENTRIES_MAX or found.truncated,
        running=entries_of([running] if running else [], now),
        choice=await _offer(visit, found, form.value("task_id")),
        may_write=may_write,
        link=link,
        csv=f"{OWN_PATH}/entries.csv?{urlencode({'week': str(shown.first)})}",
        an_hour_ago=field_text(now - HOUR_MS, zone),
    )


@own_places.get(f"{OWN_PATH}/entries.csv")
async def own_table(visit: Visit) -> Response:
    """Download the visitor's time entries of a week as CSV."""
    name = zone_name(visit)
    zone = zone_of(name)
    shown = week_of(read_day(visit.query("week")) or day_in(now_ms(), zone))
    query = AllTimesheetsQuery(user="me", timezone=name, from_=shown.since_ms(zone), to=shown.to_ms(zone))
    source = source_across_projects(visit.actor, query, team_only=True, zone=zone)
    filters, limit = queries.TIMESHEETS.to_filters(query, source), WHOLE_LIST_MAX
    found = await read(visit.database, queries.TIMESHEETS, source, filters, after=None, limit=limit)
    headers = csv_tables.headers(f"time-{shown.first}")
    body = actions.whole_table(visit.database, source, filters, found, zone)
    return Response(body, headers={**headers, "Cache-Control": "no-store"}, media_type=csv_tables.MEDIA_TYPE)


def may_write(repository: Repository) -> bool:
    """Return whether the page offers timers in the project. The actions make the final check."""
    return repository.role in ("write", "admin") and not repository.archive


class OwnChoice(NamedTuple):
    """Like `TaskChoice`, by project. `more` is true if more tasks match or, without a search, if others may exist."""

    asked: str
    groups: list[TaskGroup]
    more: bool

    @property
    def found(self) -> bool:
        return bool(self.groups)


async def _offer(visit: Visit, worked_on: Iterable[Timesheet], chosen: str) -> OwnChoice:
    """Return the tasks that match the search or, without one, the user's assigned tasks and those of the week.

    Always includes `chosen`.
    """
    reader, user = visit.database, visit.actor.user
    asked, words = words_asked(visit)
    offered: list[Offered] = []
    more = False
    if words:
        source = source_across_projects(visit.actor, AllTasksQuery(), archived=False)
        found = await list_tasks(reader, source, {"q": words}, sort="-updated_at", after=None, limit=TASKS_MAX + 1)
        offered += await _placed(visit, found[:TASKS_MAX])
        more = len(found) > TASKS_MAX or found.truncated or found.next_key is not None
    elif not asked:
        assigned, finished = await asyncio.gather(
            list_assigned(reader, user, TASKS_MAX), list_assigned(reader, user, FINISHED_MAX, finished=True)
        )
        offered += [Offered(each.repository, each.id, each.title, False) for each in assigned]
        offered += [Offered(each.repository, each.id, each.title, True) for each in finished]
        offered += [Offered(each.repository, each.task.id, each.task.title, False) for each in worked_on if each.task]
    if chosen and all(each.id != chosen for each in offered):
        with suppress(NotFound):
            offered += await _placed(visit, [await get_task(reader, visit.actor, chosen)])
    groups = _groups(offered)
    if not asked:
        newest = [] if groups else await list_newest(reader, visit.actor, limit=OPTIONS_MAX)
        more = bool(groups) or any(may_write(each.repository) for each in newest)
    return OwnChoice(asked, groups, more)


async def _placed(visit: Visit, tasks: Sequence[Task]) -> list[Offered]:
    projects = await find_visible(visit.database, visit.actor, {each.project.id for each in tasks})
    return [
        Offered(projects[each.project.id].repository, each.id, each.title, each.completed_at is not None)
        for each in tasks
        if each.project.id in projects  # access may have been lost meanwhile
    ]


def _groups(offered: Iterable[Offered]) -> list[TaskGroup]:
    groups: dict[int, TaskGroup] = {}
    for each in offered:
        if not may_write(each.repository):
            continue
        group = groups.setdefault(each.repository.id, TaskGroup(each.repository.title, {}, {}))
        if each.is_finished:
            group.finished[each.id] = each.title
        elif each.id not in group.finished:
            group.tasks.setdefault(each.id, each.title)
    return sorted(groups.values(), key=lambda each: each.project.casefold())


@own_places.post(f"{OWN_PATH}/start", makes=True, action="timesheet.create")
async def start_own_timer(visit: Visit) -> Response:
    """Start a timer for a task in any project. This pauses the visitor's other timer."""
    return await _create(visit, visit.form(TimesheetCreate, "task_id", "notes"), gettext("The timer was started."))


@own_places.post(f"{OWN_PATH}/entries", makes=True, action="timesheet.create")
@form_page(own_week, NAMES, called=CALLED)
async def add_own_entry(visit: Visit) -> Response:
    """Add a time entry to a task of any project."""
    currency = DEFAULT_CURRENCY
    if task_id := visit.fields.get("task_id"):  # otherwise the form is rejected below
        currency = (await get_task(visit.database, visit.actor, task_id)).project.currency
    return await _create(visit, spent(visit, currency), gettext("The time entry was added."))


async def _create(visit: Visit, create: TimesheetCreate, done: str) -> Response:
    task = await get_task(visit.database, visit.actor, create.task_id)
    await visit.change(lambda write: actions.create_timesheet(write, task.project.id, create))
    return visit.done(at_week_of(create, own_page(visit.fields.get("return_to")) or OWN_PATH, visit), done)


def own_page(return_to: str | None) -> str:
    """Return the address if it leads to this page, in any week; otherwise an empty string."""
    wanted = safe_return_to(return_to)
    return wanted if wanted.partition("?")[0] == OWN_PATH else ""
