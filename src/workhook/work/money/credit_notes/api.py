"""Credit notes of issued invoices: `/invoices/{id}/credit_notes` and `/credit_notes`.

Users who can see an invoice can see its credit notes. Owners and members create them.
"""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.kernel.access import find_with_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.credit_notes import actions
from workhook.work.money.credit_notes.schemas import CreditNoteAnswer, CreditNoteCreate, CreditNotesAnswer
from workhook.work.money.invoices.actions import find_invoice, lock_invoice
from workhook.work.money.invoices.documents import PDF
from workhook.work.money.invoices.einvoice import XML

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")


@routes.get("/invoices/{invoice_id}/credit_notes")
async def list_credit_notes(call: Call, invoice_id: str, query: ListQuery) -> Listed[CreditNotesAnswer]:
    """List the credit notes of an invoice, newest last."""
    after = cursor_of(query, actions.rows.listing.order)
    access, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    notes, headers = await read_for(
        call, actions.rows.listing, source_of_project(access), query, after, invoice_id=invoice.id
    )
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
    _, note = await actions.credit(write, access, invoice, wanted)
    return CreditNoteAnswer(to_response(note))


@routes.get("/credit_notes/{credit_note_id}")
async def get_credit_note(call: Call, credit_note_id: str) -> CreditNoteAnswer:
    """Get a credit note."""
    row, _ = await find_with_access(call.database, actions.rows.by_id, actor_of(call), id=credit_note_id)
    return CreditNoteAnswer(to_response(actions.rows.of_row(row)))


routes.get("/credit_notes/{credit_note_id}/pdf", answers={200: {"type": "string", "format": "binary"}}, media_type=PDF)(
    actions.get_credit_note_pdf
)

routes.get(
    "/credit_notes/{credit_note_id}/xml",
    answers={200: {"type": "string", "format": "binary"}},
    problems=(409, 422),
    media_type=XML,
)(actions.get_credit_note_xml)
