"""Credit notes in the database: each gets its number while the rows of its invoice and of the counter are locked."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.record_rows import values_of
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import person_shape
from workhook.work.kernel.settings import DEFAULT_LANGUAGE
from workhook.work.money.credit_notes.amounts import amounts_of, find_rates
from workhook.work.money.credit_notes.schemas import (
    CreditNote,
    CreditNoteCreate,
    credit_note_numbers,
    credit_notes,
)
from workhook.work.money.invoices import drafting, rules
from workhook.work.money.invoices.changing import change_invoice, require_issued
from workhook.work.money.invoices.counters import ONE, counted
from workhook.work.money.invoices.rules import Books, rows_text
from workhook.work.money.invoices.schemas import Invoice, invoices, language_of
from workhook.work.money.invoices.shapes import Booked, booked_of, booked_text
from workhook.work.money.payments.booking import require_room, settled
from workhook.work.money.payments.schemas import BookedOn, OfInvoices

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
    require_issued(invoice)
    books = invoice.books
    items, sums = amounts_of(invoice, await find_rates(write.tx, invoice), wanted)
    total = sums.total
    require_room(invoice, is_rest=total == books.not_credited)
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
    if after.status == "credited":  # it bills nothing: its time can be billed again
        await drafting.release(write.tx, invoice.id)
    beside = {"credit_note": to_response(note)}
    return await change_invoice(write, access, invoice, "credited", values, beside=beside), note


async def _next_number(tx: Transaction, account_id: int) -> str:
    row = await tx.fetch_one(_count, {"account_id": account_id})
    assert row is not None, "the statement inserts or updates"
    return f"CN-{row['last']:05d}"
