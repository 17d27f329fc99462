"""Credit notes of issued invoices, and their documents: `/invoices/{id}/credit_notes` and `/credit_notes`.

Users who can see an invoice can see its credit notes. Owners and members create them. A number is assigned while the
rows of the invoice and the counter are locked.
"""

from __future__ import annotations

from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.storage import Row
from workhook.storage.metadata import insert_into
from workhook.storage.record_rows import values_of
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.credit_notes.amounts import amounts_of, find_rates
from workhook.work.money.credit_notes.schemas import (
    CreditNote,
    CreditNoteAnswer,
    CreditNoteCreate,
    CreditNotesAnswer,
    credit_note_numbers,
    credit_notes,
)
from workhook.work.money.invoices import queries, rules
from workhook.work.money.invoices.actions import change_invoice, find_invoice, lock_invoice, require_issued, visible
from workhook.work.money.invoices.documents import BINARY, PDF, document_of, parties_now, pdf_answer, xml_answer
from workhook.work.money.invoices.einvoice import XML, einvoice_of
from workhook.work.money.invoices.printing import file_name
from workhook.work.money.invoices.rules import Balance, rows_text
from workhook.work.money.invoices.schemas import Booked, Invoice, booked_of, booked_text, invoices
from workhook.work.money.payments.actions import require_capacity, settled
from workhook.work.money.payments.schemas import InvoiceEntries, InvoiceReference

rows = InvoiceEntries(
    CreditNote,
    credit_notes,
    length(*(credit_notes.c[name] for name in ("taxes", "reason", "items"))),
    buyer=invoices.c.buyer,
    seller=invoices.c.seller,
    language=invoices.c.language,
)
_insert = insert_into(credit_notes, *(each.name for each in credit_notes.c))
# Counting locks the counter until the transaction ends; a rollback returns the number.
_count = queries.increment_counter(credit_note_numbers, queries.ONE)


routes = Routes(WORK_API, "Invoices")


@routes.get("/invoices/{invoice_id}/credit_notes")
async def list_credit_notes(call: Call, invoice_id: str, query: ListQuery) -> Listed[CreditNotesAnswer]:
    """List the credit notes of an invoice, newest last."""
    after = cursor_of(query, rows.listing.order)
    access, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    notes, headers = await read_for(call, rows.listing, source_of_project(access), query, after, invoice_id=invoice.id)
    return Listed(CreditNotesAnswer([to_response(each) for each in notes]), headers)


@routes.post("/invoices/{invoice_id}/credit_notes")
async def create_credit_note(write: Write, invoice_id: str, wanted: CreditNoteCreate) -> CreditNoteAnswer:
    """Credit an invoice, fully or in part.

    A `total` includes tax. It is split over the tax rates of the invoice in proportion to the amounts left; with `tax`,
    it is credited at that rate only. `invoice_items` are before tax. Crediting more than is left at a rate fails with
    422 `more_than_due`, and a rate that is not on the invoice with 422 `not_on_invoice`. If the invoice was paid beyond
    the remaining total, the difference becomes its `to_refund`. Once an invoice is fully credited, its timesheets can
    be invoiced again.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    return CreditNoteAnswer(to_response(await credit(write, access, invoice, wanted)))


async def credit(write: Write, access: Access, invoice: Invoice, wanted: CreditNoteCreate) -> CreditNote:
    """Credit a locked invoice. Raises `Conflict` or `Invalid`."""
    require_issued(invoice)
    books = invoice.books
    items, sums = amounts_of(invoice, await find_rates(write.tx, invoice), wanted)
    total = sums.total
    require_capacity(invoice, is_rest=total == books.not_credited)
    assert invoice.invoice_number is not None, "it is issued"
    counted = await write.tx.fetch_row(_count, {"account_id": access.repository.owner.id})
    note = CreditNote(
        id=new_id("crn"),
        credit_note_number=f"CN-{counted['last']:05d}",
        invoice=InvoiceReference(invoice.id, invoice.invoice_number),
        amount_minor=sums.amount,
        taxes=rows_text(sums.taxes),
        total_minor=total,
        currency=invoice.currency,
        reason=wanted.reason,
        issued=write.now,
        items=rules.items_text(items),
        buyer=invoice.buyer,
        seller=invoice.seller_shown,
        language=invoice.language,
        user=person_to_response(write.actor.user),
        position=len(booked_of(invoice.credit_notes)) + 1,
    )
    owners = {"repository_id": access.repository.id, "account_id": access.repository.owner.id}
    who = {"invoice_id": invoice.id, "user_id": write.actor.user.id}
    write.tx.defer(_insert, [{**values_of(note), **owners, **who}])
    after = Balance(books.total, books.paid, books.credited + total)
    values = {
        "credited_minor": after.credited,
        "credit_notes": booked_text([*booked_of(invoice.credit_notes), Booked(note.id, total, write.now)]),
        **settled(invoice, after, write.now),
    }
    if after.status == "credited":  # the invoice's time can be billed again
        await queries.release(write.tx, invoice.id)
    records = {"credit_note": to_response(note)}
    await change_invoice(write, access, invoice, "credited", values, extra_records=records)
    return note


@routes.get("/credit_notes/{credit_note_id}")
async def get_credit_note(call: Call, credit_note_id: str) -> CreditNoteAnswer:
    """Get a credit note."""
    row, _ = await find_with_access(call.database, rows.by_id, actor_of(call), id=credit_note_id)
    return CreditNoteAnswer(to_response(rows.of_row(row)))


@routes.get("/credit_notes/{credit_note_id}/pdf", answers=BINARY, media_type=PDF)
async def get_credit_note_pdf(call: Call, credit_note_id: str) -> Response:
    """Get a credit note as a PDF.

    The logo and fonts are those of the invoice's PDF, and the e-invoice is embedded in the same way.
    """
    note, invoice, access, row = await _with_invoice(call, credit_note_id)
    return await pdf_answer(call, access.repository, document_of(invoice, access.repository, row, note.credit))


@routes.get("/credit_notes/{credit_note_id}/xml", answers=BINARY, problems=(409, 422), media_type=XML)
async def get_credit_note_xml(call: Call, credit_note_id: str) -> Response:
    """Get a credit note as an e-invoice according to EN 16931, in the UN/CEFACT CII syntax.

    It requires the same data as the e-invoice of its invoice.
    """
    note, invoice, access, row = await _with_invoice(call, credit_note_id)
    document = einvoice_of(invoice, access.repository, parties_now(row), note.credit)
    return xml_answer(document, file_name(invoice, "xml", credit=note.credit))


async def _with_invoice(call: Call, credit_note_id: str) -> tuple[CreditNote, Invoice, Access, Row]:
    """Find the credit note and its invoice, with the row of `queries.by_id`. Raises `NotFound`."""
    row, _ = await find_with_access(call.database, rows.by_id, actor_of(call), id=credit_note_id)
    note = rows.of_row(row)
    row, access = await find_with_access(call.database, queries.by_id, actor_of(call), id=note.invoice.id)
    return note, visible(row, access), access, row
