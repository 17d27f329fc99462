"""`/invoices`: the invoices of all projects that the visitor sees, the newest first. Clients see no drafts."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, get_args

import msgspec

from workhook.core.clock import now_ms
from workhook.http import lists, parameters
from workhook.http.calls import Answer
from workhook.http.lists import Found, Key
from workhook.web.billing.invoices import ROWS, recipient
from workhook.web.frame import paging
from workhook.web.frame.paging import fill_page, project_options
from workhook.web.frame.places import Places, Visit
from workhook.work.board.projects.listing import find_visible
from workhook.work.history.across.schemas import AllInvoicesQuery
from workhook.work.kernel.lists import cursor_of
from workhook.work.kernel.scopes import across
from workhook.work.money.invoices.queries import list_invoices
from workhook.work.money.invoices.rules import Status
from workhook.work.money.invoices.schemas import Invoice, PlacedInvoice

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
    now, after, source = now_ms(), cursor_of(query), across(visit.actor, query)

    async def ask(behind: Key | None) -> Found[Invoice]:
        return await list_invoices(visit.database, source, query, now=now, after=behind, newest=True)

    found, options = await asyncio.gather(fill_page(ask, after, ROWS + 1), project_options(visit))
    page, headers = lists.page(visit.call, found, query)
    listed = [invoice for invoice in page if isinstance(invoice, PlacedInvoice)]
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
