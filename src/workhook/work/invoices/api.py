"""`/projects/{id}/invoices`, `/invoices`."""

from __future__ import annotations

from functools import partial

from msgspec import UnsetType

from workhook.core.clock import now_ms
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.access import find_access
from workhook.work.invoices import actions, pdf, printing, queries
from workhook.work.invoices.schemas import (
    Invoice,
    InvoiceAnswer,
    InvoiceCreate,
    InvoiceEdit,
    InvoiceList,
    InvoicesAnswer,
    invoice_to_response,
)
from workhook.work.schemas import Done

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")
PDF = "application/pdf"


def _shown(invoice: Invoice) -> InvoiceAnswer:
    return InvoiceAnswer(invoice_to_response(invoice, now_ms()))


@routes.get("/projects/{id}/invoices")
async def list_invoices(call: Call, project_id: str, query: InvoiceList) -> Listed[InvoicesAnswer]:
    """List a project's invoices.

    Clients do not see drafts.
    """
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    now = now_ms()
    found = await queries.list_invoices(
        call.database,
        access.repository.id,
        drafts=not access.is_client,
        status=None if isinstance(query.status, UnsetType) else query.status,
        overdue=None if isinstance(query.overdue, UnsetType) else query.overdue,
        now=now,
        after=key[0] if key else None,
        limit=query.limit + 1,
    )
    invoices, headers = lists.page(call, found, query, lambda invoice: (invoice.id,))
    return Listed(InvoicesAnswer([invoice_to_response(each, now) for each in invoices]), headers)


@routes.post("/projects/{id}/invoices")
async def create_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> InvoiceAnswer:
    """Draw up an invoice.

    A draft. Its timesheets are claimed: no other invoice can have them.
    """
    made = await actions.create(write, project_id, wanted)
    return _shown(made)


@routes.get("/invoices/{invoice_id}")
async def get_invoice(call: Call, invoice_id: str) -> InvoiceAnswer:
    """Get an invoice."""
    seen = await actions.look_at(call.database, actor_of(call), invoice_id)
    return _shown(seen.invoice)


@routes.patch("/invoices/{invoice_id}")
async def edit_invoice(write: Write, invoice_id: str, wanted: InvoiceEdit) -> InvoiceAnswer:
    """Change an invoice.

    Once it is sent, its lines, timesheets, tax, currency and number stay; once void, all of it.
    """
    taken = await actions.take(write.tx, write.actor, invoice_id)
    write.require_match(_shown(taken.invoice))
    return _shown(await actions.edit(write, taken, wanted))


@routes.delete("/invoices/{invoice_id}")
async def delete_invoice(write: Write, invoice_id: str) -> Done:
    """Delete a draft.

    Its timesheets can be invoiced again.
    """
    taken = await actions.take(write.tx, write.actor, invoice_id)
    write.require_match(_shown(taken.invoice))
    await actions.delete(write, taken)
    return Done()


@routes.post("/invoices/{invoice_id}/send")
async def send_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Issue a draft: it gets its number, and its amounts stay."""
    return _shown(await actions.send(write, await actions.take(write.tx, write.actor, invoice_id)))


@routes.post("/invoices/{invoice_id}/pay")
async def pay_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Note that an invoice was paid."""
    return _shown(await actions.pay(write, await actions.take(write.tx, write.actor, invoice_id)))


@routes.post("/invoices/{invoice_id}/void")
async def void_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Void an invoice that was sent.

    It keeps its number; its timesheets can be invoiced again.
    """
    return _shown(await actions.void(write, await actions.take(write.tx, write.actor, invoice_id)))


@routes.get("/invoices/{invoice_id}/pdf", answers={200: {"type": "string", "format": "binary"}}, media_type=PDF)
async def get_invoice_pdf(call: Call, invoice_id: str) -> Answer:
    """Get an invoice as a PDF.

    A draft is marked as one. The logo is the project's `avatar` if that is a PNG, JPEG or SVG among the project's
    files that is not private and is drawn within two seconds; otherwise the initials of who bills stand in its
    place. An organization's invoices are printed one after the other; 503 `pdf_unavailable`: too many wait already,
    or it took too long. `X-Missing-Characters` is there where no font of the server has some characters, which are
    boxes then: the first of them, such as `U+6F22`.
    """
    seen = await actions.look_at(call.database, actor_of(call), invoice_id)
    repository, file = seen.access.repository, None
    if file_id := pdf.file_id_of(seen.avatar, (call.base, call.base_for_others)):
        file = await queries.find_logo(call.database, repository.id, file_id)
    job = pdf.PdfJob(
        account_id=repository.owner.id,
        invoice_id=seen.invoice.id,
        document=printing.printed(seen.invoice, repository),
        timestamp_s=printing.timestamp_s(seen.invoice),
        logo=file if pdf.is_logo(file) else None,
    )
    made = await pdf.printer().make(job, partial(pdf.read_logo, call.services.blobs))
    headers = {"Content-Disposition": f'inline; filename="{printing.file_name(seen.invoice)}"'}
    if made.missing is not None:
        headers["X-Missing-Characters"] = made.missing
    return Answer(made.content, headers=headers, media_type=PDF)
