"""`/{owner}/{project}/time/report`: the time of a period by day, person, task or billable status. Not for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from typing import Literal, NamedTuple, cast, get_args
from urllib.parse import urlencode

import msgspec
import structlog
from msgspec import UNSET

from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid
from workhook.core.zones import day_in, zone_of
from workhook.http.calls import Response
from workhook.storage.slow import QueryTooSlow
from workhook.web.frame import paging
from workhook.web.frame.formats import full_day_name
from workhook.web.frame.names import called, team_of
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.time import charts
from workhook.web.time.days import PERIODS, Period, period_name, period_named, read_period, zone_name
from workhook.work.history.time_reports import ROWS_MAX, sum_timesheets
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import format_duration
from workhook.work.money.invoices import actions, drafts
from workhook.work.money.invoices.drafts import InvoiceTimeSums, preview_time
from workhook.work.money.invoices.schemas import TIMESHEETS_MAX, InvoiceCreate
from workhook.work.time.rates import Rounding, find_rounding
from workhook.work.time.timesheets import queries, reports
from workhook.work.time.timesheets.reports import GroupBy, ReportGroup, ReportQuery, Spent

By = Literal["day", "user", "task", "billable"]
_ANSWERS = {"true": True, "false": False}


class Chosen(NamedTuple):
    """The filters in the query. `period` is None if its days are invalid; `faults` then has the errors by field."""

    by: By
    period: Period | None
    zone_name: str
    today: date
    given: dict[str, str]
    faults: Mapping[str, str]


class ReportLine(NamedTuple):
    """A row of the report. `billable` is None unless the report is by billable status."""

    group: ReportGroup
    billable: bool | None = None

    @property
    def spent(self) -> Spent:
        return self.group.spent

    @property
    def label(self) -> str:
        if self.billable is not None:
            return gettext("Billable") if self.billable else gettext("Not billable")
        if self.group.user is not None:
            return called(self.group.user)
        if self.group.day is not None:
            return full_day_name(self.group.day)
        return self.group.task.title if self.group.task else gettext("deleted task")


def chosen_of(visit: Visit) -> Chosen:
    """Return the filters in the query, by default this week by day."""
    name, given = zone_name(visit), paging.given(visit)
    today = day_in(now_ms(), zone_of(name))
    by = cast("By", given.get("by")) if given.get("by") in get_args(By) else "day"
    period, faults = None, dict[str, str]()
    try:
        if given.get("from") or given.get("to"):
            period = read_period(given.get("from", ""), given.get("to", ""))
        else:
            period = period_named(given.get("period", ""), today)
    except Invalid as wrong:
        faults = {each.field or "": each.message or "" for each in wrong.faults}
    return Chosen(by, period, name, today, given, faults)


def query_of(access: Access, chosen: Chosen, period: Period) -> ReportQuery:
    """Return the API query. A report by billable status sums up by project."""
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
    """Return the rows: days in order, other groups by descending duration. Raises `Invalid` if there are too many."""
    if by == "billable":
        answers = [True, False] if query.billable is UNSET else [bool(query.billable)]
        parts = [msgspec.structs.replace(query, billable=each) for each in answers]
        found = await asyncio.gather(*(_sum_up(visit, each) for each in parts))
        return [ReportLine(each, billable) for billable, groups in zip(answers, found, strict=True) for each in groups]
    try:
        groups = await _sum_up(visit, query)
    except Invalid:
        message = gettext("The report has too many rows. Choose a shorter period or a single person.")
        raise Invalid.at("by", message) from None
    lines = [ReportLine(each) for each in groups]
    return lines if by == "day" else sorted(lines, key=lambda each: -each.spent.duration_ms)


async def _sum_up(visit: Visit, query: ReportQuery, *, unbilled: bool = False) -> Sequence[ReportGroup]:
    reader, actor = visit.database, visit.actor
    return await sum_timesheets(reader, actor, query, now=now_ms(), limit=ROWS_MAX, unbilled=unbilled)


async def _find_unbilled(visit: Visit, query: ReportQuery) -> Spent:
    if query.billable is False or query.invoiced is True:
        return Spent()
    whole = msgspec.structs.replace(query, group_by="project", billable=UNSET, invoiced=UNSET)
    return total_of([ReportLine(each) for each in await _sum_up(visit, whole, unbilled=True)])


def total_of(lines: Sequence[ReportLine]) -> Spent:
    return reduce(Spent.plus, (each.spent for each in lines), Spent())


def in_words(lines: Sequence[ReportLine]) -> str:
    """Describe the chart for screen readers."""
    total = total_of(lines)
    most = max(lines, key=lambda each: each.spent.duration_ms)
    return gettext(
        "Chart: %(total)s in total, %(billable)s billable. Largest: %(label)s, %(most)s.",
        total=format_duration(total.duration_ms),
        billable=format_duration(total.billable_ms),
        label=most.label,
        most=format_duration(most.spent.duration_ms),
    )


async def table(lines: Sequence[ReportLine], by: By) -> bytes:
    """Return the rows as CSV, in the API's format."""
    if by != "billable":
        return await reports.table([each.group for each in lines], cast("GroupBy", by))
    head = ("billable", *reports.SUM_COLUMNS)
    rows = [[each.billable, *reports.sum_cells(each.spent)] for each in lines]
    return await csv_tables.write_rows([head, *rows])


ROWS_SHOWN = 500

log = structlog.get_logger(__name__)


class Foreseen(NamedTuple):
    """The expected invoice of the report's time. `sums` is None if it can't be computed or exceeds one invoice."""

    rounding: Rounding
    sums: InvoiceTimeSums | None = None


places = Places("time")


@places.get("/{owner}/{project}/time/report")
async def report(visit: Visit) -> Response:
    """Show the time of a period."""
    access = await visit.follow()
    access.require_not_client()
    chosen = chosen_of(visit)
    if chosen.period is None:
        return await _page(visit, access, chosen, [], Spent(), None)
    query = query_of(access, chosen, chosen.period)
    lines, left = await asyncio.gather(find_lines(visit, query, chosen.by), _find_unbilled(visit, query))
    shows_more = left.timesheets > 0 and access.may_write
    foreseen = await _foresee(visit, access, chosen.given.get("user"), query) if shows_more else None
    return await _page(visit, access, chosen, lines, left, foreseen)


async def _foresee(visit: Visit, access: Access, user: str | None, query: ReportQuery) -> Foreseen | None:
    """Return the expected invoice, or None if time isn't rounded: the invoice then equals the report."""
    rounding = await find_rounding(visit.database, access.repository.id)
    if not rounding.minutes:
        return None
    try:
        ids = await _list_to_invoice(visit, access, query.since_ms or 0, query.to_ms or 0, user)
    except QueryTooSlow:  # the report is useful without it
        log.warning("report_invoice_preview_failed", repository_id=access.repository.id)
        return Foreseen(rounding)
    fits = len(ids) <= TIMESHEETS_MAX
    return Foreseen(rounding, await preview_time(visit.database, access, ids, rounding) if fits else None)


async def _list_to_invoice(visit: Visit, access: Access, since: int, to: int, user: str | None) -> Sequence[str]:
    """Return the IDs of unbilled entries, at most one more than an invoice can have."""
    return await queries.list_to_invoice(visit.database, access, since, to, user=user or None, limit=TIMESHEETS_MAX + 1)


async def _page(
    visit: Visit,
    access: Access,
    chosen: Chosen,
    lines: Sequence[ReportLine],
    left: Spent,
    foreseen: Foreseen | None,
) -> Response:
    period, given, base = chosen.period, chosen.given, f"/{access.repository.full_name}/time"
    total = total_of(lines)
    days = {each.group.day: each.spent for each in lines if each.group.day}

    def link(**changes: str) -> str:
        """Return the address of this page with `changes` to its filters. Empty filters are omitted."""
        kept = {name: value for name, value in {**given, **changes}.items() if value}
        return f"{base}/report" + (f"?{urlencode(kept)}" if kept else "")

    return visit.page(
        "time/report.html",
        status=422 if chosen.faults else 200,
        access=access,
        by=chosen.by,
        given=given,
        faults=chosen.faults,
        first=given.get("from", "") if period is None else period.first.isoformat(),
        last=given.get("to", "") if period is None else period.last.isoformat(),
        period=period,
        period_name="" if period is None else period_name(period, chosen.today),
        period_names=[(name, gettext(label)) for name, label in PERIODS.items()],
        days="" if period is None else period.title,
        people=await team_of(visit.database, access),
        currency=access.repository.currency,
        lines=lines[:ROWS_SHOWN],
        more=len(lines) - ROWS_SHOWN,
        total=total,
        left=left,
        foreseen=foreseen,
        columns=charts.columns(period, days) if period and days else None,
        bars=[] if days else charts.rows([(each.label, each.spent) for each in lines]),
        words=in_words(lines) if lines else "",
        zone_name=chosen.zone_name,
        link=link,
        csv=f"{base}/report.csv" + paging.with_query(visit),
    )


@places.get("/{owner}/{project}/time/report.csv")
async def report_table(visit: Visit) -> Response:
    """Download the report as CSV."""
    access = await visit.access()
    access.require_not_client()
    chosen = chosen_of(visit)
    if chosen.period is None:
        raise Invalid(faults=[Fault(field=name, message=message) for name, message in chosen.faults.items()])
    lines = await find_lines(visit, query_of(access, chosen, chosen.period), chosen.by)
    headers = csv_tables.headers(f"{access.repository.name.replace('.', '-')}-time-by-{chosen.by}")
    return Response(
        await table(lines, chosen.by),
        headers={**headers, "Cache-Control": "no-store"},
        media_type=csv_tables.MEDIA_TYPE,
    )


@places.post("/{owner}/{project}/time/report/invoice", makes=True, action="invoice.create")
async def make_invoice(visit: Visit) -> Response:
    """Create a draft invoice from the unbilled time of a period."""
    access = await visit.access()
    access.require_not_client()
    fields, zone = visit.fields, zone_of(zone_name(visit))
    period = read_period(fields.get("from", ""), fields.get("to", ""))
    ids = await _list_to_invoice(visit, access, period.since_ms(zone), period.to_ms(zone), fields.get("user"))
    if not ids or len(ids) > TIMESHEETS_MAX:
        message = gettext("No unbilled time to invoice. Finish running timers first.")
        if ids:
            message = gettext(
                "An invoice can have at most %(number)d time entries. Choose a shorter period or a single person.",
                number=TIMESHEETS_MAX,
            )
        raise Invalid.at("from", message)
    begun = await drafts.find_presets(visit.database, access)
    group_by = visit.form(InvoiceCreate, "group_by").group_by
    wanted = msgspec.structs.replace(InvoiceCreate(timesheet_ids=list(ids), group_by=group_by), **begun.texts)
    project_id = access.repository.project_id
    invoice = await visit.change(lambda write: actions.draft_invoice(write, project_id, wanted))
    done = ngettext(
        "A draft with %(num)d time entry was created. Clients see it once it is issued.",
        "A draft with %(num)d time entries was created. Clients see it once it is issued.",
        len(ids),
    )
    return visit.done(paging.project_address(visit, "billing", invoice.id), done)
