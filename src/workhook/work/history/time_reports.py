"""`/reports/timesheets`: recorded time and its cost in each currency, grouped by user, task, project or day.

A report covers every project where the caller is an owner or a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, reduce
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Invalid, NotFound
from workhook.core.money import DEFAULT_CURRENCY
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.queries import by_membership_in, key_of
from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params, within_reach
from workhook.storage import Reader, Row
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.schemas import tasks
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import find_access, is_insider
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.people import ADDRESS_HIDDEN, person_columns, person_of_row
from workhook.work.kernel.schemas import if_set
from workhook.work.kernel.tables import clients
from workhook.work.time.timesheets import reports
from workhook.work.time.timesheets.queries import people
from workhook.work.time.timesheets.reports import (
    GroupBy,
    ReportAnswer,
    ReportGroup,
    ReportQuery,
    Spent,
    row_to_response,
    totals_to_response,
)
from workhook.work.time.timesheets.schemas import TimesheetProjectShape, TimesheetTaskShape
from workhook.work.time.timesheets.sums import ALWAYS, SUMS, UNITS, Granularity, cover, report_parts

_user_id = bigint_param("user_id")
# Start from the projects, so that each part is found by an index and only rows in visible projects are read.
_project = projects.alias("visible_project")  # reports also join `projects`
_project_ids = sa.select(_project.c.repository_id).where(_project.c.deleted_at.is_(None))
_visible = sa.union(
    _project_ids.where(_project.c.account_id == _user_id),
    _project_ids.join(memberships, memberships.c.organization_id == _project.c.account_id).where(
        memberships.c.user_id == _user_id,
        by_membership_in(_project),
    ),
    _project_ids.join(collaborators, collaborators.c.repository_id == _project.c.repository_id).where(
        collaborators.c.user_id == _user_id
    ),
)
_seen = projects.alias("seen")
_every_visible = sa.select(_seen.c.repository_id).where(
    _seen.c.repository_id.in_(_visible), within_reach(_seen.c.account_id, _seen.c.repository_id)
)
# A single project, without collecting every other project the caller sees.
_one_visible = sa.select(projects.c.repository_id).where(
    projects.c.id == sa.bindparam("project_id"),
    projects.c.deleted_at.is_(None),
    is_insider(_user_id),
    within_reach(projects.c.account_id, projects.c.repository_id),
)
_roles = sa.select(
    sa.exists(_visible).label("inside"), sa.exists().where(clients.c.user_id == _user_id).label("outside")
)
_PROJECT_COLUMNS = (projects.c.id.label("project_id"), projects.c.title.label("project_title"))

_priced = projects.alias("priced")
_currency = sa.func.coalesce(_priced.c.currency, sa.literal_column(f"'{DEFAULT_CURRENCY}'", sa.Text))

_FILTERS = ("user", "billable", "invoiced", "project_id")
_GROUP_KEYS: dict[GroupBy, tuple[str, ...]] = {
    "user": ("user_id",),
    "task": ("task_id", "repository_id"),
    "project": ("repository_id",),
    "day": ("bucket",),
}


@lru_cache(maxsize=256)  # few of the combinations are requested
def _sums(
    group_by: GroupBy, grains: tuple[Granularity, ...], unit_ms: int, names: frozenset[str], *, by_day: bool
) -> sa.Select[Any]:
    """Build the report. Days are assembled from sums over `unit_ms`."""
    visible = _one_visible if "project_id" in names else _every_visible
    places = sa.select(visible.cte("there").c.repository_id)
    group_keys = (*_GROUP_KEYS[group_by], "bucket") if by_day else _GROUP_KEYS[group_by]
    keys = tuple(dict.fromkeys((*group_keys, "repository_id")))
    found = report_parts(grains, keys, unit_ms, places, names - {"project_id"}).subquery("found")
    # Moved or deleted time leaves an empty group.
    of_projects = _added_up(found, keys).having(sa.func.sum(found.c.timesheets) > 0).cte("of_projects")
    with_currency = (
        sa.select(of_projects, _currency.label("currency"))
        .join_from(of_projects, _priced, _priced.c.repository_id == of_projects.c.repository_id)
        .subquery("with_currency")
    )
    summed = _added_up(with_currency, (*group_keys, "currency")).subquery("summed")
    return _with_names(group_by, summed).limit(bigint_param("limit"))


def _added_up(parts: sa.Subquery, keys: Sequence[str]) -> sa.Select[Any]:
    by = [parts.c[each] for each in keys]
    return sa.select(*by, *(sa.func.sum(parts.c[each]).label(each) for each in SUMS)).group_by(*by)


def _with_names(group_by: GroupBy, summed: sa.Subquery) -> sa.Select[Any]:
    """Join the names that a report shows for each group, and order the groups."""
    counted = [*(summed.c[each] for each in SUMS), summed.c.currency]
    if "bucket" in summed.c:
        counted.append(summed.c.bucket)
    if group_by == "day":
        return sa.select(*counted).order_by(summed.c.bucket)
    if group_by == "user":
        named = sa.select(*person_columns(ADDRESS_HIDDEN, people), *counted)
        return named.join_from(summed, people, people.c.id == summed.c.user_id).order_by(people.c.login_key)
    named = sa.select(*_PROJECT_COLUMNS, *counted).order_by(projects.c.id)
    named = named.join_from(summed, projects, projects.c.repository_id == summed.c.repository_id)
    if group_by == "project":
        return named
    columns = [tasks.c.id.label("task_id"), tasks.c.title.label("task_title")]
    with_tasks = named.add_columns(*columns).outerjoin(tasks, tasks.c.id == summed.c.task_id)
    return with_tasks.order_by(sa.func.coalesce(tasks.c.id, ""))


def _grains(group_by: GroupBy, *, utc: bool, of_user: bool) -> tuple[Granularity, ...]:
    """Return the sums to read the report from, longest periods first."""
    match group_by:
        case "user" | "project":
            return (Granularity.USER_BLOCKS, Granularity.USER_DAYS)
        case "task":
            return (Granularity.TASK_BLOCKS,)
        case "day" if utc:
            return (Granularity.USER_DAYS if of_user else Granularity.DAYS,)
        case "day":
            # A single user's time is read directly, without sums for every time zone.
            return () if of_user else (Granularity.QUARTERS,)


async def sum_timesheets(
    reader: Reader,
    actor: Actor,
    query: ReportQuery,
    *,
    now: int,
    limit: int,
    unbilled: bool = False,
    by_day: bool = False,
) -> Sequence[ReportGroup]:
    """Return one group for each user (by login), task, project (by ID) or day.

    `unbilled` selects the time that can be put on an invoice, as `timesheets.queries.list_to_invoice` does. `by_day`
    divides each user, task or project by day; use it for a short span, because no stored sums fit.

    Raises `Invalid` if there are more than `limit` groups or rows, and `storage.slow.QueryTooSlow`.
    """
    group_by: GroupBy = if_set(query.group_by) or "user"
    values = {name: if_set(getattr(query, name)) for name in _FILTERS}
    filters = {name: value for name, value in values.items() if value is not None}
    if "user" in filters:
        filters["user"] = key_of(filters["user"])
    zone = query.zone
    unit_ms = DAY_MS if zone is UTC else UNITS[Granularity.QUARTERS]
    grains = () if by_day else _grains(group_by, utc=zone is UTC, of_user="user" in filters)
    since, to = (ALWAYS[0] if query.since_ms is None else query.since_ms), query.to_ms
    params = {
        **filters,
        **cover(since, ALWAYS[1] if to is None else to, grains),
        **reach_params(actor),
        "user_id": actor.user.id,
        "now": now,
        "limit": (most := limit * (DAY_MS // unit_ms) if by_day or group_by == "day" else limit) + 1,
    }
    names = frozenset({*filters, *(["unbilled"] if unbilled else [])})
    rows = await reader.fetch_slow(_sums(group_by, grains, unit_ms, names, by_day=by_day), params)
    in_days = by_day or group_by == "day"
    groups = _days(rows, group_by, unit_ms, zone) if in_days else _folded(rows, group_by)
    if len(rows) > most or len(groups) > limit:
        message = f"the report has more than {limit} rows; narrow it down with from, to, user, or project_id"
        raise Invalid.at("group_by", message)
    return groups


def _spent_of(row: Row) -> Spent:
    """Convert a row. PostgreSQL returns sums as `numeric`."""
    amounts = ((row["currency"], int(row["amount_minor"])),)
    return Spent(int(row["timesheets"]), int(row["duration_ms"]), int(row["billable_ms"]), amounts)


def _folded(rows: Sequence[Row], group_by: GroupBy) -> list[ReportGroup]:
    """Merge consecutive rows of the same user, one for each currency."""
    groups: list[ReportGroup] = []
    for row in rows:
        group = _group_of(row, group_by)
        if groups and group.user is not None and group.user == groups[-1].user:
            groups[-1] = msgspec.structs.replace(group, spent=groups[-1].spent.plus(group.spent))
        else:
            groups.append(group)
    return groups


def _group_of(row: Row, group_by: GroupBy) -> ReportGroup:
    if group_by == "day":
        return ReportGroup(_spent_of(row))
    if group_by == "user":
        return ReportGroup(_spent_of(row), user=person_of_row(row))
    project = TimesheetProjectShape(row["project_id"], row["project_title"])
    if group_by == "project":
        return ReportGroup(_spent_of(row), project=project)
    task = TimesheetTaskShape(row["task_id"], row["task_title"]) if row["task_id"] else None  # deleted permanently
    return ReportGroup(_spent_of(row), task=task, project=project)


def _days(rows: Sequence[Row], group_by: GroupBy, unit_ms: int, zone: tzinfo) -> list[ReportGroup]:
    """Add up the rows of each group by the day in `zone` on which a timesheet started."""
    days: dict[object, ReportGroup] = {}
    for row in rows:
        day = datetime.fromtimestamp(row["bucket"] * unit_ms // 1000, zone).date()
        group = _group_of(row, group_by)
        key = day, group.user and group.user.id, group.project and group.project.id, group.task and group.task.id
        spent = days[key].spent if key in days else Spent()
        days[key] = msgspec.structs.replace(group, spent=spent.plus(group.spent), day=day)
    return list(days.values())


ROWS_MAX = 10_000

routes = Routes(WORK_API, "Timesheets")


@routes.get(
    "/reports/timesheets", answers={200: ReportAnswer}, problems=(404,), other_media_types=(csv_tables.MEDIA_TYPE,)
)
async def report_timesheets(call: Call, query: ReportQuery) -> Response:
    """Sum up timesheets by user, task, project or day.

    Covers every project where the caller is an owner or a member. A timesheet counts toward the day on which it
    started. With `Accept: text/csv`, the response is a table.
    """
    actor, project_id = actor_of(call), if_set(query.project_id)
    if project_id is not None:
        access = await find_access(call.database, actor, project_id)
        access.require_not_client()
        if isinstance(query.timezone, UnsetType):
            zone = await find_zone(call.database, access.repository.id)
            query = msgspec.structs.replace(query, timezone=str(zone))
    groups = await sum_timesheets(call.database, actor, query, now=now_ms(), limit=ROWS_MAX)
    if not groups and project_id is None:
        roles = await call.database.fetch_row(_roles, {"user_id": actor.user.id})
        if roles["outside"] and not roles["inside"]:  # a client everywhere and a member of no project
            raise NotFound()
    if csv_tables.wants_csv(call.header("accept")):
        group_by: GroupBy = if_set(query.group_by) or "user"
        body = await reports.table(groups, group_by)
        return Response(body, headers=csv_tables.headers(f"timesheets-by-{group_by}"), media_type=csv_tables.MEDIA_TYPE)
    total = reduce(Spent.plus, (each.spent for each in groups), Spent())
    return Response(
        ReportAnswer([row_to_response(each) for each in groups], totals_to_response(total)), headers=csv_tables.VARY
    )
