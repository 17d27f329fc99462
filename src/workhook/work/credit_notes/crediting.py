"""Credit notes in the database: each gets its number while the rows of its invoice and of the counter are locked."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.errors import Conflict, Fault, Invalid
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.http.money import AMOUNT_MAX_MINOR, minor_of
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.record_rows import values_of
from workhook.work.access import Access
from workhook.work.credit_notes.schemas import (
    CreditNote,
    CreditNoteCreate,
    credit_note_numbers,
    credit_notes,
)
from workhook.work.invoices import rules
from workhook.work.invoices.arithmetic import Discount, Sums, part_of, rows_text
from workhook.work.invoices.books import Books
from workhook.work.invoices.changing import change_invoice
from workhook.work.invoices.counters import ONE, counted
from workhook.work.invoices.parties import DEFAULT_LANGUAGE
from workhook.work.invoices.planning import items_of_inputs
from workhook.work.invoices.rules import Item
from workhook.work.invoices.schemas import Invoice, invoices, language_of
from workhook.work.invoices.shapes import Booked, booked_of, booked_text
from workhook.work.payments.booking import begin, money_text, settled
from workhook.work.payments.of_invoices import OfInvoices
from workhook.work.payments.schemas import BookedOn
from workhook.work.people import person_shape
from workhook.work.schemas import if_set

rows = OfInvoices(
    CreditNote,
    credit_notes,
    buyer=invoices.c.buyer,
    seller=invoices.c.seller,
    language=sa.func.coalesce(invoices.c.language, DEFAULT_LANGUAGE),
)
_insert = insert_into(credit_notes, *(each.name for each in credit_notes.c))
# Whoever has counted holds the counter until the transaction ends: what is rolled back gives its number back.
_count = counted(credit_note_numbers, ONE)


async def credit(
    write: Write, access: Access, invoice: Invoice, wanted: CreditNoteCreate
) -> tuple[Invoice, CreditNote]:
    """The locked invoice afterwards, and the credit note. Raises `Conflict`, `Invalid`."""
    invoice = begin(write, access, invoice)
    books = invoice.books
    items, sums = _wanted(invoice, wanted)
    total = sums.total
    if total > books.not_credited:
        raise _more_than_due("invoice_items", invoice)
    assert invoice.invoice_number is not None, "it is issued"
    note = CreditNote(
        id=new_id("crn"),
        credit_note_number=await _next_number(write.tx, access.repository.owner.id),
        invoice=BookedOn(invoice.id, invoice.invoice_number),
        amount_minor=sums.amount,
        taxes=rows_text(sums.taxes),
        total_minor=total,
        currency=invoice.currency,
        reason=wanted.reason,
        issued=write.now,
        items=rules.items_text(items),
        buyer=invoice.buyer,
        seller=invoice.seller,
        language=language_of(invoice),
        user=person_shape(write.actor.user),
        position=len(booked_of(invoice.credit_notes)) + 1,
    )
    owners = {"repository_id": access.repository.id, "account_id": access.repository.owner.id}
    who = {"invoice_id": invoice.id, "user_id": write.actor.user.id}
    write.tx.defer(_insert, [{**values_of(note), **owners, **who}])
    after = Books(books.total, books.paid, books.credited + total)
    values = {
        "credited_minor": after.credited,
        "credit_notes": booked_text([*booked_of(invoice.credit_notes), Booked(note.id, total, write.now)]),
        **settled(invoice, after, write.now),
    }
    beside = {"credit_note": to_response(note)}
    return await change_invoice(write, access, invoice, "credited", values, beside=beside), note


def _wanted(invoice: Invoice, wanted: CreditNoteCreate) -> tuple[list[Item], Sums]:
    """The lines, and what they or the total come to. Raises `Conflict`, `Invalid`."""
    given, asked = if_set(wanted.invoice_items), if_set(wanted.total)
    total = None if asked is None else minor_of(asked, invoice.currency, "total")
    if given is not None:
        if total is not None:
            message = "total: the lines say how much is credited; leave out one of both"
            raise Invalid(faults=[Fault(field="total", message=message)])
        items = items_of_inputs(given, invoice.currency)
        if faults := [f for n, each in enumerate(items) for f in rules.item_faults(each, f"invoice_items[{n}].")]:
            raise Invalid(faults=faults)
        sums = rules.sums_of_items(items, invoice.rate, Discount())
        if sums.amount > AMOUNT_MAX_MINOR:
            raise _more_than_due("invoice_items", invoice)
        if sums.amount == 0:
            message = "invoice_items: the lines come to nothing; a credit note takes something back"
            raise Invalid(faults=[Fault(field="invoice_items", code="empty", message=message)])
        return items, sums
    if total is None:
        total = invoice.books.not_credited
        if total == 0:
            raise Conflict("All of the invoice is credited.", code="nothing_due")
    if total > invoice.books.not_credited:
        raise _more_than_due("total", invoice)
    return [], Sums(part_of(invoice.tax_rows, total))


def _more_than_due(field: str, invoice: Invoice) -> Invalid:
    message = f"{field}: {money_text(invoice.books.not_credited, invoice)} is not credited yet; it can be that or less"
    return Invalid(faults=[Fault(field=field, code="more_than_due", message=message)])


async def _next_number(tx: Transaction, account_id: int) -> str:
    row = await tx.fetch_one(_count, {"account_id": account_id})
    assert row is not None, "the statement inserts or updates"
    return f"CN-{row['last']:05d}"
