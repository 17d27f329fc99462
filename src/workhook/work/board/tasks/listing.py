"""List tasks, of one project or across projects. Each sort order has an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET, UnsetType

from workhook.core import json
from workhook.core.clock import DAY_MS
from workhook.http.lists import Key, ListQuery, Rows
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row
from workhook.storage.dialects import json_has
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.assignees import is_on_team, without_terms
from workhook.work.board.tasks.inputs import TaskFilters, TasksQuery
from workhook.work.board.tasks.matching import FOUND_NUMBER, matches, matches_in_range, number_of, words_of
from workhook.work.board.tasks.schemas import (
    EARLIER_THAN_ALL,
    LATER_THAN_ALL,
    CursorInteger,
    Task,
    TaskColumnShape,
    TaskProjectShape,
    every_column,
    open_blocker,
    people,
    people_assigned,
    task_assignees,
    task_at,
    task_buckets,
    tasks,
    weight,
    with_column,
)
from workhook.work.board.tasks.search_indexes import SEARCHED
from workhook.work.kernel import lists
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import deadline_params, zone_named
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import Condition, Filter, FirstRows, Listing, Order, Words
from workhook.work.kernel.scopes import CALLER, ProjectRef, Scope, Source

# --- filters ----------------------------------------------------------------------------------------------------------


def _is_day(row: sa.FromClause) -> Condition:
    """Return whether the deadline is a day; null for a task without one, which then matches no bound."""
    return row.c.deadline % sa.literal_column(str(DAY_MS), sa.BigInteger) == sa.literal_column("0")


def _is_assigned(row: sa.FromClause) -> Condition:
    """Return the condition that the task is assigned to the user `assignee`.

    Each candidate is looked up by key, because EXISTS may become a join with all tasks of that person. A client finds
    nothing by the name of a person it cannot see.
    """
    named = accounts.c.login_key == sa.bindparam("assignee")
    person = sa.select(accounts.c.id).where(named).scalar_subquery()
    assigned = sa.select(task_assignees.c.user_id).where(
        task_assignees.c.task_id == row.c.id, task_assignees.c.user_id == person
    )
    seen = (
        sa.select(accounts.c.id)
        .join_from(accounts, projects, projects.c.repository_id == row.c.repository_id)
        .where(named, sa.or_(accounts.c.id == CALLER, is_on_team(accounts)))
    )
    is_seen = sa.case((row.c.insider == 1, sa.true()), else_=seen.correlate(row).scalar_subquery().is_not(None))
    return sa.and_(assigned.scalar_subquery().is_not(None), is_seen)


_parent = tasks.alias("parent")
_of_parent = sa.select(_parent.c.repository_id).where(_parent.c.id == sa.bindparam("parent_id")).scalar_subquery()

# A deadline is a day or a moment; each bound has one condition for either kind.
FILTERS: Mapping[str, Filter] = {
    "priority": Filter(lambda row: row.c.priority == sa.bindparam("priority"), ["priority"]),
    "assignee": Filter(_is_assigned, value=lambda name, source: source.key_of(name)),
    "label": Filter(lambda row: json_has(row.c.labels, "label"), ["labels"]),
    "deadline_before_day": Filter(
        lambda row: sa.or_(~_is_day(row), row.c.deadline < bigint_param("deadline_before_day")), ["deadline"]
    ),
    "deadline_before_moment": Filter(
        lambda row: sa.or_(_is_day(row), row.c.deadline < bigint_param("deadline_before_moment")), ["deadline"]
    ),
    "deadline_after_day": Filter(
        lambda row: sa.or_(~_is_day(row), row.c.deadline > bigint_param("deadline_after_day")), ["deadline"]
    ),
    "deadline_after_moment": Filter(
        lambda row: sa.or_(_is_day(row), row.c.deadline > bigint_param("deadline_after_moment")), ["deadline"]
    ),
    "finished": Filter(
        lambda row: row.c.completed_at.is_not(None) == sa.bindparam("finished", type_=sa.Boolean()), ["completed_at"]
    ),
    # The bucket determines the column (`schemas.task_buckets`); tasks in the trash have no bucket.
    "column_id": Filter(
        lambda row: sa.and_(
            row.c.bucket_id == task_buckets.c.id, task_buckets.c.column_id == sa.bindparam("column_id")
        ),
        alone=True,
    ),
    "parent_id": Filter(lambda row: row.c.parent_id == sa.bindparam("parent_id"), few=True, project=_of_parent),
    "blocked": Filter(
        lambda row: open_blocker(row).is_not(None) == sa.bindparam("blocked", type_=sa.Boolean()),
    ),
}

_NAMES = {*TaskFilters.__struct_fields__} - {*ListQuery.__struct_fields__, "timezone"}


def is_filtered(query: TaskFilters) -> bool:
    return any(getattr(query, name) is not UNSET for name in _NAMES)


def filters_of(query: TaskFilters, source: Source) -> dict[str, object]:
    found = TASKS.to_filters(query, source)
    found |= deadline_params(before=query.deadline_before, after=query.deadline_after, zone=zone_named(query.timezone))
    if not isinstance(query.q, UnsetType):
        found["q"] = words_of(query.q)
    return found


# --- full-text search -------------------------------------------------------------------------------------------------

SEARCH_LIMITS = FirstRows(sqlite_rows=1_000, postgresql_rows=200, characters=30_000)


def _word_columns(row: sa.FromClause, dialect: str) -> list[sa.ColumnElement[Any]]:
    if dialect == "sqlite":
        return [number_of(row.c.id).label(FOUND_NUMBER)]
    return [row.c[name] for name in SEARCHED["tasks"].columns]


WORDS = Words(
    matches(tasks),
    _word_columns,
    lambda rows, dialect: matches_in_range(rows, tasks) if dialect == "sqlite" else matches(tasks, rows),
    lambda row: length(*(row.c[name] for name in SEARCHED["tasks"].words)),
)


# --- sort orders ------------------------------------------------------------------------------------------------------


def _order(name: str, *, falling: bool) -> Order:
    def key(row: sa.FromClause) -> Mapping[str, sa.ColumnElement[Any]]:
        column: sa.ColumnElement[Any] = row.c[name]
        if name == "deadline":  # tasks without one come last in either direction
            last = EARLIER_THAN_ALL if falling else LATER_THAN_ALL
            column = sa.func.coalesce(column, sa.literal_column(str(last), sa.BigInteger))
        return {"sort_key": column, "id": row.c.id}

    return Order(key, tuple[str, str] if name == "title" else tuple[CursorInteger, str], falling)


BY_POSITION = "place"
"""The order within a column, which is given as a filter."""

ORDERS: Mapping[str, Order] = {
    "id": lists.BY_ID,
    BY_POSITION: Order(
        lambda row: {"bucket_rank": task_buckets.c.rank, "rank": row.c.rank, "id": row.c.id},
        tuple[CursorInteger, CursorInteger, str],
    ),
    **{
        f"{sign}{name}": _order(name, falling=bool(sign))
        for name in ("created_at", "updated_at", "deadline", "title")
        for sign in ("", "-")
    },
}


def sort_of(query: TasksQuery) -> str:
    return "id" if isinstance(query.sort, UnsetType) else query.sort


# --- the list ---------------------------------------------------------------------------------------------------------


def _select_full_rows(page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    found = with_column.join(page, page.c.id == tasks.c.id)
    if scope.project == 1:
        return sa.select(*every_column).select_from(found)
    # On a task, a client sees only the team and itself.
    seen = people_assigned.where(sa.or_(page.c.insider == 1, people.c.id == CALLER, is_on_team(people)))
    shown = seen.correlate(tasks, page, projects).scalar_subquery().label("task_assignees")
    columns = [shown if each.name == "task_assignees" else each for each in every_column]
    return sa.select(*columns).select_from(found.join(projects, projects.c.repository_id == page.c.repository_id))


def _make(row: Row, place: ProjectRef, source: Source) -> Task:
    project = TaskProjectShape.of(place.id, place.title, place.currency)
    task = task_at(row, project, TaskColumnShape(row["column_id"], row["column_title"]), row["task_position"])
    return task if row["page_insider"] else without_terms(task)


TASKS = Listing(
    tasks,
    _select_full_rows,
    _make,
    weight,
    FILTERS,
    WORDS,
    index_condition=lambda row: row.c.deleted_at.is_(None),
)


async def list_tasks(
    reader: Reader, source: Source, filters: Mapping[str, object], *, sort: str = "id", after: Key | None, limit: int
) -> Rows[Task]:
    """List the tasks that match all filters of `filters_of`, after the key `after`, as the caller may see them."""

    async def page(first: FirstRows | None) -> Rows[Task]:
        order = ORDERS[sort]
        return await lists.read(reader, TASKS, source, filters, order=order, after=after, limit=limit, first=first)

    if "q" in filters and source.place is not None:
        found = await page(SEARCH_LIMITS)
        if found.truncated or found.next_key is None or len(found) == limit:
            return found
    return await page(None)


# --- the labels offered when editing a task ---------------------------------------------------------------------------

LABELS_MAX = 200
RECENT_TASKS_MAX = 2000  # number of most recently changed tasks to scan

_last = (
    sa.select(tasks.c.labels)
    .where(tasks.c.repository_id == bigint_param("repository_id"), tasks.c.deleted_at.is_(None))
    .order_by(tasks.c.updated_at.desc(), tasks.c.id.desc())
    .limit(RECENT_TASKS_MAX)
    .subquery("last")
)
_labels = sa.select(_last.c.labels, sa.func.count().label("tasks")).group_by(_last.c.labels)


class Labels(list[str]):
    """Labels in alphabetical order. `is_complete` is true if the tasks have no others."""

    is_complete = True


async def list_labels(reader: Reader, access: Access) -> Labels:
    """Return the most frequent labels of the `RECENT_TASKS_MAX` most recently changed tasks, at most `LABELS_MAX`."""
    rows = await reader.fetch_all(_labels, {"repository_id": access.repository.id})
    number: Counter[str] = Counter()
    for row in rows:
        for label in json.decode(row["labels"]):
            number[label] += row["tasks"]
    found = Labels(sorted((label for label, _ in number.most_common(LABELS_MAX)), key=str.casefold))
    found.is_complete = len(number) <= LABELS_MAX and sum(row["tasks"] for row in rows) < RECENT_TASKS_MAX
    return found
