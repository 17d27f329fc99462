"""Tables of tasks: of a project, with fields that are edited in place, and at `/tasks` of all projects."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from typing import get_args

import msgspec
from msgspec import UnsetType

from workhook.core import json
from workhook.core.clock import now_ms, to_millis_text
from workhook.core.zones import day_in, is_day, moved_to
from workhook.http import lists
from workhook.http.calls import Response
from workhook.http.endpoints import Retry
from workhook.http.lists import Key, Rows
from workhook.identity.context import Write
from workhook.identity.queries import key_of
from workhook.web.frame import formats, paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.formats import day, reader_zone
from workhook.web.frame.names import Names, logins_of
from workhook.web.frame.paging import fill_page, project_options
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.board import columns
from workhook.work.board.projects.listing import find_visible
from workhook.work.board.projects.schemas import Project, find_label_colors
from workhook.work.board.tasks import actions, export, listing, queries
from workhook.work.board.tasks.assignees import PEOPLE_MAX
from workhook.work.board.tasks.inputs import TaskEdit, TasksQuery
from workhook.work.board.tasks.schemas import DueSpan, Task, due_span, urgency
from workhook.work.history.all_projects import AllTasksQuery, list_all_people
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import cursor_of
from workhook.work.kernel.scopes import ME, source_across_projects, source_of_project

ROWS = 50
SORTS = ("title", "deadline", "updated_at")


class TaskRow(msgspec.Struct, frozen=True):
    """A task in a list. `day` is the day of its deadline, empty without one."""

    task: Task
    labels: Sequence[str]
    day: str
    is_overdue: bool
    may_edit: bool


def query_of(visit: Visit) -> TasksQuery:
    """Return the filters in the query. Raises `Invalid`."""
    query = paging.query_of(TasksQuery, paging.given(visit), ROWS)
    query.timezone = str(formats.reader_zone())
    return query


def row_of(task: Task, now: int, *, may_edit: bool) -> TaskRow:
    """Return a table row. `now` is in milliseconds since the epoch."""
    is_completed, zone = task.completed_at is not None, formats.reader_zone()
    is_overdue = urgency(task.deadline, is_completed=is_completed, now=now, zone=zone) == "bad"
    return TaskRow(task, json.decode(task.labels), day(task.deadline), is_overdue, may_edit)


def sort_links(visit: Visit, otherwise: str = "") -> Mapping[str, tuple[str, str]]:
    """Return, for each sort key, the query that sorts by it or reverses the order, and the current `aria-sort`."""
    now = visit.query("sort") or otherwise
    links = {}
    for name in SORTS:
        turned = f"-{name}" if now == name else name
        state = "ascending" if now == name else "descending" if now == f"-{name}" else "none"
        links[name] = (paging.with_query(visit, sort=turned, cursor=None), state)
    return links


# --- groups -----------------------------------------------------------------------------------------------------------


def _grouped(rows: Sequence[TaskRow], by: str, now: int) -> list[tuple[str | None, Sequence[TaskRow]]]:
    """Return the groups with their titles. A task with several assignees or labels is in several groups."""
    keys = _KEYS.get(by)
    if keys is None:
        return [(None, rows)] if rows else []
    names: dict[str, str] = {}
    if by == "person":
        names = Names(person for row in rows for person in row.task.assignees).by_login
    found: dict[str, list[TaskRow]] = {}
    for row in rows:
        for key in keys(row, now):
            found.setdefault(key, []).append(row)
    if by == "deadline":
        order: list[str] = [key for key in _SPANS if key in found]
    else:
        order = sorted(found, key=lambda key: (key == "", (names.get(key) or key).casefold()))
    return [(_heading(by, names.get(key, key)), found[key]) for key in order]


_SPANS: Sequence[DueSpan] = get_args(DueSpan)


def _span(row: TaskRow, now: int) -> Iterable[str]:
    is_completed = row.task.completed_at is not None
    return [due_span(row.task.deadline, is_completed=is_completed, now=now, zone=formats.reader_zone())]


_KEYS: Mapping[str, Callable[[TaskRow, int], Iterable[str]]] = {
    "column": lambda row, _: [row.task.column.title],
    "person": lambda row, _: [person.login for person in row.task.assignees] or [""],
    "label": lambda row, _: row.labels or [""],
    "deadline": _span,
}


def _heading(by: str, key: str) -> str:
    if by == "deadline":
        return {
            "overdue": gettext("Overdue"),
            "today": gettext("Due today"),
            "week": gettext("Due in the next 7 days"),
            "later": gettext("Due later"),
            "none": gettext("No due date"),
            "done": gettext("Completed"),
        }[key]
    if key:
        return key
    return gettext("Unassigned") if by == "person" else gettext("No label")


# --- changes of one field, and their undo -----------------------------------------------------------------------------

BUSY = Retry(queries.Busy, 20)
FIELDS = ("priority", "deadline", "column_id", "position")
PERSON = "person-"  # prefix of an assignee's checkbox, followed by the login


def edit_of(visit: Visit, access: Access) -> TaskEdit:
    """Read the change of the form. Raises `Invalid`."""
    names = [name for name in FIELDS if name in visit.fields]
    more: dict[str, object] = {"project_id": access.repository.project_id}
    if "people" in visit.fields:
        chosen = (name.removeprefix(PERSON) for name in visit.fields if name.startswith(PERSON))
        more["assignees"] = list(chosen)
    return visit.form(TaskEdit, *names, **more)


async def edit_task(visit: Visit, task_id: str, edit: TaskEdit) -> tuple[Task, Task]:
    """Change a task and return it as before and after. A typed day keeps the deadline's time of day."""

    async def change(write: Write) -> tuple[Task, Task]:
        found = await actions.lock_task(write.tx, write.actor, task_id, edit)
        before = found.task
        keep_time(visit, edit, before)
        seen = await actions.get_task(write.tx, write.actor, task_id)  # without assignees that a client may not see
        return seen, await actions.edit_task(write, found, edit)

    return await visit.change(change, retry=BUSY)


def keep_time(visit: Visit, edit: TaskEdit, before: Task) -> None:
    """Add the deadline's time of day, in the reader's zone, to a typed day."""
    is_typed_day = len(visit.fields.get("deadline", "")) == len("2026-11-24")
    if is_typed_day and isinstance(edit.deadline, int) and before.deadline is not None and is_day(edit.deadline):
        edit.deadline = moved_to(day_in(edit.deadline, UTC), before.deadline, reader_zone())


def undo_of(action: str, before: Task, edit_fields: dict[str, str]) -> Undo:
    fields = {"back": edit_fields.get("back", "")}
    if "priority" in edit_fields:
        fields["priority"] = before.priority or ""
    if "deadline" in edit_fields:
        fields["deadline"] = "" if before.deadline is None else to_millis_text(before.deadline)
    if "column_id" in edit_fields:
        fields |= {"column_id": before.column.id, "position": str(before.position)}
    if "people" in edit_fields:
        fields |= {"people": "1", **{PERSON + person.login: "on" for person in before.assignees}}
    return Undo(action, fields)


places = Places("list")


@places.get("/{owner}/{project}/list")
async def task_list(visit: Visit) -> Response:
    access = await visit.follow()
    query, now = query_of(visit), now_ms()
    source, sort = source_of_project(access), listing.sort_of(query)
    filters, after = listing.filters_of(query, source), cursor_of(query, listing.ORDERS[sort])
    found = await listing.list_tasks(visit.database, source, filters, sort=sort, after=after, limit=ROWS + 1)
    page, headers = lists.page(visit.call, found, query)
    rows = [row_of(task, now, may_edit=access.may_change(task.user_id)) for task in page]
    return visit.page(
        "listing/list.html",
        groups=_grouped(rows, visit.query("group"), now),
        more=paging.next_page(headers),
        colors=await find_label_colors(visit.database, access.repository.id),
        given=defaultdict(str, paging.given(visit)),
        filtered=paging.is_filtered(TasksQuery, paging.given(visit)),
        first=paging.with_query(visit, cursor=None),
        columns=await columns.list_board_columns(visit.database, access.repository.id),
        people=await logins_of(visit.database, access),
        sorts=sort_links(visit),
        back=paging.with_query(visit),
        unfiltered=paging.project_address(visit, "list"),
        csv=paging.project_address(visit, "list.csv") + paging.with_query(visit, cursor=None, group=None),
    )


@places.get("/{owner}/{project}/list.csv")
async def task_table(visit: Visit) -> Response:
    """Download all tasks that match the filters as CSV."""
    access = await visit.access()
    query = query_of(visit)
    source, sort = source_of_project(access), listing.sort_of(query)
    headers = csv_tables.headers(f"{access.repository.name.replace('.', '-')}-tasks")
    body = export.whole_table(visit.database, source, listing.filters_of(query, source), sort=sort)
    return Response(body, headers={**headers, "Cache-Control": "no-store"}, media_type=csv_tables.MEDIA_TYPE)


@places.get("/{owner}/{project}/list/{task_id}/people")
async def choose_people(visit: Visit) -> Response:
    """Choose a task's assignees, in a frame of the list or, without JavaScript, on a page."""
    access = await visit.access()
    task = await actions.get_task(
        visit.database, visit.actor, visit.path("task_id"), project_id=access.repository.project_id
    )
    assigned = [person.login for person in task.assignees]
    return visit.page(
        "listing/people.html",
        task=task,
        assigned=assigned,
        people={**Names(task.assignees).by_login, **await logins_of(visit.database, access)},
        back=visit.query("back"),
        group=visit.query("group"),
    )


@places.post("/{owner}/{project}/list/{task_id}", action="task.edit")
async def edit_row(visit: Visit) -> Response:
    access = await visit.access()
    task_id = visit.path("task_id")
    before, after = await edit_task(visit, task_id, edit_of(visit, access))
    address = paging.project_address(visit, "list")
    undo = undo_of(f"{address}/{task_id}", before, visit.fields)
    return visit.done(paging.back_to(visit, address), gettext("“%(title)s” was updated.", title=after.title), undo=undo)


# --- tasks of all projects --------------------------------------------------------------------------------------------

PATH = "/tasks"
_ALL = "all"

all_places = Places("all_tasks")


def _query_of(visit: Visit) -> AllTasksQuery:
    """Return the filters in the query, by default open tasks sorted by deadline. Raises `Invalid`."""
    given = {"finished": "false", "sort": "deadline", **paging.given(visit)}
    if given["finished"] == _ALL:
        del given["finished"]
    query = paging.query_of(AllTasksQuery, given, ROWS)
    query.timezone = str(reader_zone())
    return query


@all_places.get(PATH)
async def all_tasks(visit: Visit) -> Response:
    query, given = _query_of(visit), defaultdict(str, paging.given(visit))
    # Archived projects are hidden unless the visitor filters by one.
    source, sort = source_across_projects(visit.actor, query, archived="project_id" in given), listing.sort_of(query)
    filters, after = listing.filters_of(query, source), cursor_of(query, listing.ORDERS[sort])

    async def ask(behind: Key | None) -> Rows[Task]:
        limit = query.limit + 1
        return await listing.list_tasks(visit.database, source, filters, sort=sort, after=behind, limit=limit)

    found, options, people = await asyncio.gather(
        fill_page(ask, after, ROWS + 1), project_options(visit), _people(visit, query)
    )
    page, headers = lists.page(visit.call, found, query)
    return visit.page(
        "listing/all.html",
        rows=await _placed(visit, page),
        more=paging.next_page(headers),
        given=given,
        filtered=paging.is_filtered(AllTasksQuery, given),
        first=paging.with_query(visit, cursor=None),
        sorts=sort_links(visit, otherwise="deadline"),
        projects=options,
        people=people,
        person=ME if key_of(given["assignee"]) == key_of(visit.actor.user.login) else given["assignee"],
        is_guest=bool(options) and all(each.repository.role is None for each in options),
    )


async def _people(visit: Visit, query: AllTasksQuery) -> dict[str, str]:
    """Return the options of the assignee filter, names by login: the visitor as `me` first, then the others."""
    archived = not isinstance(query.project_id, UnsetType)
    found = await list_all_people(visit.database, visit.actor, query, archived=archived, limit=PEOPLE_MAX)
    me = visit.actor.user
    names = Names([me, *found]).by_login
    return {ME: names.pop(me.login), **names}


async def _placed(visit: Visit, listed: Sequence[Task]) -> list[tuple[TaskRow, Project, Mapping[str, str]]]:
    """Return the rows with their projects and label colors."""
    projects = await find_visible(visit.database, visit.actor, {each.project.id for each in listed})
    now = now_ms()
    return [
        (row_of(task, now, may_edit=False), project, json.decode(project.label_colors))
        for task in listed
        if (project := projects.get(task.project.id))  # access may have been lost meanwhile
    ]
