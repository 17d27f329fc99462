"""What a report asks for, and its lines. The sums are those of `/reports/timesheets` of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from types import MappingProxyType
from typing import Literal, NamedTuple, cast, get_args

import msgspec
from msgspec import UNSET

from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid
from workhook.core.zones import day_in, zone_of
from workhook.web.frame import paging
from workhook.web.frame.formats import day_name
from workhook.web.frame.names import called
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext
from workhook.web.time import periods
from workhook.web.time.days import zone_name
from workhook.web.time.periods import Period
from workhook.work.history.time_reports import ROWS_MAX, sum_up
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import display
from workhook.work.time.timesheets import report_groups
from workhook.work.time.timesheets.report_groups import GroupBy, ReportGroup, Spent
from workhook.work.time.timesheets.report_shapes import ReportQuery

By = Literal["day", "user", "task", "billable"]
_ANSWERS = {"true": True, "false": False}


class Chosen(NamedTuple):
    """What the address asks for. `period` is None where its days are wrong, which `faults` tells by field."""

    by: By
    period: Period | None
    zone_name: str
    today: date
    given: dict[str, str]
    faults: Mapping[str, str] = MappingProxyType({})


class ReportLine(NamedTuple):
    """A group of the report. `billable`: whether its time is, where the report is by that."""

    group: ReportGroup
    billable: bool | None = None

    @property
    def spent(self) -> Spent:
        return self.group.spent

    @property
    def label(self) -> str:
        """What the group is called, in the reader's language."""
        if self.billable is not None:
            return gettext("Billable") if self.billable else gettext("Not billable")
        if self.group.user is not None:
            return called(self.group.user)
        if self.group.day is not None:
            return f"{day_name(self.group.day)} {self.group.day.year}"
        return self.group.task.title if self.group.task else gettext("a task that is gone")


def chosen_of(visit: Visit) -> Chosen:
    """The filters of the address; without any, this week by day."""
    name, given = zone_name(visit), paging.given(visit)
    today = day_in(now_ms(), zone_of(name))
    by = cast("By", given.get("by")) if given.get("by") in get_args(By) else "day"
    if not given.get("from") and not given.get("to"):
        return Chosen(by, periods.named(given.get("period", ""), today), name, today, given)
    try:
        period = periods.read_period(given.get("from", ""), given.get("to", ""))
    except Invalid as wrong:
        faults = {each.field or "": each.message or "" for each in wrong.faults}
        return Chosen(by, None, name, today, given, faults)
    return Chosen(by, period, name, today, given)


def query_of(access: Access, chosen: Chosen, period: Period) -> ReportQuery:
    """What the API is asked for. It sums up billable time and the rest as two projects."""
    given, zone = chosen.given, zone_of(chosen.zone_name)
    return ReportQuery(
        group_by="project" if chosen.by == "billable" else chosen.by,
        project_id=access.repository.project_id,
        user=given.get("user", UNSET),
        billable=_ANSWERS.get(given.get("billable", ""), UNSET),
        invoiced=_ANSWERS.get(given.get("invoiced", ""), UNSET),
        timezone=chosen.zone_name,
        from_=period.since_ms(zone),
        to=period.to_ms(zone),
    )


async def find_lines(visit: Visit, query: ReportQuery, by: By) -> list[ReportLine]:
    """Days in their order, others those first on which most was spent. Raises `Invalid` if there are more than a report
    has."""
    if by == "billable":
        answers = [True, False] if query.billable is UNSET else [bool(query.billable)]
        parts = [msgspec.structs.replace(query, billable=each) for each in answers]
        found = await asyncio.gather(*(_sum_up(visit, each) for each in parts))
        return [ReportLine(each, billable) for billable, groups in zip(answers, found, strict=True) for each in groups]
    try:
        groups = await _sum_up(visit, query)
    except Invalid:
        message = gettext("The report has too many rows. Choose a shorter period, or one person.")
        raise Invalid(faults=[Fault(field="by", message=message)]) from None
    lines = [ReportLine(each) for each in groups]
    return lines if by == "day" else sorted(lines, key=lambda each: -each.spent.duration_ms)


async def _sum_up(visit: Visit, query: ReportQuery) -> Sequence[ReportGroup]:
    return await sum_up(visit.database, visit.actor, query, now=now_ms(), limit=ROWS_MAX)


async def billable_left(visit: Visit, query: ReportQuery) -> Spent:
    """What of the report is billable and on no invoice."""
    if query.billable is False or query.invoiced is True:
        return Spent()
    left = msgspec.structs.replace(query, group_by="project", billable=True, invoiced=False)
    return total_of([ReportLine(each) for each in await _sum_up(visit, left)])


def total_of(lines: Sequence[ReportLine]) -> Spent:
    return reduce(Spent.plus, (each.spent for each in lines), Spent())


def in_words(lines: Sequence[ReportLine]) -> str:
    """What the chart shows, for whoever does not see it."""
    total = total_of(lines)
    most = max(lines, key=lambda each: each.spent.duration_ms)
    return gettext("Chart: %(total)s in all, %(billable)s of it billable. Most: %(label)s, %(most)s.") % {
        "total": display(total.duration_ms),
        "billable": display(total.billable_ms),
        "label": most.label,
        "most": display(most.spent.duration_ms),
    }


async def table(lines: Sequence[ReportLine], by: By) -> bytes:
    """The lines as CSV, as the API has them."""
    if by != "billable":
        return await report_groups.table([each.group for each in lines], cast("GroupBy", by))
    head = ("billable", *report_groups.SUM_COLUMNS)
    rows = [[each.billable, *report_groups.sum_cells(each.spent)] for each in lines]
    return await csv_tables.write_rows([head, *rows])
