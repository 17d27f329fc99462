"""Payments in the database: each is booked while the row of its invoice is locked, in the order of the commits."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from workhook.core.clock import DAY_MS
from workhook.core.errors import Conflict, Fault, Invalid
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.http.lists import Found
from workhook.http.wire_types import to_amount
from workhook.identity.context import Write
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import row_reader, selected, values_of
from workhook.work.access import Access, with_access
from workhook.work.invoices.books import Books
from workhook.work.invoices.changing import change_invoice, require_issued
from workhook.work.invoices.schemas import Invoice, invoices, payments_of
from workhook.work.invoices.shapes import Booked, booked_of, booked_text
from workhook.work.payments.schemas import (
    BookedOn,
    Payment,
    PaymentCreate,
    PaymentDetails,
    RefundCreate,
    payments,
)
from workhook.work.people import membership_of, person_columns, person_of_row, person_shape
from workhook.work.schemas import if_set

BOOKED_MAX = 1000
"""Payments, refunds and credit notes of one invoice: its record names each of them."""

_people = accounts.alias("people")
_payments = (
    sa.select(
        *selected(Payment, payments),
        *person_columns(membership_of(payments.c.repository_id, _people), _people),
        payments.c.invoice_id,
        invoices.c.invoice_number,
    )
    .join_from(payments, invoices, invoices.c.id == payments.c.invoice_id)
    .outerjoin(_people, _people.c.id == payments.c.user_id)
)
_read = row_reader(Payment)
by_id = with_access(_payments.where(payments.c.id == sa.bindparam("id")), payments.c.repository_id)
_of_invoice = _payments.where(payments.c.invoice_id == sa.bindparam("invoice_id")).order_by(payments.c.position)
_page = _of_invoice.limit(big("limit"))
_page_after = _of_invoice.where(payments.c.position > big("after")).limit(big("limit"))
_insert = insert_into(payments, *(each.name for each in payments.c))
_sum = sa.cast(sa.func.coalesce(sa.func.sum(payments.c.amount_minor), 0), sa.BigInteger)
_given_back = sa.select(_sum.label("sum")).where(payments.c.refund_of == sa.bindparam("payment_id"))


def payment_of(row: Row) -> Payment:
    user = person_of_row(row) if row["user_id"] is not None else None
    return _read(row, invoice=BookedOn(row["invoice_id"], row["invoice_number"]), user=user)


async def list_payments(reader: Reader, invoice: Invoice, *, after: int | None, limit: int) -> Found[Payment]:
    """By position, behind `after`: the newest is the last."""
    if invoice.paid_minor is None and payments_of(invoice):
        return Found([marked_payment(invoice)] if after is None else [], cut=False)
    params: dict[str, Any] = {"invoice_id": invoice.id, "limit": limit}
    if after is not None:
        params["after"] = after
    rows = await reader.fetch_all(_page if after is None else _page_after, params)
    return Found(map(payment_of, rows), cut=False)


async def pay(write: Write, access: Access, invoice: Invoice, wanted: PaymentDetails) -> tuple[Invoice, Payment]:
    """The locked invoice afterwards, and the payment. Raises `Conflict`, `Invalid`."""
    require_issued(invoice)
    books = invoice.books
    amount = if_set(wanted.amount) if isinstance(wanted, PaymentCreate) else None
    if amount is None:
        if books.due == 0:
            raise Conflict("Nothing is due on the invoice.", code="nothing_due")
        amount = books.due
    if amount > books.due:
        message = f"amount: {money_text(books.due, invoice)} is due; it can be that or less"
        raise Invalid(faults=[Fault(field="amount", code="more_than_due", message=message)])
    payment = _new(write, invoice, "payment", amount, wanted)
    payment = replace(payment, method=if_set(wanted.method))
    after = Books(books.total, books.paid + amount, books.credited)
    action = "paid" if after.due == 0 else "partially_paid"
    return await _book(write, access, invoice, payment, after, action), payment


async def refund(
    write: Write, access: Access, invoice: Invoice, payment: Payment, wanted: RefundCreate
) -> tuple[Invoice, Payment]:
    """`pay` the other way, of one payment."""
    require_issued(invoice)
    if payment.kind == "refund":
        raise Conflict("This is a refund; only a payment can be given back.", code="not_a_payment")
    row = await write.tx.fetch_one(_given_back, {"payment_id": payment.id})
    assert row is not None, "a sum is always there"
    left = payment.amount_minor + row["sum"]
    amount = if_set(wanted.amount)
    if amount is None:
        if left == 0:
            raise Conflict("All of the payment was given back.", code="nothing_left")
        amount = left
    if amount > left:
        message = f"amount: {money_text(left, invoice)} is left of the payment; give back that or less"
        raise Invalid(faults=[Fault(field="amount", code="more_than_left", message=message)])
    given = replace(_new(write, invoice, "refund", -amount, wanted), refund_of=payment.id, method=payment.method)
    books = invoice.books
    after = Books(books.total, books.paid - amount, books.credited)
    return await _book(write, access, invoice, given, after, "refunded"), given


def money_text(minor: int, invoice: Invoice) -> str:
    """As messages name an amount."""
    return f"{to_amount(minor)} {invoice.currency}"


def _new(write: Write, invoice: Invoice, kind: str, amount: int, wanted: PaymentDetails | RefundCreate) -> Payment:
    """Without what only one of both has. Raises `Invalid`."""
    paid_at = if_set(wanted.paid_at)
    if paid_at is not None and paid_at > write.now + DAY_MS:
        message = "paid_at is more than a day ahead; book a payment when it has come"
        raise Invalid(faults=[Fault(field="paid_at", message=message)])
    assert invoice.invoice_number is not None, "it is issued"
    assert kind in ("payment", "refund")
    return Payment(
        id=new_id("pay"),
        kind=kind,  # type: ignore[arg-type]  # one of both
        amount_minor=amount,
        currency=invoice.currency,
        paid_at=write.now if paid_at is None else paid_at,
        method=None,
        reference=if_set(wanted.reference),
        refund_of=None,
        invoice=BookedOn(invoice.id, invoice.invoice_number),
        user=person_shape(write.actor.user),
        created_at=write.now,
        position=len(payments_of(invoice)) + 1,
    )


async def _book(write: Write, access: Access, invoice: Invoice, payment: Payment, after: Books, action: str) -> Invoice:
    require_room(invoice)
    booked = _with_marked(write.tx, access, invoice)
    _insert_payment(write.tx, access.repository.id, payment, write.actor.user.id)
    entry = Booked(payment.id, payment.amount_minor, payment.paid_at)
    values = {
        "paid_minor": after.paid,
        "payments": booked_text([*booked, entry]),
        **settled(invoice, after, payment.paid_at),
    }
    return await change_invoice(write, access, invoice, action, values, beside={"payment": to_response(payment)})


def settled(invoice: Invoice, after: Books, at_ms: int) -> dict[str, object]:
    """The state that follows from the sums, and since when nothing is due."""
    paid_at = None if after.due else at_ms if invoice.paid_at is None or invoice.books.due else invoice.paid_at
    return {"status": after.status, "paid_at": paid_at}


def require_room(invoice: Invoice) -> None:
    """Raises `Conflict` where the invoice has as many bookings as its record can name."""
    if len(booked_of(invoice.payments)) + len(booked_of(invoice.credit_notes)) >= BOOKED_MAX:
        message = f"The invoice has {BOOKED_MAX} payments and credit notes, and can have no more."
        raise Conflict(message, code="too_many")


def _with_marked(tx: Transaction, access: Access, invoice: Invoice) -> list[Booked]:
    """Its payments. One that was marked as paid by a process of an earlier version gets the row that it lacks."""
    booked = payments_of(invoice)
    if invoice.paid_minor is None and booked:
        _insert_payment(tx, access.repository.id, marked_payment(invoice), None)
    return booked


def marked_payment(invoice: Invoice) -> Payment:
    """Of an invoice that was marked as paid before there were payments."""
    [entry] = payments_of(invoice)
    assert invoice.invoice_number is not None, "it is issued"
    return Payment(
        id=entry.id,
        kind="payment",
        amount_minor=entry.amount_minor,
        currency=invoice.currency,
        paid_at=entry.at_ms,
        method=None,
        reference=None,
        refund_of=None,
        invoice=BookedOn(invoice.id, invoice.invoice_number),
        user=None,
        created_at=entry.at_ms,
        position=1,
    )


def _insert_payment(tx: Transaction, repository_id: int, payment: Payment, user_id: int | None) -> None:
    owners = {"repository_id": repository_id, "invoice_id": payment.invoice.id, "user_id": user_id}
    tx.defer(_insert, [{**values_of(payment), **owners}])
