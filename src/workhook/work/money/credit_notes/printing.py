"""What a printed credit note says, and its e-invoice. Pure."""

from __future__ import annotations

from workhook.identity.schemas import Repository
from workhook.work.kernel.settings.arithmetic import rows_of
from workhook.work.kernel.settings.parties import Party
from workhook.work.money.credit_notes.schemas import CreditNote
from workhook.work.money.invoices import printing, rules
from workhook.work.money.invoices.einvoice import EInvoice, ecredit_of
from workhook.work.money.invoices.printing import Printed
from workhook.work.money.invoices.schemas import Invoice


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
