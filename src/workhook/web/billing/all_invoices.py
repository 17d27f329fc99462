"""`/invoices`: the invoices of all projects that the visitor sees, the newest first. Clients see no drafts."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, get_args

import msgspec

from workhook.core.clock import now_ms
from workhook.http import lists, parameters
from workhook.http.calls import Answer
from workhook.web.billing.invoices import ROWS, recipient
from workhook.web.frame import paging
from workhook.web.frame.paging import fill_page, project_options
from workhook.web.frame.places import Places, Visit
from workhook.work.board.projects.listing import find_visible
from workhook.work.history.across import invoices
from workhook.work.history.across.schemas import AllInvoicesQuery, PlacedInvoice
from workhook.work.history.across.walks import AcrossPage
from workhook.work.money.invoices.rules import Status

PATH = "/invoices"
_NAMES = frozenset(each.encode_name for each in msgspec.structs.fields(AllInvoicesQuery)) - {"per_page"}
STATUSES: Sequence[str] = get_args(Status)

places = Places("all_invoices")


class InvoiceLine(NamedTuple):
    """An invoice, and the address of its project."""

    invoice: PlacedInvoice
    base: str


@places.get(PATH)
async def all_invoices(visit: Visit) -> Answer:
    """Show the invoices of all projects."""
    given = defaultdict(str, paging.given(visit))
    fields = {name: [value] for name, value in given.items() if name in _NAMES}
    query = parameters.gather(AllInvoicesQuery, fields, {"per_page": ROWS})
    now, after = now_ms(), lists.after(query, tuple[str])
    found, options = await asyncio.gather(
        fill_page(partial(_find, visit, query, now), after, ROWS + 1), project_options(visit)
    )
    page, headers = lists.page(
        visit.call, found.rows, query, lambda pair: pair[1], cut=found.cut, last_seen=found.last_seen
    )
    listed = [invoice for invoice, _ in page]
    projects = await find_visible(visit.database, visit.actor, {each.project.id for each in listed})
    return visit.page(
        "billing/all.html",
        recipient=recipient,
        lines=[
            InvoiceLine(each, f"/{projects[each.project.id].full_name}/billing")
            for each in listed
            if each.project.id in projects
        ],
        more=paging.next_page(headers),
        given=given,
        filtered=bool(set(given) & (_NAMES - {"cursor"})),
        first=paging.with_query(visit, cursor=None),
        projects=options,
        statuses=STATUSES,
        now=now,
        is_guest=bool(options) and all(each.is_guest for each in options),
    )


async def _find(
    visit: Visit, query: AllInvoicesQuery, now: int, after: Sequence[object] | None
) -> AcrossPage[PlacedInvoice]:
    return await invoices.list_all_invoices(visit.database, visit.actor, query, now=now, after=after, newest=True)
