"""The SQL of reports on timesheets: sums over everything that the caller sees as an owner or a member."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.identity.queries import by_membership_in, key_of
from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params, within_reach
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.clients.tables import clients
from workhook.work.people import NOBODY_ELSE, person_columns, person_of_row
from workhook.work.schemas import if_set
from workhook.work.tasks.tables import tasks
from workhook.work.timesheets.queries import people
from workhook.work.timesheets.report_parts import ALWAYS, SUMS, cover, parts
from workhook.work.timesheets.report_schemas import Group, GroupBy, ReportQuery, Spent
from workhook.work.timesheets.schemas import TimesheetProjectShape, TimesheetTaskShape
from workhook.work.timesheets.sum_tables import UNITS, Grain

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
_seen = projects.alias("seen")
_there_at_all = sa.select(_seen.c.repository_id).where(
    _seen.c.repository_id.in_(_visible), within_reach(_seen.c.account_id, _seen.c.repository_id)
)
# One project, without looking for all the others that the caller sees.
_this = sa.select(_seen.c.repository_id).where(
    _seen.c.id == sa.bindparam("project_id"),
    _seen.c.deleted_at.is_(None),
    sa.or_(
        _seen.c.account_id == _user_id,
        sa.exists().where(
            memberships.c.organization_id == _seen.c.account_id,
            memberships.c.user_id == _user_id,
            by_membership_in(_seen),
        ),
        sa.exists().where(collaborators.c.repository_id == _seen.c.repository_id, collaborators.c.user_id == _user_id),
    ),
    within_reach(_seen.c.account_id, _seen.c.repository_id),
)
_places = sa.select(
    sa.exists(_visible).label("inside"), sa.exists().where(clients.c.user_id == _user_id).label("outside")
)
_PROJECT = (projects.c.id.label("project_id"), projects.c.title.label("project_title"))

_KEYS: dict[GroupBy, tuple[str, ...]] = {
    "user": ("user_id",),
    "task": ("task_id", "repository_id"),
    "project": ("repository_id",),
    "day": ("bucket",),
}


@lru_cache(maxsize=256)  # few of the combinations are asked for
def _sums(group_by: GroupBy, grains: tuple[Grain, ...], unit_ms: int, names: frozenset[str]) -> sa.Select[Any]:
    """`unit_ms`: what a day is put together of."""
    there = _this if "project_id" in names else _there_at_all
    places = sa.select(there.cte("there").c.repository_id)
    keys = _KEYS[group_by]
    found = parts(grains, keys, unit_ms, places, names - {"project_id"}).subquery("found")
    by = [found.c[each] for each in keys]
    # What was taken off again leaves a group of nothing.
    summed = (
        sa.select(*by, *(sa.func.sum(found.c[each]).label(each) for each in SUMS))
        .group_by(*by)
        .having(sa.func.sum(found.c.timesheets) > 0)
        .subquery("summed")
    )
    return _named(group_by, summed).limit(big("limit"))


def _named(group_by: GroupBy, summed: sa.Subquery) -> sa.Select[Any]:
    """With what is shown of a group, in the order of the report."""
    counted = [summed.c[each] for each in SUMS]
    match group_by:
        case "user":
            shown = sa.select(*person_columns(NOBODY_ELSE, people), *counted)
            return shown.join_from(summed, people, people.c.id == summed.c.user_id).order_by(people.c.login_key)
        case "task":
            shown = sa.select(tasks.c.id.label("task_id"), tasks.c.title.label("task_title"), *_PROJECT, *counted)
            joined = shown.join_from(summed, projects, projects.c.repository_id == summed.c.repository_id)
            return joined.outerjoin(tasks, tasks.c.id == summed.c.task_id).order_by(
                projects.c.id, sa.func.coalesce(tasks.c.id, "")
            )
        case "project":
            shown = sa.select(*_PROJECT, *counted)
            joined = shown.join_from(summed, projects, projects.c.repository_id == summed.c.repository_id)
            return joined.order_by(projects.c.id)
        case "day":
            return sa.select(summed.c.bucket, *counted).order_by(summed.c.bucket)


def _grains(group_by: GroupBy, *, utc: bool, of_user: bool) -> tuple[Grain, ...]:
    """The sums that a report can be read from, the longest periods first."""
    match group_by:
        case "user" | "project":
            return (Grain.USER_BLOCKS, Grain.USER_DAYS)
        case "task":
            return (Grain.TASK_BLOCKS,)
        case "day" if utc:
            return (Grain.USER_DAYS if of_user else Grain.DAYS,)
        case "day":
            # One person's time is not so much that it would need sums for every time zone.
            return () if of_user else (Grain.QUARTERS,)


async def is_outside(reader: Reader, user_id: int) -> bool:
    """Whether the user is a client, and nothing more anywhere."""
    row = await reader.fetch_one(_places, {"user_id": user_id})
    return row is not None and bool(row["outside"]) and not row["inside"]


async def sum_up(reader: Reader, actor: Actor, query: ReportQuery, *, now: int, limit: int) -> Sequence[Group]:
    """One group for each user (by login), task, project (by id) or day; `limit` of them at most.

    Raises `storage.slow.QueryTooSlow`.
    """
    group_by: GroupBy = if_set(query.group_by) or "user"
    filters = _filters_of(query)
    zone = query.zone
    unit_ms = DAY_MS if zone is UTC else UNITS[Grain.QUARTERS]
    grains = _grains(group_by, utc=zone is UTC, of_user="user" in filters)
    since, to = (ALWAYS[0] if query.since_ms is None else query.since_ms), query.to_ms
    params = {
        **filters,
        **cover(since, ALWAYS[1] if to is None else to, grains),
        **reach_params(actor),
        "user_id": actor.user.id,
        "now": now,
        "limit": limit * (DAY_MS // unit_ms) if group_by == "day" else limit,
    }
    rows = await reader.fetch_slow(_sums(group_by, grains, unit_ms, frozenset(filters)), params)
    if group_by == "day":
        return _days(rows, unit_ms, zone)[:limit]
    return [_group_of(row, group_by) for row in rows]


def _filters_of(query: ReportQuery) -> dict[str, object]:
    user = if_set(query.user)
    found = {
        "user": None if user is None else key_of(user),
        "billable": if_set(query.billable),
        "invoiced": if_set(query.invoiced),
        "project_id": if_set(query.project_id),
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
