"""The timesheets of all projects in which the caller is an owner or a member; clients see no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from msgspec import UnsetType
from sqlalchemy.sql.util import ClauseAdapter

from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.schemas import tasks
from workhook.work.history.across import walks
from workhook.work.history.across.places import (
    ProjectChoice,
    choice_of,
    place_columns,
    read_place,
    username_key,
    visible_projects,
)
from workhook.work.history.across.schemas import AllTimesheetsQuery, RunningQuery
from workhook.work.history.across.walks import AcrossPage, Condition, Walk
from workhook.work.kernel.day_bounds import zone_named
from workhook.work.kernel.pages import length, per_dialect
from workhook.work.time.timesheets import export, queries
from workhook.work.time.timesheets.queries import CONDITIONS, people, timesheets_of
from workhook.work.time.timesheets.schemas import Timesheet, timesheets

_ID = ("id",)
_STARTED = ("start_time", "id")  # of what runs, in the order of its index
_INDEXED = frozenset({"user", "task_id"})
_FILTERED = ("start_time", "billable", "is_active", "finished", "invoice_id")
_of_task = sa.select(tasks.c.repository_id).where(tasks.c.id == sa.bindparam("task_id")).scalar_subquery()


def _is_of_user(row: sa.FromClause) -> Condition:
    named = sa.select(people.c.id).where(CONDITIONS["user"]).scalar_subquery()
    return row.c.user_id == named


def _narrow(names: frozenset[str], *, runs: bool, continues: bool) -> list[Callable[[sa.FromClause], Condition]]:
    found: list[Callable[[sa.FromClause], Condition]] = []
    if "user" in names:
        found.append(_is_of_user)
    if "task_id" in names:
        found.append(lambda row: row.c.task_id == sa.bindparam("task_id"))
    if runs:
        found.append(lambda row: row.c.is_active)
    if continues:
        key = _STARTED if runs else _ID
        behind = walks.behind(key)
        found.append(lambda row: behind({name: row.c[name] for name in key}))
    return found


def _fits(name: str) -> Callable[[sa.FromClause], Condition]:
    return lambda some: ClauseAdapter(some).traverse(CONDITIONS[name])


@lru_cache(maxsize=512)
def _statement(choice: ProjectChoice, names: frozenset[str], runs: bool, continues: bool) -> PerDialect:
    """`runs`: only timers that run, by when they started."""
    key, others = _STARTED if runs else _ID, sorted(names - _INDEXED)
    walk = Walk(
        timesheets,
        lambda row: {name: row.c[name] for name in key},
        narrow=_narrow(names, runs=runs, continues=continues),
        asked=_FILTERED if others else (),
        fits=[_fits(name) for name in others],
        filtered=bool(others),
    )

    def make(dialect: str) -> sa.Select[Any]:
        narrower = [projects.c.repository_id == _of_task] if "task_id" in names else []
        visible = visible_projects(choice, *narrower)
        page = walks.page_of(walks.looked_at(walk, visible, dialect), key)
        sized = walks.sized(walks.size_of(page, timesheets, length(timesheets.c.notes)), key)
        return (
            queries.anywhere.order_by(None)
            .join(sized, sized.c.id == timesheets.c.id)
            .add_columns(*place_columns, *walks.page_columns(sized, key))
            .order_by(*(sized.c[name] for name in key))
        )

    return per_dialect(make)


async def _list(
    reader: Reader,
    actor: Actor,
    query: AllTimesheetsQuery | RunningQuery,
    filters: dict[str, object],
    after: Sequence[object] | None,
) -> AcrossPage[Timesheet]:
    choice, params = choice_of(actor, query, team_only=True)
    runs = isinstance(query, RunningQuery)
    key = _STARTED if runs else _ID
    if not isinstance(query.user, UnsetType):
        filters["user"] = username_key(query.user, actor)
    params |= {**filters, "limit": query.limit + 1, "most": walks.LOOKS_AT_MOST, **walks.after_params(key, after)}

    def make(row: Row) -> Timesheet:
        read_place(row, actor)
        return timesheets_of([row], actor.user.id)[0]

    statement = _statement(choice, frozenset(filters), runs, after is not None)
    return walks.read_page(await reader.fetch_all(statement, params), key, make)


async def list_all_timesheets(
    reader: Reader, actor: Actor, query: AllTimesheetsQuery, *, after: Sequence[object] | None
) -> AcrossPage[Timesheet]:
    """By id, one more than the page shows; `after` is the key behind which to start."""
    filters = queries.filters_of(query, zone=zone_named(query.timezone))
    return await _list(reader, actor, query, filters, after)


async def list_running(
    reader: Reader, actor: Actor, query: RunningQuery, *, after: Sequence[object] | None
) -> AcrossPage[Timesheet]:
    """The timers that run, by when they started: the oldest first."""
    return await _list(reader, actor, query, {}, after)


async def table(reader: Reader, query: AllTimesheetsQuery, rows: Sequence[Timesheet], *, head: bool) -> bytes:
    """The timesheets as a table, with their days in the zone of the query."""
    zone = None if isinstance(query.timezone, UnsetType) else zone_named(query.timezone)
    return await export.table_across(reader, rows, head=head, zone=zone)


async def whole_table(
    reader: Reader, actor: Actor, query: AllTimesheetsQuery, first: AcrossPage[Timesheet]
) -> AsyncIterator[bytes]:
    """`first`, as read by `list_all_timesheets`, and all behind it as a table, in parts of a page each."""
    yield await table(reader, query, [each for each, _ in first.rows], head=True)
    behind = _end(first, query)
    while behind is not None:
        page = await list_all_timesheets(reader, actor, query, after=behind)
        yield await table(reader, query, [each for each, _ in page.rows], head=False)
        behind = _end(page, query)


def _end(page: AcrossPage[Timesheet], query: AllTimesheetsQuery) -> tuple[Any, ...] | None:
    """Behind which there may be more."""
    if page.last_seen is not None:
        return page.last_seen
    return page.rows[-1][1] if page.rows and (page.cut or len(page.rows) > query.limit) else None
