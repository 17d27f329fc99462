"""`/projects/{id}/invoices` and `/invoices`, from draft to paid.

Owners and members make invoices, clients see what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Row
from workhook.work.access import Access, find_access, find_with_access
from workhook.work.invoices import drafting, issued, pdf, printing, rules
from workhook.work.invoices.rules import Status
from workhook.work.invoices.schemas import (
    Invoice,
    InvoiceAnswer,
    InvoiceCreate,
    InvoiceEdit,
    InvoiceList,
    InvoicesAnswer,
    blank_invoice,
    invoice_to_response,
)
from workhook.work.record_events import differences, publish_event
from workhook.work.schemas import Done

PDF = "application/pdf"

# What no amount follows from, and what does not name the invoice.
_AFTER_SENDING = frozenset({"bill_to", "bill_from", "address", "payment_terms", "payment_method", "due", "credit_type"})
_DOING = "change invoices"

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")


@routes.get("/projects/{id}/invoices")
async def list_invoices(call: Call, project_id: str, query: InvoiceList) -> Listed[InvoicesAnswer]:
    """List a project's invoices.

    Clients do not see drafts.
    """
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    now = now_ms()
    found = await drafting.list_invoices(call.database, access, query, now=now, after=key[0] if key else None)
    invoices, headers = lists.page(call, found, query, lambda invoice: (invoice.id,))
    return Listed(InvoicesAnswer([invoice_to_response(each, now) for each in invoices]), headers)


@routes.post("/projects/{id}/invoices")
async def create_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> InvoiceAnswer:
    """Create a draft of an invoice.

    Its timesheets are reserved: no other invoice can have them.
    """
    return _answer(await draft_invoice(write, project_id, wanted), write.now)


async def draft_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> Invoice:
    """The new draft. Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`."""
    row, access = await find_with_access(write.tx, drafting.project, write.actor, project_id=project_id)
    access.require_writable()
    access.require_member(_DOING)
    blank = blank_invoice(row["last_currency"] or rules.DEFAULT_CURRENCY, write.actor.user, write.now)
    change = await drafting.plan_change(write.tx, access.repository, blank, wanted)
    invoice = replace(blank, **change.values)
    await drafting.insert_invoice(write.tx, access.repository, invoice)
    await drafting.claim(write.tx, access.repository.id, change.new_ids, invoice.id)
    await publish_event(write, access.repository, "invoice", "created", invoice_to_response(invoice, write.now))
    return invoice


@routes.get("/invoices/{invoice_id}")
async def get_invoice(call: Call, invoice_id: str) -> InvoiceAnswer:
    """Get an invoice."""
    _, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    return _answer(invoice, now_ms())


@routes.patch("/invoices/{invoice_id}")
async def edit_invoice(write: Write, invoice_id: str, wanted: InvoiceEdit) -> InvoiceAnswer:
    """Change an invoice.

    After it is sent, its lines, timesheets, tax, currency and number cannot be changed; after it is void, nothing can.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    write.require_match(_answer(invoice, write.now))
    change = await drafting.plan_change(write.tx, access.repository, invoice, wanted)
    changed = {name for name, value in change.values.items() if value != getattr(invoice, name)}
    if change.claims_differ:
        changed.add("timesheet_ids")
    if not changed:
        return _answer(invoice, write.now)
    if invoice.status == "void" or (invoice.status != "draft" and not changed <= _AFTER_SENDING):
        stays = "everything" if invoice.status == "void" else "what its amounts follow from, and its number,"
        message = f"The invoice is {invoice.status}; {stays} stays as it is."
        raise Conflict(message, code=f"invoice_{invoice.status}")
    claims: dict[str, dict[str, object]] = {}
    if change.claims_differ:
        await drafting.release(write.tx, invoice.id, but=change.kept_ids)
        claims["timesheet_ids"] = {"from": change.claimed_before, "to": change.timesheet_ids}
    await drafting.claim(write.tx, access.repository.id, change.new_ids, invoice.id)
    return await _change(write, access, invoice, "edited", change.values, more_changes=claims)


@routes.delete("/invoices/{invoice_id}")
async def delete_invoice(write: Write, invoice_id: str) -> Done:
    """Delete a draft.

    Its timesheets can be invoiced again.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    write.require_match(_answer(invoice, write.now))
    if invoice.status != "draft":
        raise Conflict("Only drafts can be deleted.", code=f"invoice_{invoice.status}")
    await drafting.delete_invoice(write.tx, invoice.id)
    await publish_event(write, access.repository, "invoice", "deleted", invoice_to_response(invoice, write.now))
    return Done()


@routes.post("/invoices/{invoice_id}/send")
async def send_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Issue a draft: it gets its number, and its amounts are fixed."""
    return await _set_status(write, invoice_id, "sent", possible_from="draft", action="sent", time="issued")


@routes.post("/invoices/{invoice_id}/pay")
async def pay_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Mark an invoice as paid."""
    return await _set_status(write, invoice_id, "paid", possible_from="sent", action="paid", time="paid_at")


@routes.post("/invoices/{invoice_id}/void")
async def void_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Void an invoice that was sent.

    It keeps its number; its timesheets can be invoiced again.
    """
    return await _set_status(write, invoice_id, "void", possible_from="sent", action="voided")


@routes.get("/invoices/{invoice_id}/pdf", answers={200: {"type": "string", "format": "binary"}}, media_type=PDF)
async def get_invoice_pdf(call: Call, invoice_id: str) -> Answer:
    """Get an invoice as a PDF.

    A draft is marked as one. The logo is the project's `avatar` if that is a PNG, JPEG or SVG among the project's
    files. It must not be private, and must be drawn within two seconds. Otherwise the initials of the account that
    bills stand in its place. An organization's invoices are printed one after the other; 503 `pdf_unavailable`: too
    many wait already, or it took too long. Emoji are left out. If no font of the server has some characters, they are
    printed as boxes. `X-Missing-Characters` then names the first of them, such as `U+6F22`.
    """
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=invoice_id)
    invoice, repository, file = _visible(row, access), access.repository, None
    if file_id := pdf.file_id_of(row["project_avatar"], (call.base, call.base_for_others)):
        file = await drafting.find_logo(call.database, repository.id, file_id)
    job = pdf.PdfJob(
        account_id=repository.owner.id,
        invoice_id=invoice.id,
        document=printing.printed(invoice, repository),
        timestamp_s=printing.timestamp_s(invoice),
        logo=file if pdf.is_logo(file) else None,
    )
    made = await pdf.printer().make(job, partial(pdf.read_logo, call.services.blobs))
    headers = {"Content-Disposition": f'inline; filename="{printing.file_name(invoice)}"'}
    if made.missing is not None:
        headers["X-Missing-Characters"] = made.missing
    return Answer(made.content, headers=headers, media_type=PDF)


async def find_invoice(reader: Reader, actor: Actor, invoice_id: str) -> tuple[Access, Invoice]:
    """The invoice, with what the actor may do in its project. Raises `NotFound`."""
    row, access = await find_with_access(reader, drafting.by_id, actor, id=invoice_id)
    return access, _visible(row, access)


def _answer(invoice: Invoice, now: int) -> InvoiceAnswer:
    return InvoiceAnswer(invoice_to_response(invoice, now))


def _visible(row: Row, access: Access) -> Invoice:
    """Raises `NotFound`: drafts do not exist for clients."""
    invoice = drafting.invoice_of(row)
    access.require_sight(invoice.status == "draft")
    return invoice


async def lock_invoice(write: Write, invoice_id: str) -> tuple[Access, Invoice]:
    """For a change: nobody else changes the invoice until the transaction ends. Raises `NotFound`, `Forbidden`,
    `Conflict` if the project is archived."""
    row, access = await find_with_access(write.tx, drafting.locked, write.actor, id=invoice_id)
    invoice = _visible(row, access)
    access.require_writable()
    access.require_member(_DOING)
    return access, invoice


async def _set_status(
    write: Write, invoice_id: str, status: Status, *, possible_from: Status, action: str, time: str | None = None
) -> InvoiceAnswer:
    """`time`: the field that says when. An invoice with that status is left alone. Raises `Conflict` for any other."""
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status == status:
        return _answer(invoice, write.now)
    if invoice.status != possible_from:
        message = f"The invoice is {invoice.status}; it would have to be {possible_from}."
        raise Conflict(message, code=f"invoice_{invoice.status}")
    if status == "sent":
        await issued.lock_project(write.tx, access.repository.id)
    if status == "void":
        await drafting.release(write.tx, invoice.id)
    values: dict[str, object] = {"status": status} if time is None else {"status": status, time: write.now}
    return await _change(write, access, invoice, action, values)


async def _change(
    write: Write,
    access: Access,
    before: Invoice,
    action: str,
    values: Mapping[str, object],
    *,
    more_changes: Mapping[str, Mapping[str, object]] | None = None,
) -> InvoiceAnswer:
    """An invoice that is sent without a number gets the next one."""
    after = replace(before, **values, updated_at=max(write.now, before.updated_at + 1))
    if action == "sent" and before.invoice_number is None:
        after = await drafting.update_and_number(write.tx, after, access.repository.owner.id)
    else:
        await drafting.update_invoice(write.tx, after)
    record = invoice_to_response(after, write.now)
    changes = {**differences(invoice_to_response(before, write.now), record), **(more_changes or {})}
    await publish_event(write, access.repository, "invoice", action, record, changes=changes)
    return InvoiceAnswer(record)
