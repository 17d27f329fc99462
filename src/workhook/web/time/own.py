"""`/time`: the visitor's week across all projects in which they are on the team; empty for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlencode

from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.errors import NotFound
from workhook.core.money import DEFAULT_CURRENCY
from workhook.core.zones import day_in, zone_of
from workhook.http.calls import Response
from workhook.http.lists import WHOLE_LIST_MAX
from workhook.identity.schemas import Repository
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.paging import OPTIONS_MAX
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import safe_return_to
from workhook.web.frame.texts import gettext
from workhook.web.time.days import field_text, read_day, week_of, zone_name
from workhook.web.time.forms import CALLED, NAMES, at_week_of, query_of, spent, words_asked
from workhook.web.time.week import ENTRIES_MAX, days_of, entries_of, grid_of
from workhook.work.board.projects.listing import find_visible, list_newest
from workhook.work.board.tasks import actions
from workhook.work.board.tasks.assigned import list_assigned, list_assigned_finished
from workhook.work.board.tasks.listing import list_tasks
from workhook.work.board.tasks.schemas import Task
from workhook.work.history.all_projects.schemas import AllTasksQuery, AllTimesheetsQuery
from workhook.work.kernel import csv_tables
from workhook.work.kernel.lists import read
from workhook.work.kernel.scopes import source_across_projects
from workhook.work.time.timesheets import actions as timesheets_actions
from workhook.work.time.timesheets import queries
from workhook.work.time.timesheets.export import whole_table
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetCreate

TASKS_MAX, FINISHED_MAX = 100, 50
PATH = "/time"

places = Places("own_time")


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


@places.get(PATH)
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

    def link(monday: object) -> str:
        """Return the address of another week, or of this week."""
        return f"{PATH}?{urlencode({'week': str(monday)})}" if monday else PATH

    return visit.page(
        "time/own.html",
        form=form,
        week=shown,
        zone=zone,
        zone_name=name,
        rate_hint="",
        today=today,
        grid=grid_of(entries, shown, zone, "project"),
        days=days_of(entries, zone),
        more=len(found) > ENTRIES_MAX or found.truncated,
        running=entries_of([running] if running else [], now),
        choice=await _offer(visit, found, form.value("task_id")),
        may_write=may_write,
        link=link,
        csv=f"{PATH}/entries.csv?{urlencode({'week': str(shown.first)})}",
        an_hour_ago=field_text(now - HOUR_MS, zone),
    )


@places.get(f"{PATH}/entries.csv")
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
    body = whole_table(visit.database, source, filters, found, zone)
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
    """Return the found tasks or, without a search, those assigned and of the week. Always includes `chosen`."""
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
            list_assigned(reader, user, TASKS_MAX), list_assigned_finished(reader, user, FINISHED_MAX)
        )
        offered += [Offered(each.repository, each.id, each.title, False) for each in assigned]
        offered += [Offered(each.repository, each.id, each.title, True) for each in finished]
        offered += [Offered(each.repository, each.task.id, each.task.title, False) for each in worked_on if each.task]
    if chosen and all(each.id != chosen for each in offered):
        with suppress(NotFound):
            offered += await _placed(visit, [await actions.get_task(reader, visit.actor, chosen)])
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


@places.post(f"{PATH}/start", makes=True, action="timesheet.create")
async def start_own_timer(visit: Visit) -> Response:
    """Start a timer for a task of any project, which pauses the visitor's other timer."""
    return await _create(visit, visit.form(TimesheetCreate, "task_id", "notes"), gettext("The timer was started."))


@places.post(f"{PATH}/entries", makes=True, action="timesheet.create")
@form_page(own_week, NAMES, called=CALLED)
async def add_own_entry(visit: Visit) -> Response:
    """Add a time entry to a task of any project."""
    currency = DEFAULT_CURRENCY
    if task_id := visit.fields.get("task_id"):  # otherwise the form is rejected below
        currency = (await actions.get_task(visit.database, visit.actor, task_id)).project.currency
    return await _create(visit, spent(visit, currency), gettext("The time entry was added."))


async def _create(visit: Visit, create: TimesheetCreate, done: str) -> Response:
    task = await actions.get_task(visit.database, visit.actor, create.task_id)
    await visit.change(lambda write: timesheets_actions.create_timesheet(write, task.project.id, create))
    return visit.done(at_week_of(create, own_page(visit.fields.get("return_to")) or PATH, visit), done)


def own_page(return_to: str | None) -> str:
    """Return the address if it leads to this page, in any week; otherwise an empty string."""
    wanted = safe_return_to(return_to)
    return wanted if wanted.partition("?")[0] == PATH else ""
