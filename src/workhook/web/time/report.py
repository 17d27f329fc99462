"""`/{owner}/{project}/time/report`: what was spent in a period, by day, person, task, or billable or not. Not for
clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
import structlog

from workhook.core.errors import Fault, Invalid
from workhook.core.zones import zone_of
from workhook.http.calls import Answer
from workhook.storage.slow import QueryTooSlow
from workhook.web.frame import paging
from workhook.web.frame.formats import span_name
from workhook.web.frame.names import team_of
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.time import charts, periods
from workhook.web.time.days import zone_name
from workhook.web.time.report_lines import (
    Chosen,
    ReportLine,
    billable_left,
    chosen_of,
    find_lines,
    in_words,
    query_of,
    table,
    total_of,
)
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import Access
from workhook.work.money.invoices import changing, presets
from workhook.work.money.invoices.inputs import TIMESHEETS_MAX, InvoiceCreate
from workhook.work.money.invoices.rounded_time import TimeOnInvoice, foresee
from workhook.work.time.rates.rules import Rounding
from workhook.work.time.rates.terms import find_rounding
from workhook.work.time.timesheets import started
from workhook.work.time.timesheets.report_groups import Spent
from workhook.work.time.timesheets.report_shapes import ReportQuery

ROWS_SHOWN = 500

log = structlog.get_logger(__name__)


class Foreseen(NamedTuple):
    """What an invoice of the time in the report would have. `sums` None: it is more than one can have."""

    rounding: Rounding
    sums: TimeOnInvoice | None = None


places = Places("time")


@places.get("/{owner}/{project}/time/report")
async def report(visit: Visit) -> Answer:
    """Show what was spent in a period."""
    access = await visit.follow()
    access.hide_from_clients()
    chosen = chosen_of(visit)
    if chosen.period is None:
        return await _page(visit, access, chosen, [], Spent(), None)
    query = query_of(access, chosen, chosen.period)
    lines, left = await asyncio.gather(find_lines(visit, query, chosen.by), billable_left(visit, query))
    shows_more = left.timesheets > 0 and access.may_write
    foreseen = await _foresee(visit, access, chosen.given.get("user"), query) if shows_more else None
    return await _page(visit, access, chosen, lines, left, foreseen)


async def _foresee(visit: Visit, access: Access, user: str | None, query: ReportQuery) -> Foreseen | None:
    """None where time is not rounded: what the report says of it is what an invoice has."""
    rounding = await find_rounding(visit.database, access.repository.id)
    if not rounding.minutes:
        return None
    try:
        ids = await _list_to_invoice(visit, access, query.since_ms or 0, query.to_ms or 0, user)
    except QueryTooSlow:  # the report is good without
        log.warning("invoice_of_report_not_foreseen", repository_id=access.repository.id)
        return Foreseen(rounding)
    if len(ids) > TIMESHEETS_MAX:
        return Foreseen(rounding)
    return Foreseen(rounding, await foresee(visit.database, access, ids, rounding))


async def _list_to_invoice(visit: Visit, access: Access, since: int, to: int, user: str | None) -> Sequence[str]:
    """One more than an invoice can have, if there are."""
    return await started.list_to_invoice(visit.database, access, since, to, user=user or None, limit=TIMESHEETS_MAX + 1)


async def _page(
    visit: Visit,
    access: Access,
    chosen: Chosen,
    lines: Sequence[ReportLine],
    left: Spent,
    foreseen: Foreseen | None,
) -> Answer:
    period, given, base = chosen.period, chosen.given, f"/{access.repository.full_name}/time"
    total = total_of(lines)
    days = {each.group.day: each.spent for each in lines if each.group.day}

    def link(**changes: str) -> str:
        """The page with other filters; those that are empty are left out."""
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
        period_name="" if period is None else periods.name_of(period, chosen.today),
        period_names=[(name, gettext(label)) for name, label in periods.NAMES.items()],
        days="" if period is None else span_name(period.first, period.last),
        people=await team_of(visit.database, access),
        currency=total.currency or await presets.find_currency(visit.database, access),
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
async def report_table(visit: Visit) -> Answer:
    """Download the report as a table."""
    access = await visit.access()
    access.hide_from_clients()
    chosen = chosen_of(visit)
    if chosen.period is None:
        raise Invalid(faults=[Fault(field=name, message=message) for name, message in chosen.faults.items()])
    lines = await find_lines(visit, query_of(access, chosen, chosen.period), chosen.by)
    headers = csv_tables.headers(f"{access.repository.name.replace('.', '-')}-time-by-{chosen.by}")
    return Answer(
        await table(lines, chosen.by),
        headers={**headers, "Cache-Control": "no-store"},
        media_type=csv_tables.MEDIA_TYPE,
    )


@places.post("/{owner}/{project}/time/report/invoice", makes=True, action="invoice.create")
async def make_invoice(visit: Visit) -> Answer:
    """Make a draft of an invoice of what is billable in a period and on no invoice yet."""
    access = await visit.access()
    access.hide_from_clients()
    fields, zone = visit.fields, zone_of(zone_name(visit))
    period = periods.read_period(fields.get("from", ""), fields.get("to", ""))
    ids = await _list_to_invoice(visit, access, period.since_ms(zone), period.to_ms(zone), fields.get("user"))
    _require_some(ids)

    begun = await presets.find_presets(visit.database, access)
    rate = begun.rate
    blank = InvoiceCreate(timesheet_ids=list(ids), currency=begun.currency)
    blank.tax, blank.tax_category = rate.millionths, rate.category
    blank.group_by = visit.form(InvoiceCreate, "group_by").group_by
    wanted = msgspec.structs.replace(blank, **begun.texts)
    project_id = access.repository.project_id
    invoice = await visit.change(lambda write: changing.draft_invoice(write, project_id, wanted))
    done = ngettext(
        "The draft has %(num)d entry. Clients see it when it is issued.",
        "The draft has %(num)d entries. Clients see it when it is issued.",
        len(ids),
    )
    return visit.done(paging.project_address(visit, "billing", invoice.id), done % {"num": len(ids)})


def _require_some(ids: Sequence[str]) -> None:
    """Raises `Invalid` for nothing, and for more than an invoice can have."""
    if not ids:
        message = gettext("Nothing there is finished, billable and on no invoice yet.")
    elif len(ids) > TIMESHEETS_MAX:
        message = gettext("An invoice has at most %(number)d entries. Choose a shorter period, or one person.")
        message %= {"number": TIMESHEETS_MAX}
    else:
        return
    raise Invalid(faults=[Fault(field="from", message=message)])
