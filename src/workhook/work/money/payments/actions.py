"""Payments and refunds of invoices: `/invoices/{id}/payments` and `/payments`.

Users who can see an invoice can see its payments. Owners and members record them. Each is written while its invoice's
row is locked, in commit order.
"""

from __future__ import annotations

from decimal import Decimal

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.core.errors import Conflict, Invalid, Number, say
from workhook.core.ids import new_id
from workhook.core.money import TOTAL_MAX_MINOR, to_amount, to_minor
from workhook.core.records import to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.storage.metadata import insert_into
from workhook.storage.record_rows import values_of
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.schemas import if_set
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.invoices.actions import (
    answer_of,
    change_invoice,
    find_invoice,
    lock_invoice,
    notify_payment,
    require_issued,
)
from workhook.work.money.invoices.rules import Balance
from workhook.work.money.invoices.schemas import Booked, Invoice, InvoiceAnswer, booked_of, booked_text
from workhook.work.money.payments.schemas import (
    InvoiceEntries,
    InvoiceReference,
    Payment,
    PaymentAnswer,
    PaymentCreate,
    PaymentDetails,
    PaymentsAnswer,
    RefundCreate,
    payments,
)

BOOKED_MAX = 1000
"""The maximum number of payments, refunds and credit notes of an invoice; its record lists them all.

Beyond it, only the whole remainder can be paid, refunded or credited, and a payment only up to twice the number.
"""

rows = InvoiceEntries(Payment, payments)
_insert = insert_into(payments, *(each.name for each in payments.c))
_sum = sa.cast(sa.func.coalesce(sa.func.sum(payments.c.amount_minor), 0), sa.BigInteger)
_given_back = sa.select(_sum.label("sum")).where(payments.c.refund_of == sa.bindparam("payment_id"))


routes = Routes(WORK_API, "Invoices")


@routes.get("/invoices/{invoice_id}/payments")
async def list_payments(call: Call, invoice_id: str, query: ListQuery) -> Listed[PaymentsAnswer]:
    """List the payments and refunds of an invoice, newest last."""
    after = cursor_of(query, rows.listing.order)
    access, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    found, headers = await read_for(call, rows.listing, source_of_project(access), query, after, invoice_id=invoice.id)
    return Listed(PaymentsAnswer([to_response(each) for each in found]), headers)


@routes.post("/invoices/{invoice_id}/payments")
async def create_payment(write: Write, invoice_id: str, wanted: PaymentCreate) -> PaymentAnswer:
    """Record a payment.

    Without `amount`, the full amount due is recorded; if nothing is due, the request fails with 409 `nothing_due`.
    Paying more than is due fails with 422 `more_than_due`.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    _, payment = await pay(write, access, invoice, wanted)
    return PaymentAnswer(to_response(payment))


@routes.get("/payments/{payment_id}")
async def get_payment(call: Call, payment_id: str) -> PaymentAnswer:
    """Get a payment or a refund."""
    return PaymentAnswer(to_response(await find_payment(call.database, actor_of(call), payment_id)))


@routes.post("/payments/{payment_id}/refund")
async def refund_payment(write: Write, payment_id: str, wanted: RefundCreate) -> PaymentAnswer:
    """Refund a payment, fully or in part.

    Without `amount`, everything that is left of the payment is refunded. The invoice becomes due again, unless it had
    an amount `to_refund`.
    """
    payment = await find_payment(write.tx, write.actor, payment_id)
    access, invoice = await lock_invoice(write, payment.invoice.id)
    return PaymentAnswer(to_response(await refund(write, access, invoice, payment, wanted)))


@routes.post("/invoices/{invoice_id}/pay")
async def pay_invoice(write: Write, invoice_id: str, wanted: PaymentDetails) -> InvoiceAnswer:
    """Record a payment of the full amount due.

    An invoice that is already paid is left unchanged.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status != "paid":
        invoice, _ = await pay(write, access, invoice, wanted)
    return answer_of(invoice, write.now)


async def find_payment(reader: Reader, actor: Actor, payment_id: str) -> Payment:
    row, _ = await find_with_access(reader, rows.by_id, actor, id=payment_id)
    return rows.of_row(row)


async def pay(write: Write, access: Access, invoice: Invoice, wanted: PaymentDetails) -> tuple[Invoice, Payment]:
    """Record a payment of a locked invoice. Raises `Conflict` or `Invalid`."""
    require_issued(invoice)
    books = invoice.books
    asked = if_set(wanted.amount) if isinstance(wanted, PaymentCreate) else None
    nothing = Conflict(say("Nothing is due on the invoice."), code="nothing_due")
    more = say("amount: only {} is due; enter that amount or less", _money_text(books.due, invoice))
    amount = _amount(invoice, asked, books.due, nothing, "more_than_due", more)
    require_capacity(invoice, is_rest=amount == books.due, limit=2 * BOOKED_MAX)
    payment = _new(write, invoice, amount, wanted, if_set(wanted.method))
    after = Balance(books.total, books.paid + amount, books.credited)
    action = "paid" if after.due == 0 else "partially_paid"
    return await _book(write, access, invoice, payment, after, action), payment


async def refund(write: Write, access: Access, invoice: Invoice, payment: Payment, wanted: RefundCreate) -> Payment:
    """Refund a payment, fully or in part. Raises `Conflict` or `Invalid`."""
    require_issued(invoice)
    if payment.kind == "refund":
        raise Conflict(say("This is a refund. Only payments can be refunded."), code="not_a_payment")
    row = await write.tx.fetch_row(_given_back, {"payment_id": payment.id})
    left = payment.amount_minor + row["sum"]
    nothing = Conflict(say("The payment is fully refunded."), code="nothing_left")
    more = say("amount: {} of the payment can be refunded; enter that amount or less", _money_text(left, invoice))
    amount = _amount(invoice, if_set(wanted.amount), left, nothing, "more_than_left", more)
    require_capacity(invoice, is_rest=amount == left)
    given = _new(write, invoice, -amount, wanted, payment.method, payment.id)
    books = invoice.books
    after = Balance(books.total, books.paid - amount, books.credited)
    await _book(write, access, invoice, given, after, "refunded")
    return given


def _amount(invoice: Invoice, asked: Decimal | None, left: int, nothing: Conflict, code: str, more: str) -> int:
    """Return the requested amount or, without one, everything left.

    Raises `nothing` if nothing is left, and `Invalid` if the amount exceeds `left`.
    """
    if asked is None:
        if not left:
            raise nothing
        return left
    amount = to_minor(asked, invoice.currency, "amount", maximum_minor=TOTAL_MAX_MINOR)
    if amount > left:
        raise Invalid.at("amount", more, code=code)
    return amount


def _money_text(minor: int, invoice: Invoice) -> str:
    return f"{to_amount(minor, invoice.currency)} {invoice.currency}"


def _new(
    write: Write,
    invoice: Invoice,
    amount: int,
    wanted: PaymentDetails | RefundCreate,
    method: str | None,
    refund_of: str | None = None,
) -> Payment:
    """Build a payment or refund. Raises `Invalid` if `paid_at` is more than a day ahead."""
    paid_at = if_set(wanted.paid_at)
    if paid_at is not None and paid_at > write.now + DAY_MS:
        message = "paid_at must not be more than a day in the future; record the payment when it arrives"
        raise Invalid.at("paid_at", message)
    assert invoice.invoice_number is not None, "it is issued"
    return Payment(
        id=new_id("pay"),
        kind="refund" if refund_of else "payment",
        amount_minor=amount,
        currency=invoice.currency,
        paid_at=write.now if paid_at is None else paid_at,
        method=method,
        reference=if_set(wanted.reference),
        refund_of=refund_of,
        invoice=InvoiceReference(invoice.id, invoice.invoice_number),
        user=person_to_response(write.actor.user),
        created_at=write.now,
        position=len(booked_of(invoice.payments)) + 1,
    )


async def _book(
    write: Write, access: Access, invoice: Invoice, payment: Payment, after: Balance, action: str
) -> Invoice:
    owners = {"repository_id": access.repository.id, "invoice_id": invoice.id, "user_id": write.actor.user.id}
    write.tx.defer(_insert, [{**values_of(payment), **owners}])
    entry = Booked(payment.id, payment.amount_minor, payment.paid_at)
    values = {
        "paid_minor": after.paid,
        "payments": booked_text([*booked_of(invoice.payments), entry]),
        **settled(invoice, after, payment.paid_at),
    }
    records = {"payment": to_response(payment)}
    changed = await change_invoice(write, access, invoice, action, values, extra_records=records)
    notify_payment(write, access.repository, invoice.id, payment.id)
    return changed


def settled(invoice: Invoice, after: Balance, at_ms: int) -> dict[str, object]:
    """Return the status and `paid_at` that follow from the sums. An invoice that was only credited has no `paid_at`."""
    is_paid = not after.due and (after.paid or after.status != "credited")
    since = at_ms if invoice.paid_at is None or invoice.books.due else invoice.paid_at
    return {"status": after.status, "paid_at": since if is_paid else None}


def require_capacity(invoice: Invoice, *, is_rest: bool, limit: int | None = None) -> None:
    """Raise `Conflict` if the invoice has too many entries to record another one.

    If `is_rest`, the new entry covers the whole remainder. It is then allowed beyond `BOOKED_MAX`, up to `limit`
    entries in all (None: any number).
    """
    count = len(booked_of(invoice.payments)) + len(booked_of(invoice.credit_notes))
    if count < BOOKED_MAX or (is_rest and (limit is None or count < limit)):
        return
    message = say(
        "The invoice already has {} payments and credit notes. Another one must cover the full remaining amount; "
        "omit the amount.",
        Number(count),
    )
    if is_rest:
        message = say(
            "The invoice has {} payments and credit notes; credit the remaining amount instead.", Number(count)
        )
    raise Conflict(message, code="too_many")
