"""`/reports/timesheets`: what was spent, by user, task, project or day."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce

from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid, NotFound
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.work.schemas import if_set
from workhook.work.timesheets import export, report_queries, rules
from workhook.work.timesheets.actions import see_timesheets
from workhook.work.timesheets.export import Cell
from workhook.work.timesheets.report_schemas import (
    Group,
    GroupBy,
    ReportAnswer,
    ReportQuery,
    Spent,
    row_shape,
    totals_shape,
)

ROWS_MAX = 10_000

_KEYS: dict[GroupBy, tuple[str, ...]] = {
    "user": ("user",),
    "task": ("project_id", "project", "task_id", "task"),
    "project": ("project_id", "project"),
    "day": ("day",),
}
_SUMS = ("timesheets", "duration_ms", "hours", "billable_duration_ms", "billable_hours", "amount")


async def make_report(reader: Reader, actor: Actor, query: ReportQuery) -> Sequence[Group]:
    """Raises `NotFound` for a project that is not seen, and for who is nothing but a client; `Invalid` for too much."""
    project_id = if_set(query.project_id)
    if project_id is not None:
        await see_timesheets(reader, actor, project_id)
    groups = await report_queries.sum_up(reader, actor, query, now=now_ms(), limit=ROWS_MAX + 1)
    if not groups and project_id is None and await report_queries.is_outside(reader, actor.user.id):
        raise NotFound()
    if len(groups) > ROWS_MAX:
        message = f"the report has more than {ROWS_MAX} rows; narrow it down with from, to, user or project_id"
        raise Invalid(faults=[Fault(field="group_by", message=message)])
    return groups


routes = Routes(WORK_API, "Timesheets", read="work.read", write="work.write")


@routes.get("/reports/timesheets", answers={200: ReportAnswer}, problems=(404,), other_media_types=(export.MEDIA_TYPE,))
async def report_timesheets(call: Call, query: ReportQuery) -> Answer:
    """Sum up timesheets by user, task, project or day.

    Over all projects that the caller sees as an owner or a member. A timesheet belongs to the day on which it
    started. With `Accept: text/csv` a table.
    """
    groups = await make_report(call.database, actor_of(call), query)
    if export.wants_csv(call.header("accept")):
        group_by: GroupBy = if_set(query.group_by) or "user"
        body = export.rows([(*_KEYS[group_by], *_SUMS), *(_cells(each, group_by) for each in groups)])
        return Answer(body, headers=export.headers(f"timesheets-by-{group_by}"), media_type=export.MEDIA_TYPE)
    total = reduce(Spent.plus, (each.spent for each in groups), Spent())
    return Answer(ReportAnswer([row_shape(each) for each in groups], totals_shape(total)), headers=export.VARY)


def _cells(group: Group, group_by: GroupBy) -> list[Cell]:
    known: dict[str, Cell] = {
        "user": group.user.username if group.user else None,
        "project_id": group.project.id if group.project else None,
        "project": group.project.title if group.project else None,
        "task_id": group.task.id if group.task else None,
        "task": group.task.title if group.task else None,
        "day": group.day.isoformat() if group.day else None,
    }
    spent = group.spent
    return [
        *(known[name] for name in _KEYS[group_by]),
        spent.timesheets,
        spent.duration_ms,
        Decimal(rules.hours_text(spent.duration_ms)),
        spent.billable_ms,
        Decimal(rules.hours_text(spent.billable_ms)),
        Decimal(rules.two_decimals(spent.amount_minor)),
    ]
