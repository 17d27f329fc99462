"""The PDF and the e-invoice of a credit note."""

from __future__ import annotations

from workhook.http.calls import Answer, Call
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Repository
from workhook.work.kernel.access import find_with_access
from workhook.work.kernel.settings import Party
from workhook.work.money.credit_notes import crediting
from workhook.work.money.credit_notes.schemas import CreditNote
from workhook.work.money.invoices import drafting, printing, rules
from workhook.work.money.invoices.changing import visible
from workhook.work.money.invoices.documents import attachment, parties_now, pdf_answer, xml_answer
from workhook.work.money.invoices.einvoice import EInvoice, ecredit_of
from workhook.work.money.invoices.paper import Paper
from workhook.work.money.invoices.printing import Printed, logo_of, plain_file_name
from workhook.work.money.invoices.rules import rows_of
from workhook.work.money.invoices.schemas import Invoice


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
