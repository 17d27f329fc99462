"""The SQL of reports on timesheets: sums over everything that the caller sees as an owner or a member."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS
from workhook.identity.queries import by_membership_in, key_of
from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.reach import reach_params, within_reach
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.clients.tables import clients
from workhook.work.people import NOBODY_ELSE, person_columns, person_of_row
from workhook.work.tasks.tables import tasks
from workhook.work.timesheets.queries import CONDITIONS, people
from workhook.work.timesheets.report_schemas import Group, GroupBy, ReportFilters, Spent
from workhook.work.timesheets.schemas import TimesheetProjectShape, TimesheetTaskShape, given
from workhook.work.timesheets.tables import timesheets

QUARTER_MS = 15 * MINUTE_MS
"""The days of every time zone of today begin at a quarter of an hour in UTC."""

_user_id = big("user_id")
# The projects first: each part is found by an index, and only what lies in them is looked at.
_place = projects.alias("place")  # by itself: reports name projects, too
_there = sa.select(_place.c.repository_id).where(_place.c.deleted_at.is_(None))
_visible = sa.union(
    _there.where(_place.c.account_id == _user_id),
    _there.join(memberships, memberships.c.organization_id == _place.c.account_id).where(
        memberships.c.user_id == _user_id,
        by_membership_in(_place),
    ),
    _there.join(collaborators, collaborators.c.repository_id == _place.c.repository_id).where(
        collaborators.c.user_id == _user_id
    ),
)
_reached = within_reach(projects.c.account_id, projects.c.repository_id)
_places = sa.select(
    sa.exists(_visible).label("inside"), sa.exists().where(clients.c.user_id == _user_id).label("outside")
)

_now, _since, _rate = big("now"), timesheets.c.running_since, timesheets.c.billable_rate_minor
# `rules.elapsed_ms` and `rules.amount_minor`; the hours are split off so that the product stays within 64 bits.
_elapsed = timesheets.c.duration_ms + sa.case((sa.and_(timesheets.c.is_active, _since < _now), _now - _since), else_=0)
_amount = (_elapsed // HOUR_MS) * _rate + ((_elapsed % HOUR_MS) * _rate + HOUR_MS // 2) // HOUR_MS
_SUMS = (
    sa.func.count().label("timesheets"),
    sa.func.sum(_elapsed).label("duration_ms"),
    sa.func.sum(sa.case((timesheets.c.billable, _elapsed), else_=0)).label("billable_ms"),
    sa.func.sum(sa.case((sa.and_(timesheets.c.billable, _rate.is_not(None)), _amount), else_=0)).label("amount_minor"),
)
_PROJECT = (projects.c.id.label("project_id"), projects.c.title.label("project_title"))

_CONDITIONS = {
    **{name: CONDITIONS[name] for name in ("user", "since", "to", "billable", "invoiced")},
    "project_id": projects.c.id == sa.bindparam("project_id"),
}


Columns = Sequence[sa.ColumnElement[Any]]


def _grouping(group_by: GroupBy, unit_ms: int) -> tuple[Columns, Columns, Columns]:
    """What is shown of a group, what makes it one, and the order."""
    project = projects.c.repository_id
    match group_by:
        case "user":
            return person_columns(NOBODY_ELSE, people), (people.c.id,), (people.c.login_key,)
        case "task":
            task = (tasks.c.id.label("task_id"), tasks.c.title.label("task_title"))
            return (*task, *_PROJECT), (tasks.c.id, project), (projects.c.id, sa.func.coalesce(tasks.c.id, ""))
        case "project":
            return _PROJECT, (project,), (projects.c.id,)
        case "day":
            first: Columns = (sa.literal_column("1"),)  # the same parameter twice would be two to PostgreSQL
            return ((timesheets.c.start_time // unit_ms).label("bucket"),), first, first


@lru_cache(maxsize=256)  # few of the combinations are asked for
def _sums(group_by: GroupBy, unit_ms: int, names: frozenset[str]) -> sa.Select[Any]:
    """`unit_ms`: what a day is put together of."""
    columns, groups, order = _grouping(group_by, unit_ms)
    return (
        sa.select(*columns, *_SUMS)
        .join_from(timesheets, projects, projects.c.repository_id == timesheets.c.repository_id)
        .join(people, people.c.id == timesheets.c.user_id)
        .outerjoin(tasks, tasks.c.id == timesheets.c.task_id)
        .where(timesheets.c.repository_id.in_(_visible), _reached, *(_CONDITIONS[name] for name in sorted(names)))
        .group_by(*groups)
        .order_by(*order)
        .limit(big("limit"))
    )


async def is_outside(reader: Reader, user_id: int) -> bool:
    """Whether the user is a client, and nothing more anywhere."""
    row = await reader.fetch_one(_places, {"user_id": user_id})
    return row is not None and bool(row["outside"]) and not row["inside"]


async def sum_up(reader: Reader, actor: Actor, query: ReportFilters, *, now: int, limit: int) -> Sequence[Group]:
    """One group for each user (by login), task, project (by id) or day; `limit` of them at most.

    Raises `storage.slow.TooSlow`.
    """
    group_by: GroupBy = given(query.group_by) or "user"
    filters = _filters_of(query)
    zone = query.zone
    unit_ms = DAY_MS if zone is UTC else QUARTER_MS
    most = limit * (DAY_MS // unit_ms) if group_by == "day" else limit
    params = {**filters, **reach_params(actor), "user_id": actor.user.id, "now": now, "limit": most}
    rows = await reader.fetch_slow(_sums(group_by, unit_ms, frozenset(filters)), params)
    if group_by == "day":
        return _days(rows, unit_ms, zone)[:limit]
    return [_group_of(row, group_by) for row in rows]


def _filters_of(query: ReportFilters) -> dict[str, object]:
    user = given(query.user)
    found = {
        "user": None if user is None else key_of(user),
        "since": query.since_ms,
        "to": query.to_ms,
        "billable": given(query.billable),
        "invoiced": given(query.invoiced),
        "project_id": given(query.project_id),
    }
    return {name: value for name, value in found.items() if value is not None}


def _spent_of(row: Row) -> Spent:
    """PostgreSQL adds up to `numeric`."""
    return Spent(*(int(row[name]) for name in Spent.__struct_fields__))


def _group_of(row: Row, group_by: GroupBy) -> Group:
    if group_by == "user":
        return Group(_spent_of(row), user=person_of_row(row))
    project = TimesheetProjectShape(row["project_id"], row["project_title"])
    if group_by == "project":
        return Group(_spent_of(row), project=project)
    task = TimesheetTaskShape(row["task_id"], row["task_title"]) if row["task_id"] else None  # gone for good
    return Group(_spent_of(row), task=task, project=project)


def _days(rows: Sequence[Row], unit_ms: int, zone: tzinfo) -> list[Group]:
    """A timesheet belongs to the day, in the zone, on which it started. The rows come in the order of time."""
    days: dict[date, Spent] = {}
    for row in rows:
        day = datetime.fromtimestamp(row["bucket"] * unit_ms // 1000, zone).date()
        days[day] = days.get(day, Spent()).plus(_spent_of(row))
    return [Group(spent, day=day) for day, spent in days.items()]
