"""The money of an invoice: what came in, what was given back, what was credited, and the forms that book it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, date, tzinfo
from typing import TypeVar

import msgspec

from workhook.core.errors import Conflict, Fault, Invalid, NotFound
from workhook.core.money import DEFAULT_CURRENCY, amount_of
from workhook.core.zones import day_in, written_day
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.storage import Reader
from workhook.web.billing.view import LINE, UNBILLED, invoice_address, invoice_at
from workhook.web.billing.view import show_invoice as show_page
from workhook.web.frame.formats import number
from workhook.web.frame.forms import ChangedMeanwhile, PageForm, form_page
from workhook.web.frame.places import AmountField, Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.kernel.access import Access
from workhook.work.money.credit_notes import crediting, documents
from workhook.work.money.credit_notes.amounts import CreditableLine, find_rates, lines_of, whole_line
from workhook.work.money.credit_notes.rates import RateBooks
from workhook.work.money.credit_notes.schemas import CreditedItemInput, CreditNote, CreditNoteCreate
from workhook.work.money.invoices import changing
from workhook.work.money.invoices.days import zone_of_invoice
from workhook.work.money.invoices.rounded_time import TimeOnInvoice, find_rounded
from workhook.work.money.invoices.rules import Item, items_of
from workhook.work.money.invoices.schemas import Invoice
from workhook.work.money.payments import booking
from workhook.work.money.payments.schemas import Payment, PaymentCreate, RefundCreate

T = TypeVar("T")

places = Places("billing")

PAYMENT, CREDIT, CREDIT_LINE = "payment", "credit", "credit_line"
FIELDS = ("amount", "paid_at", "method", "reference", "total", "reason", "rate", "line", "unit_price")
_ALL = 4 * booking.BOOKED_MAX  # with what takes all that is left


class Money(msgspec.Struct):
    """What the page shows of the money of an invoice. `left`: of each payment what was not given back, by its id.

    `rates`, `lines`: what was billed, and how much of it can still be credited. `was`: what its forms say that the page
    has shown. `form`: the one that was refused; its section is one of the constants, or the id of the payment that was
    to be given back. `rounded`: the time of a draft, where it is rounded.
    """

    payments: Sequence[Payment] = ()
    credit_notes: Sequence[CreditNote] = ()
    left: dict[str, int] = {}
    was: str = ""
    form: PageForm = msgspec.field(default_factory=PageForm)
    currency: str = DEFAULT_CURRENCY
    zone: tzinfo = UTC
    rounded: TimeOnInvoice | None = None
    rates: Sequence[RateBooks] = ()
    lines: Sequence[CreditableLine] = ()

    def day_of(self, booked: Payment | CreditNote) -> date:
        """Of what was booked, as the invoice has its days."""
        if isinstance(booked, Payment):
            return written_day(booked.paid_at, self.zone)
        return day_in(booked.issued, self.zone)

    def of(self, kind: str, **values: str) -> PageForm:
        """The form of this kind, as it was sent or with these values."""
        return self.form.of(kind, **values)

    def amount_of(self, kind: str, name: str, minor: int) -> PageForm:
        """The form of this kind, with an amount in its field."""
        return self.of(kind, **{name: number(amount_of(minor, self.currency))})


async def money_of(reader: Reader, invoice: Invoice) -> Money:
    """Without forms."""
    payments = await booking.list_payments(reader, invoice, after=None, limit=_ALL)
    notes = await crediting.rows.listed(reader, invoice.id, after=None, limit=_ALL)
    left = Counter[str]()
    for each in payments:
        left[each.refund_of or each.id] += each.amount_minor
    rates = await find_rates(reader, invoice)
    return Money(
        payments,
        notes,
        dict(left),
        balance_of(invoice),
        currency=invoice.currency,
        zone=zone_of_invoice(invoice),
        rates=rates.rows,
        lines=lines_of(invoice, rates, _lines_of_notes(notes)),
    )


def _lines_of_notes(notes: Iterable[CreditNote]) -> list[Item]:
    return [item for note in notes for item in items_of(note.items)]


async def show_invoice(
    visit: Visit, access: Access, invoice: Invoice, form: PageForm | None = None, *, missing: Invalid | None = None
) -> Answer:
    """The page of an invoice with its money. `form`: that of one of its sections, as it was sent."""
    form = form or PageForm()
    money = await money_of(visit.database, invoice)
    money.form = form
    if invoice.status == "draft":
        money.rounded = await find_rounded(visit.database, access.repository.id, invoice)
    return await show_page(visit, access, invoice, money=money, form=form, missing=missing)


async def show_refused(visit: Visit, form: PageForm) -> Answer:
    """The page of the invoice that the path names, with the form that was refused."""
    access, invoice = await invoice_at(visit)
    if form.section not in (LINE, UNBILLED):
        form.was = balance_of(invoice)
    return await show_invoice(visit, access, invoice, form)


async def _book(
    visit: Visit,
    kind: str,
    read: Callable[[Invoice], Awaitable[T]],
    book: Callable[[Write, Access, Invoice, T], Awaitable[object]],
    text: str,
) -> Answer:
    """Run a form; `read` takes the invoice. A form that was made when something else was due is requested again: it may
    have been sent twice."""
    called = {"invoice_items": "unit_price"}

    @form_page(show_refused, FIELDS, section=kind, called=called, on=(Invalid, Conflict))
    async def run(visit: Visit) -> Answer:
        _, invoice = await invoice_at(visit)
        wanted = await read(invoice)

        async def step(write: Write) -> None:
            access, current = await changing.lock_invoice(write, invoice.id)
            if visit.fields.get("was") != balance_of(current):
                raise ChangedMeanwhile
            await book(write, access, current, wanted)

        await visit.change(step)
        return visit.done(f"{invoice_address(visit)}#money", text)

    return await run(visit)


def balance_of(invoice: Invoice) -> str:
    """What a form says of the invoice that its page has shown."""
    return f"{invoice.paid_minor or 0}/{invoice.credited_minor or 0}"


@places.post("/{owner}/{project}/billing/{invoice_id}/payments", makes=True, action="invoice.pay")
async def book_payment(visit: Visit) -> Answer:
    """Book a payment of an invoice."""

    async def read(invoice: Invoice) -> PaymentCreate:
        return visit.form(PaymentCreate, AmountField("amount", invoice.currency), "paid_at", "method", "reference")

    return await _book(visit, PAYMENT, read, booking.pay, gettext("The payment was booked."))


@places.post(
    "/{owner}/{project}/billing/{invoice_id}/payments/{payment_id}/refund", makes=True, action="invoice.refund"
)
async def give_back(visit: Visit) -> Answer:
    """Book that a payment, or a part of it, was given back."""
    payment_id = visit.path("payment_id")

    async def read(invoice: Invoice) -> RefundCreate:
        return visit.form(RefundCreate, AmountField("amount", invoice.currency), "paid_at", "reference")

    async def book(write: Write, access: Access, invoice: Invoice, wanted: RefundCreate) -> None:
        payment = await booking.find_payment(write.tx, write.actor, payment_id)
        if payment.invoice.id != invoice.id:
            raise NotFound()
        await booking.refund(write, access, invoice, payment, wanted)

    return await _book(visit, payment_id, read, book, gettext("The refund was booked."))


@places.post("/{owner}/{project}/billing/{invoice_id}/credit_notes", makes=True, action="invoice.credit")
async def make_credit_note(visit: Visit) -> Answer:
    """Credit an invoice, a part of it, or one of its lines."""
    is_line = "line" in visit.fields

    async def read(invoice: Invoice) -> CreditNoteCreate:
        return await _credited_line(visit, invoice) if is_line else _credited_total(visit, invoice)

    return await _book(
        visit, CREDIT_LINE if is_line else CREDIT, read, crediting.credit, gettext("The credit note was made.")
    )


def _credited_total(visit: Visit, invoice: Invoice) -> CreditNoteCreate:
    """Raises `Invalid`."""
    wanted = visit.form(CreditNoteCreate, AmountField("total", invoice.currency), "reason")
    if (rate := visit.fields.get("rate", "")) != "":
        row = _chosen(invoice.tax_rows, rate, "rate")
        wanted.tax, wanted.tax_category = row.millionths, row.category
    return wanted


async def _credited_line(visit: Visit, invoice: Invoice) -> CreditNoteCreate:
    """Raises `Invalid`."""
    notes = await crediting.rows.listed(visit.database, invoice.id, after=None, limit=_ALL)
    lines = lines_of(invoice, await find_rates(visit.database, invoice), _lines_of_notes(notes))
    credited = whole_line(_chosen(lines, visit.fields["line"], "line"), invoice.currency)
    if visit.fields.get("unit_price"):
        amount = AmountField("unit_price", invoice.currency)
        credited.unit_price = visit.form(CreditedItemInput, amount, description="-", qty=1).unit_price
    wanted = visit.form(CreditNoteCreate, "reason")
    wanted.invoice_items = [credited]
    return wanted


def _chosen(found: Sequence[T], text: str, field: str) -> T:
    """Raises `Invalid`."""
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text) < len(found)):
        raise Invalid(faults=[Fault(field=field, message=gettext("Choose one of the list."))])
    return found[int(text)]


@places.get("/{owner}/{project}/billing/{invoice_id}/credit_notes/{credit_note_id}/xml", head=False)
async def credit_note_xml(visit: Visit) -> Answer:
    """Give a credit note as an e-invoice, as the API does."""
    access, invoice = await invoice_at(visit)
    try:
        return await documents.get_credit_note_xml(visit.call, visit.path("credit_note_id"))
    except Invalid as problem:
        return await show_invoice(visit, access, invoice, missing=problem)


@places.get("/{owner}/{project}/billing/{invoice_id}/credit_notes/{credit_note_id}/pdf", head=False)
async def credit_note_pdf(visit: Visit) -> Answer:
    """Show a credit note as a PDF, as the API does."""
    await invoice_at(visit)
    return await documents.get_credit_note_pdf(visit.call, visit.path("credit_note_id"))
