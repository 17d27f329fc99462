"""`/invoices/{id}/credit_notes`, `/credit_notes`: what is taken back of invoices that were sent.

Whoever sees an invoice sees its credit notes. Owners and members make them.
"""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.work.kernel.access import find_with_access
from workhook.work.kernel.settings.arithmetic import rows_of
from workhook.work.kernel.settings.parties import Party
from workhook.work.money.credit_notes import crediting
from workhook.work.money.credit_notes.schemas import CreditNote, CreditNoteAnswer, CreditNoteCreate, CreditNotesAnswer
from workhook.work.money.invoices import drafting, printing, rules
from workhook.work.money.invoices.changing import find_invoice, lock_invoice, visible
from workhook.work.money.invoices.documents import PDF, attachment, parties_now, pdf_answer, xml_answer
from workhook.work.money.invoices.einvoice import XML, EInvoice, ecredit_of
from workhook.work.money.invoices.paper import Paper
from workhook.work.money.invoices.printing import Printed, logo_of, plain_file_name
from workhook.work.money.invoices.schemas import Invoice

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")


@routes.get("/invoices/{invoice_id}/credit_notes")
async def list_credit_notes(call: Call, invoice_id: str, query: ListQuery) -> Listed[CreditNotesAnswer]:
    """List the credit notes of an invoice, the newest last."""
    key = lists.after(query, tuple[int])
    _, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    after = key[0] if key else None
    found = await crediting.rows.listed(call.database, invoice.id, after=after, limit=query.limit + 1)
    notes, headers = lists.page(call, found, query, lambda note: (note.position,))
    return Listed(CreditNotesAnswer([to_response(each) for each in notes]), headers)


@routes.post("/invoices/{invoice_id}/credit_notes")
async def create_credit_note(write: Write, invoice_id: str, wanted: CreditNoteCreate) -> CreditNoteAnswer:
    """Credit an invoice, or a part of it.

    A `total` includes tax. It is split over the rates of the invoice in proportion to what is left at each; with `tax`
    it is credited at that rate alone. `invoice_items` are before tax. More than is left at a rate is 422
    `more_than_due`, a rate that the invoice does not have is 422 `not_on_invoice`. An amount paid above the rest
    becomes `to_refund` of the invoice. Once all of it is credited, its timesheets can be invoiced again.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    _, note = await crediting.credit(write, access, invoice, wanted)
    return CreditNoteAnswer(to_response(note))


@routes.get("/credit_notes/{credit_note_id}")
async def get_credit_note(call: Call, credit_note_id: str) -> CreditNoteAnswer:
    """Get a credit note."""
    row, _ = await find_with_access(call.database, crediting.rows.by_id, actor_of(call), id=credit_note_id)
    return CreditNoteAnswer(to_response(crediting.rows.of_row(row)))


@routes.get("/credit_notes/{credit_note_id}/pdf", answers={200: {"type": "string", "format": "binary"}}, media_type=PDF)
async def get_credit_note_pdf(call: Call, credit_note_id: str) -> Answer:
    """Get a credit note as a PDF.

    Its logo and its letters are those of the invoice's PDF, and it carries its e-invoice in the same way.
    """
    row, access = await find_with_access(call.database, crediting.rows.by_id, actor_of(call), id=credit_note_id)
    note, repository = crediting.rows.of_row(row), access.repository
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=note.invoice.id)
    invoice = visible(row, access)
    return await pdf_answer(
        call,
        repository,
        note.id,
        printed_note(note, invoice, repository),
        einvoice=attachment(lambda: e_note(note, invoice, repository, parties_now(row)), note.id),
        logo_id=logo_of(invoice),
        avatar=row["project_avatar"],
        timestamp_s=note.issued // 1000,
        file_name=_file_name(note, "pdf"),
    )


@routes.get(
    "/credit_notes/{credit_note_id}/xml",
    answers={200: {"type": "string", "format": "binary"}},
    problems=(409, 422),
    media_type=XML,
)
async def get_credit_note_xml(call: Call, credit_note_id: str) -> Answer:
    """Get a credit note as an e-invoice: EN 16931, in the syntax of UN/CEFACT (CII).

    It needs what the e-invoice of its invoice needs.
    """
    row, access = await find_with_access(call.database, crediting.rows.by_id, actor_of(call), id=credit_note_id)
    note = crediting.rows.of_row(row)
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=note.invoice.id)
    document = e_note(note, visible(row, access), access.repository, parties_now(row))
    return xml_answer(document, _file_name(note, "xml"))


def _file_name(note: CreditNote, ending: str) -> str:
    """In the language of the invoice: `Rechnungskorrektur-CN-00001.pdf`."""
    return plain_file_name(f"{Paper(note.language).say('Credit note')} {note.credit_note_number}", ending)


def printed_note(note: CreditNote, invoice: Invoice, repository: Repository) -> Printed:
    """The page of the credit note."""
    return printing.printed_credit(
        invoice,
        repository,
        number=note.credit_note_number,
        issued=note.issued,
        items=rules.items_of(note.items),
        taxes=rows_of(note.taxes),
        reason=note.reason,
    )


def e_note(note: CreditNote, invoice: Invoice, repository: Repository, settings: tuple[Party, Party]) -> EInvoice:
    """The e-invoice of the credit note. Raises `Invalid`."""
    return ecredit_of(
        invoice,
        repository,
        settings,
        number=note.credit_note_number,
        issued=note.issued,
        items=rules.items_of(note.items),
        taxes=rows_of(note.taxes),
        reason=note.reason,
    )
