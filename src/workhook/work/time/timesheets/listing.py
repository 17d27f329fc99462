"""The list of timesheets: of a project, and across the projects in which the caller is on the team."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.util import ClauseAdapter

from workhook.http.lists import Found, Key
from workhook.identity.queries import key_of
from workhook.storage import Reader, Row
from workhook.work.board.tasks.schemas import CursorInteger, tasks
from workhook.work.kernel import lists
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import BY_USER, Condition, Filter, Listing, Order
from workhook.work.kernel.pages import length
from workhook.work.kernel.scopes import Place, Scope, Source, in_project
from workhook.work.time.timesheets.queries import (
    CONDITIONS,
    anywhere,
    filters_of,
    of_project,
    timesheet_of,
    timesheets_of,
)
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetsQuery, timesheets

_of_task = sa.select(tasks.c.repository_id).where(tasks.c.id == sa.bindparam("task_id")).scalar_subquery()


def _fits(name: str) -> Callable[[sa.FromClause], Condition]:
    return lambda row: ClauseAdapter(row).traverse(CONDITIONS[name])


def _judged(name: str, *reads: str) -> Filter:
    return Filter(_fits(name), reads)


def _whole(page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    whole = of_project if scope.project is not None else anywhere.order_by(None)
    return whole.join(page, page.c.id == timesheets.c.id)


def _make(row: Row, place: Place, source: Source) -> Timesheet:
    if place.repository is None:
        return timesheets_of([row], source.actor.user.id)[0]
    return timesheet_of(row, place.repository)


TIMESHEETS = Listing(
    timesheets,
    _whole,
    _make,
    length(timesheets.c.notes),
    {
        "user": replace(BY_USER, indexed=True),
        "task_id": Filter(_fits("task_id"), indexed=True, project=_of_task),
        "from_": _judged("from_", "start_time"),
        "to": _judged("to", "start_time"),
        "billable": _judged("billable", "billable"),
        "is_active": _judged("is_active", "is_active"),
        "finished": _judged("finished", "finished"),
        "invoiced": _judged("invoiced", "invoice_id"),
    },
)
RUNNING = replace(TIMESHEETS, lives=lambda row: row.c.is_active)
STARTED = replace(
    TIMESHEETS, filters={name: replace(TIMESHEETS.filters[name], indexed=True) for name in ("user", "from_", "to")}
)
OLDEST_FIRST = Order(lambda row: {"start_time": row.c.start_time, "id": row.c.id}, tuple[CursorInteger, str])
NEWEST_FIRST = replace(OLDEST_FIRST, falling=True)


async def list_timesheets(
    reader: Reader, source: Source, filters: Mapping[str, object], *, after: Key | None, limit: int
) -> Found[Timesheet]:
    """Those that fit the filters of `filters_in`, by id; `after` is the key behind which to start."""
    return await lists.read(reader, TIMESHEETS, source, filters, after=after, limit=limit)


def filters_in(query: TimesheetsQuery, source: Source, zone: tzinfo = UTC) -> dict[str, object]:
    """The filters that are given. `zone`: of bare days."""
    found = filters_of(query, zone=zone)
    return found if "user" not in found else {**found, "user": source.key_of(str(query.user))}


async def list_started(
    reader: Reader, access: Access, since: int, to: int, *, limit: int, user: str | None = None
) -> Found[Timesheet]:
    """The newest of the project's that started from `since` until before `to`, the newest first. `user`: a username."""
    source, filters = in_project(access), {"from_": since, "to": to, **({"user": key_of(user)} if user else {})}
    return await lists.read(reader, STARTED, source, filters, order=NEWEST_FIRST, after=None, limit=limit)


async def list_running(reader: Reader, access: Access, *, limit: int) -> Found[Timesheet]:
    """The timers of the project that run, whosever they are, the newest first."""
    return await lists.read(reader, RUNNING, in_project(access), {}, order=NEWEST_FIRST, after=None, limit=limit)
