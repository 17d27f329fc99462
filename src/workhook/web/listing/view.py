"""What the list shows: the tasks that fit the filters of its address, sorted and in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import UnsetType

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.zones import day_in
from workhook.http import lists, parameters
from workhook.web.frame import paging, zones
from workhook.web.frame.formats import day
from workhook.web.frame.names import Names
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext
from workhook.work.board.columns.schemas import CursorInteger
from workhook.work.board.tasks import assignees, listing
from workhook.work.board.tasks.deadlines import urgency
from workhook.work.board.tasks.inputs import TasksQuery
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.access import Access

ROWS = 50
SORTS = ("title", "deadline", "updated_at")
_NAMES = frozenset(each.encode_name for each in msgspec.structs.fields(TasksQuery)) - {"per_page", "timezone"}


class TaskRow(msgspec.Struct, frozen=True):
    """A task as a line of the list. `day`: of its deadline. `may_edit`: whether the reader may change it."""

    task: Task
    labels: Sequence[str]
    day: str
    is_overdue: bool
    may_edit: bool


class Group(msgspec.Struct, frozen=True):
    """Rows under a heading; the only group of a list without groups has none."""

    title: str | None
    rows: Sequence[TaskRow]


class TaskList(msgspec.Struct, frozen=True):
    groups: Sequence[Group]
    count: int
    more: str | None  # the query of the next page


def query_of(visit: Visit) -> TasksQuery:
    """The filters of the address. Raises `Invalid`."""
    found = {name: [value] for name, value in paging.given(visit).items() if name in _NAMES}
    query = parameters.gather(TasksQuery, found, {"per_page": ROWS})
    query.timezone = str(zones.reader_zone())
    return query


def is_filtered(visit: Visit) -> bool:
    return bool(set(paging.given(visit)) & (_NAMES - {"sort", "cursor"}))


def sort_of(query: TasksQuery) -> str:
    return "id" if isinstance(query.sort, UnsetType) else query.sort


async def read_list(visit: Visit, access: Access) -> TaskList:
    """The page of the list that the address asks for. Raises `Invalid`."""
    query = query_of(visit)
    sort = sort_of(query)
    after: listing.Key | None
    if sort in ("id", "title", "-title"):
        after = lists.after(query, tuple[str, str])
    else:
        after = lists.after(query, tuple[CursorInteger, str])
    found = await listing.list_tasks(
        visit.database, access, listing.params_of(query), sort=sort, after=after, limit=ROWS + 1
    )
    page, headers = lists.page(
        visit.call, found.tasks, query, lambda pair: pair[1], cut=found.cut, last_seen=found.last_seen
    )
    seen = await assignees.as_seen(visit.database, access, [task for task, _ in page])
    now = now_ms()
    rows = [task_row(access, task, now) for task in seen]
    return TaskList(_grouped(rows, visit.query("group"), now), len(rows), paging.next_page(headers))


def task_row(access: Access, task: Task, now: int) -> TaskRow:
    return row_of(task, now, may_edit=access.may_change(task.user_id))


def row_of(task: Task, now: int, *, may_edit: bool) -> TaskRow:
    """`now`: milliseconds since the epoch."""
    is_completed, zone = task.completed_at is not None, zones.reader_zone()
    is_overdue = urgency(task.deadline, is_completed=is_completed, now=now, zone=zone) == "bad"
    return TaskRow(task, json.decode(task.labels), day(task.deadline), is_overdue, may_edit)


def sort_links(visit: Visit, otherwise: str = "") -> Mapping[str, tuple[str, str]]:
    """By what can be sorted by: the query that sorts by it, or turns the order around, and the `aria-sort` of now.
    `otherwise`: the order where the address names none."""
    now = visit.query("sort") or otherwise
    links = {}
    for name in SORTS:
        turned = f"-{name}" if now == name else name
        state = "ascending" if now == name else "descending" if now == f"-{name}" else "none"
        links[name] = (paging.with_query(visit, sort=turned, cursor=None), state)
    return links


# --- groups -----------------------------------------------------------------------------------------------------------


def _grouped(rows: Sequence[TaskRow], by: str, now: int) -> list[Group]:
    """The rows by what they have in common. One with several people or labels stands in the group of each."""
    keys = _KEYS.get(by)
    if keys is None:
        return [Group(None, rows)] if rows else []
    names: dict[str, str] = {}
    if by == "person":
        names = Names(person for row in rows for person in row.task.assignees).by_login
    found: dict[str, list[TaskRow]] = {}
    for row in rows:
        for key in keys(row, now):
            found.setdefault(key, []).append(row)
    if by == "deadline":
        order = [key for key in _SPANS if key in found]
    else:
        order = sorted(found, key=lambda key: (key == "", (names.get(key) or key).casefold()))
    return [Group(_heading(by, names.get(key, key)), found[key]) for key in order]


_SPANS = ("overdue", "today", "week", "later", "none", "done")


def _span(row: TaskRow, now: int) -> Iterable[str]:
    if row.task.completed_at is not None:
        return ["done"]
    if row.task.deadline is None:
        return ["none"]
    if row.is_overdue:
        return ["overdue"]
    days = (zones.shown_day(row.task.deadline) - day_in(now, zones.reader_zone())).days
    return ["today" if days <= 0 else "week" if days <= 7 else "later"]


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
            "week": gettext("Due within seven days"),
            "later": gettext("Due later"),
            "none": gettext("Without a deadline"),
            "done": gettext("Finished"),
        }[key]
    if key:
        return key
    return gettext("Nobody") if by == "person" else gettext("Without a label")
