"""Invoices, from draft to payment: `/projects/{id}/invoices` and `/invoices`.

Owners and members create invoices; clients see those that were sent.
"""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.kernel.access import find_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.invoices import actions, documents, queries
from workhook.work.money.invoices.einvoice import XML
from workhook.work.money.invoices.schemas import (
    InvoiceAnswer,
    InvoiceCreate,
    InvoiceList,
    InvoicesAnswer,
    invoice_to_response,
)

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")


@routes.get("/projects/{id}/invoices")
async def list_invoices(call: Call, project_id: str, query: InvoiceList) -> Listed[InvoicesAnswer]:
    """List the invoices of a project.

    Clients do not see drafts.
    """
    after, now = cursor_of(query), now_ms()
    source = source_of_project(await find_access(call.database, actor_of(call), project_id))
    filters = queries.filters_of(query, source, now)
    invoices, headers = await read_for(call, queries.INVOICES, source, query, after, **filters)
    return Listed(InvoicesAnswer([invoice_to_response(each, now) for each in invoices]), headers)


@routes.post("/projects/{id}/invoices")
async def create_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> InvoiceAnswer:
    """Create a draft invoice.

    Its timesheets are reserved: they cannot be added to another invoice.
    """
    return actions.answer_of(await actions.draft_invoice(write, project_id, wanted), write.now)


@routes.get("/invoices/{invoice_id}")
async def get_invoice(call: Call, invoice_id: str) -> InvoiceAnswer:
    """Get an invoice."""
    _, invoice = await actions.find_invoice(call.database, actor_of(call), invoice_id)
    return actions.answer_of(invoice, now_ms())


routes.patch("/invoices/{invoice_id}")(actions.edit_invoice)
routes.delete("/invoices/{invoice_id}")(actions.delete_invoice)
routes.post("/invoices/{invoice_id}/send")(actions.send_invoice)
routes.post("/invoices/{invoice_id}/void")(actions.void_invoice)
routes.get(
    "/invoices/{invoice_id}/pdf", answers={200: {"type": "string", "format": "binary"}}, media_type=documents.PDF
)(documents.get_invoice_pdf)

routes.get(
    "/invoices/{invoice_id}/xml",
    answers={200: {"type": "string", "format": "binary"}},
    problems=(409, 422),
    media_type=XML,
)(documents.get_invoice_xml)
