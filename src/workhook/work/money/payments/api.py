"""Payments and refunds of invoices: `/invoices/{id}/payments` and `/payments`.

Users who can see an invoice can see its payments. Owners and members record them.
"""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.invoices.actions import find_invoice, lock_invoice
from workhook.work.money.invoices.schemas import InvoiceAnswer, invoice_to_response
from workhook.work.money.payments import recording
from workhook.work.money.payments.schemas import (
    PaymentAnswer,
    PaymentCreate,
    PaymentDetails,
    PaymentsAnswer,
    RefundCreate,
)

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")


@routes.get("/invoices/{invoice_id}/payments")
async def list_payments(call: Call, invoice_id: str, query: ListQuery) -> Listed[PaymentsAnswer]:
    """List the payments and refunds of an invoice, newest last."""
    after = cursor_of(query, recording.rows.listing.order)
    access, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    payments, headers = await read_for(
        call, recording.rows.listing, source_of_project(access), query, after, invoice_id=invoice.id
    )
    return Listed(PaymentsAnswer([to_response(each) for each in payments]), headers)


@routes.post("/invoices/{invoice_id}/payments")
async def create_payment(write: Write, invoice_id: str, wanted: PaymentCreate) -> PaymentAnswer:
    """Record a payment.

    Without `amount`, the full amount due is recorded; if nothing is due, the request fails with 409 `nothing_due`.
    Paying more than is due fails with 422 `more_than_due`.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    _, payment = await recording.pay(write, access, invoice, wanted)
    return PaymentAnswer(to_response(payment))


@routes.get("/payments/{payment_id}")
async def get_payment(call: Call, payment_id: str) -> PaymentAnswer:
    """Get a payment or a refund."""
    return PaymentAnswer(to_response(await recording.find_payment(call.database, actor_of(call), payment_id)))


@routes.post("/payments/{payment_id}/refund")
async def refund_payment(write: Write, payment_id: str, wanted: RefundCreate) -> PaymentAnswer:
    """Refund a payment, fully or in part.

    Without `amount`, everything that is left of the payment is refunded. The invoice becomes due again, unless it had
    an amount `to_refund`.
    """
    payment = await recording.find_payment(write.tx, write.actor, payment_id)
    access, invoice = await lock_invoice(write, payment.invoice.id)
    _, refund = await recording.refund(write, access, invoice, payment, wanted)
    return PaymentAnswer(to_response(refund))


@routes.post("/invoices/{invoice_id}/pay")
async def pay_invoice(write: Write, invoice_id: str, wanted: PaymentDetails) -> InvoiceAnswer:
    """Record a payment of the full amount due.

    An invoice that is already paid is left unchanged.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status != "paid":
        invoice, _ = await recording.pay(write, access, invoice, wanted)
    return InvoiceAnswer(invoice_to_response(invoice, write.now))
