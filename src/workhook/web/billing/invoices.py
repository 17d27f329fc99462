"""The invoices of a project: the list, the page of each with its PDF, and the way from draft to paid."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.core.clock import now_ms
from workhook.core.errors import Invalid
from workhook.http import lists
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.web.billing.money import show_invoice
from workhook.web.billing.view import billing_page, invoice_address, invoice_at, recipient
from workhook.web.frame import paging
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.money.invoices import changing, documents, drafting
from workhook.work.money.invoices.due import open_sums
from workhook.work.money.invoices.inputs import InvoiceList

places = Places("billing")
ROWS = 50


@places.get("/{owner}/{project}/billing")
async def billing(visit: Visit) -> Answer:
    """Show the invoices of a project. Clients see no drafts."""
    access = await visit.follow()
    cursor = visit.query("cursor")
    query = InvoiceList(per_page=ROWS, cursor=cursor) if cursor else InvoiceList(per_page=ROWS)
    key = lists.after(query, tuple[str])
    after = key[0] if key else None
    found = await drafting.list_invoices(visit.database, access, query, now=now_ms(), after=after, newest=True)
    invoices, headers = lists.page(visit.call, found, query, lambda invoice: (invoice.id,))
    return await billing_page(
        visit,
        access,
        "billing/invoices.html",
        "invoices",
        invoices=invoices,
        recipient=recipient,
        open=await open_sums(visit.database, access),
        more=paging.next_page(headers),
        begins=not cursor,
    )


@places.get("/{owner}/{project}/billing/{invoice_id}")
async def invoice_page(visit: Visit) -> Answer:
    """Show an invoice: its lines, its sums, and what can be done with it."""
    return await show_invoice(visit, *await invoice_at(visit))


@places.get("/{owner}/{project}/billing/{invoice_id}/pdf", head=False)
async def invoice_pdf(visit: Visit) -> Answer:
    """Show an invoice as a PDF, as the API does."""
    _, invoice = await invoice_at(visit)
    return await documents.get_invoice_pdf(visit.call, invoice.id)


@places.get("/{owner}/{project}/billing/{invoice_id}/xml", head=False)
async def invoice_xml(visit: Visit) -> Answer:
    """Give an invoice as an e-invoice, as the API does; where something is missing, its page says what."""
    access, invoice = await invoice_at(visit)
    try:
        return await documents.get_invoice_xml(visit.call, invoice.id)
    except Invalid as problem:
        return await show_invoice(visit, access, invoice, missing=problem)


async def _set_status(visit: Visit, step: Callable[[Write, str], Awaitable[object]], text: str) -> Answer:
    _, invoice = await invoice_at(visit)
    await visit.change(lambda write: step(write, invoice.id))
    return visit.done(invoice_address(visit), text)


@places.post("/{owner}/{project}/billing/{invoice_id}/send", makes=True, action="invoice.send")
async def issue(visit: Visit) -> Answer:
    """Issue a draft, which gets its number."""
    return await _set_status(visit, changing.send_invoice, gettext("The invoice was issued. Its amounts are fixed."))


@places.post("/{owner}/{project}/billing/{invoice_id}/void", action="invoice.void")
async def make_void(visit: Visit) -> Answer:
    """Void an invoice that was issued."""
    return await _set_status(visit, changing.void_invoice, gettext("The invoice is void. It keeps its number."))
