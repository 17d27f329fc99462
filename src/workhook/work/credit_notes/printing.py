"""What a printed credit note says. Pure."""

from __future__ import annotations

from decimal import Decimal

from workhook.identity.schemas import Repository
from workhook.work.credit_notes.schemas import CreditNote
from workhook.work.invoices import printing, rules
from workhook.work.invoices.arithmetic import rows_of
from workhook.work.invoices.printing import Printed, day_text, line_of, money_text, printable, tax_lines
from workhook.work.invoices.rules import Item
from workhook.work.invoices.schemas import Invoice


def printed_note(note: CreditNote, invoice: Invoice, repository: Repository) -> Printed:
    """The page of the credit note: the parties of its invoice, what is credited, and why."""
    page = printing.printed(invoice, repository)
    sums = [("Subtotal", money_text(note.amount_minor, note.currency)), *tax_lines(rows_of(note.taxes), note.currency)]
    # A total that was credited is one line, of what it is before tax.
    whole = Item(f"Credit for invoice {invoice.invoice_number}", Decimal(1), note.amount_minor)
    facts = [("Issued", day_text(note.issued)), ("Invoice", printable(note.invoice.invoice_number))]
    return Printed(
        name=f"Credit note {note.credit_note_number}",
        title="Credit note",
        number=note.credit_note_number,
        seller=page.seller,
        initials=page.initials,
        mark=None,
        bill_from=page.bill_from,
        bill_to=page.bill_to,
        facts=[*facts, ("Project", printable(repository.title))],
        items=[line_of(each) for each in rules.items_of(note.items) or (whole,)],
        sums=sums,
        total=money_text(note.total_minor, note.currency),
        balance=[],
        notes=[("Reason", printable(note.reason))],
    )
