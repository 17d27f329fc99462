"""`/projects/{id}/invoices`, `/invoices`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import UnsetType

from workhook.core.clock import now_ms
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.access import find_access
from workhook.work.announce import base_of
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

TAG = "Invoices"
PDF = "application/pdf"

Verb = Callable[..., Awaitable[Invoice]]


def _shown(invoice: Invoice) -> InvoiceAnswer:
    return InvoiceAnswer(invoice_to_response(invoice, now_ms()))


async def list_invoices(call: Call) -> Answer:
    query = parameters.read_query(call, InvoiceList)
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), call.path("id"))
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
    return Answer(InvoicesAnswer([invoice_to_response(each, now) for each in invoices]), headers=headers)


async def create_invoice(call: Call) -> Answer:
    wanted = await parameters.read(call, InvoiceCreate)

    async def change(tx: Transaction) -> Answer:
        made = await actions.create(tx, actor_of(call), call.path("id"), wanted, base=base_of(call))
        return Answer(_shown(made))

    return await call.write(change)


async def get_invoice(call: Call) -> Answer:
    seen = await actions.look_at(call.database, actor_of(call), call.path("invoice_id"))
    return Answer(_shown(seen.invoice))


async def edit_invoice(call: Call) -> Answer:
    wanted = await parameters.read(call, InvoiceEdit)

    async def change(tx: Transaction) -> Answer:
        taken = await actions.take(tx, actor_of(call), call.path("invoice_id"))
        conditions.require_match(call, _shown(taken.invoice))
        return Answer(_shown(await actions.edit(tx, actor_of(call), taken, wanted, base=base_of(call))))

    return await call.write(change)


async def delete_invoice(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        taken = await actions.take(tx, actor_of(call), call.path("invoice_id"))
        conditions.require_match(call, _shown(taken.invoice))
        await actions.delete(tx, actor_of(call), taken, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


async def send_invoice(call: Call) -> Answer:
    return await _do(call, actions.send)


async def pay_invoice(call: Call) -> Answer:
    return await _do(call, actions.pay)


async def void_invoice(call: Call) -> Answer:
    return await _do(call, actions.void)


async def _do(call: Call, verb: Verb) -> Answer:
    async def change(tx: Transaction) -> Answer:
        taken = await actions.take(tx, actor_of(call), call.path("invoice_id"))
        return Answer(_shown(await verb(tx, actor_of(call), taken, base=base_of(call))))

    return await call.write(change)


async def get_invoice_pdf(call: Call) -> Answer:
    seen = await actions.look_at(call.database, actor_of(call), call.path("invoice_id"))
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


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/invoices",
        list_invoices,
        "list_invoices",
        "List a project's invoices",
        "work.read",
        tag=TAG,
        query=parameters.documented(InvoiceList),
        answers={200: InvoicesAnswer},
        problems=(404, 422),
        description="Clients do not see drafts.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/invoices",
        create_invoice,
        "create_invoice",
        "Draw up an invoice",
        "work.write",
        tag=TAG,
        body=InvoiceCreate,
        query=parameters.documented(InvoiceCreate, or_body=True),
        answers={200: InvoiceAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="A draft. Its timesheets are claimed: no other invoice can have them.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/invoices/{invoice_id}",
        get_invoice,
        "get_invoice",
        "Get an invoice",
        "work.read",
        tag=TAG,
        answers={200: InvoiceAnswer},
        problems=(404,),
    ),
    Operation(
        AREA_A,
        "PATCH",
        "/invoices/{invoice_id}",
        edit_invoice,
        "edit_invoice",
        "Change an invoice",
        "work.write",
        tag=TAG,
        body=InvoiceEdit,
        query=parameters.documented(InvoiceEdit, or_body=True),
        answers={200: InvoiceAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
        description="Once it is sent, its lines, timesheets, tax, currency and number stay; once void, all of it.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/invoices/{invoice_id}",
        delete_invoice,
        "delete_invoice",
        "Delete a draft",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="Its timesheets can be invoiced again.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/invoices/{invoice_id}/send",
        send_invoice,
        "send_invoice",
        "Issue a draft: it gets its number, and its amounts stay",
        "work.write",
        tag=TAG,
        answers={200: InvoiceAnswer},
        problems=(403, 404, 409, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/invoices/{invoice_id}/pay",
        pay_invoice,
        "pay_invoice",
        "Note that an invoice was paid",
        "work.write",
        tag=TAG,
        answers={200: InvoiceAnswer},
        problems=(403, 404, 409, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/invoices/{invoice_id}/void",
        void_invoice,
        "void_invoice",
        "Void an invoice that was sent",
        "work.write",
        tag=TAG,
        answers={200: InvoiceAnswer},
        problems=(403, 404, 409, 422),
        description="It keeps its number; its timesheets can be invoiced again.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/invoices/{invoice_id}/pdf",
        get_invoice_pdf,
        "get_invoice_pdf",
        "Get an invoice as a PDF",
        "work.read",
        tag=TAG,
        answers={200: {"type": "string", "format": "binary"}},
        problems=(404,),
        media_type=PDF,
        description="A draft is marked as one. The logo is the project's `avatar` if that is a PNG, JPEG or SVG among "
        "the project's files that is not private and is drawn within two seconds; otherwise the initials of who bills "
        "stand in its place. An organization's invoices are printed one after the other; 503 `pdf_unavailable`: too "
        "many wait already, or it took too long. "
        "`X-Missing-Characters` is there where no font of the server has some characters, which are boxes then: the "
        "first of them, such as `U+6F22`.",
    ),
)
