"""Invoices, their tables, and what a caller may say about one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.ids import new_id
from workhook.core.records import (
    COMPUTED,
    CURRENCY,
    HIDDEN,
    MOMENT,
    EventSchema,
    JsonForm,
    JsonName,
    Millis,
    Record,
    Wire,
    resource_id,
    to_response,
)
from workhook.http.currencies import Currency
from workhook.http.lists import ListQuery
from workhook.http.parameters import DayOrMoment, LongText, Money, Prepared, Read
from workhook.http.wire_types import WIRE_TYPE, Minor, to_amount, wire_number
from workhook.identity.schemas import Account
from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.invoices import rules
from workhook.work.invoices.books import ISSUED, OPEN, Books, Status
from workhook.work.people import PersonShape, person_shape

ITEMS_MAX = 1000
TIMESHEETS_MAX = 1000

Qty = Annotated[
    Decimal,
    wire_number("More than 0, with at most six decimals.", exclusiveMinimum=0, maximum=rules.QTY_MAX),
    Read(rules.read_qty, (int, float)),
]
Percent = Annotated[
    int,
    wire_number("Percent, with at most four decimals.", minimum=0, maximum=100),
    Read(rules.read_percent, (int, float)),
]
"""Millionths."""
InvoiceNumber = Annotated[
    str,
    Meta(
        extra_json_schema={WIRE_TYPE: ["string", "number"]},
        description="1 to 64 characters, or a number; unique in the organization. Default: the organization's next "
        "number, given when the invoice is sent.",
    ),
    Read(rules.read_number, (str, int, float)),
]


class InvoiceItemInput(msgspec.Struct):
    """A line."""

    description: Annotated[str, Meta(min_length=1, max_length=4000), Prepared(str.strip)]
    qty: Qty
    unit_price: Money


_Items = Annotated[list[InvoiceItemInput], Meta(max_length=ITEMS_MAX)]
_TimesheetIds = Annotated[
    list[str],
    Meta(max_length=TIMESHEETS_MAX, description="Finished, billable timesheets on no invoice; they become items."),
]


class InvoiceCreate(msgspec.Struct):
    """A draft. Default for `currency`: that of the project's last invoice, otherwise USD."""

    bill_to: LongText | UnsetType | None = UNSET
    bill_from: LongText | UnsetType | None = UNSET
    address: LongText | UnsetType | None = UNSET
    tax: Percent | UnsetType | None = UNSET
    payment_terms: LongText | UnsetType | None = UNSET
    due: DayOrMoment | UnsetType | None = UNSET
    payment_method: LongText | UnsetType | None = UNSET
    invoice_number: InvoiceNumber | UnsetType | None = UNSET
    currency: Currency | UnsetType = UNSET
    credit_type: bool | UnsetType | None = UNSET
    invoice_items: _Items | UnsetType = UNSET
    timesheet_ids: _TimesheetIds | UnsetType = UNSET


class InvoiceEdit(InvoiceCreate):
    """Fields that are absent stay as they are. `invoice_items` and `timesheet_ids` replace the earlier ones. After the
    invoice is sent, its lines, timesheets, tax, currency and number cannot be changed."""


class InvoiceList(ListQuery):
    """Filters."""

    status: Status | UnsetType = UNSET
    overdue: Annotated[bool, Meta(description="Only sent invoices that are due in the past.")] | UnsetType = UNSET


_NUMBER = EventSchema({"type": "number"})


class InvoiceItemShape(msgspec.Struct):
    """A line."""

    description: str
    qty: Annotated[int | float, _NUMBER]
    unit_price: int | float


def _items_to_response(text: str) -> list[InvoiceItemShape]:
    return [
        InvoiceItemShape(each.description, to_number(each.qty), to_amount(each.unit_price_minor))
        for each in rules.items_of(text)
    ]


def to_number(value: Decimal) -> int | float:
    """As JSON shows it: exact up to 15 digits."""
    return int(value) if value == value.to_integral_value() else float(value)


def percent_of(millionths: int) -> Decimal:
    return Decimal(millionths) / 10_000


def _percent_to_response(millionths: int) -> int | float:
    return to_number(percent_of(millionths))


ItemsText = Annotated[str, JsonForm(list[InvoiceItemShape], _items_to_response)]


class BookedShape(msgspec.Struct):
    """A payment, a refund (its amount is negative), or a credit note."""

    id: str
    amount: int | float
    date: Annotated[str, MOMENT]


class Booked(msgspec.Struct, frozen=True, array_like=True):
    """A payment, a refund or a credit note as the row of its invoice has it: `[id, minor units, milliseconds]`."""

    id: str
    amount_minor: int
    at_ms: int


def booked_of(text: str | None) -> list[Booked]:
    """Of a column; null stands for none."""
    return msgspec.json.decode(text, type=list[Booked]) if text else []


def booked_text(booked: Iterable[Booked]) -> str:
    return msgspec.json.encode(list(booked)).decode()


def _booked_to_response(text: str) -> list[BookedShape]:
    return [BookedShape(e.id, to_amount(e.amount_minor), to_millis_text(e.at_ms)) for e in booked_of(text)]


_BookedText = Annotated[str, JsonForm(list[BookedShape], _booked_to_response)]


class Invoice(Record, frozen=True):
    """An invoice; `total` is `amount` and the tax on it."""

    id: Annotated[str, resource_id("inv")]
    name: Annotated[str, COMPUTED, EventSchema({"type": ["string", "null"]})]
    invoice_number: Annotated[
        str | None,
        Meta(description="Null until one is given, or the invoice is sent."),
        EventSchema({"description": "null until a number is given, or the invoice is sent"}),
    ]
    status: Status
    bill_from: str | None
    bill_to: str | None
    address: str | None
    amount_minor: Annotated[
        Minor, JsonName("amount"), Meta(description="Before tax."), EventSchema({"description": "before tax"})
    ]
    tax_millionths: Annotated[
        Annotated[int, JsonForm(int | float, _percent_to_response)] | None,
        JsonName("tax"),
        Meta(description="Percent."),
        EventSchema({"type": "number", "description": "percent"}),
    ]
    total_minor: Annotated[Minor, JsonName("total")]
    amount_paid_minor: Annotated[
        Minor,
        COMPUTED,
        JsonName("amount_paid"),
        Meta(description="Payments less refunds."),
        EventSchema({"description": "payments less refunds"}),
    ]
    amount_credited_minor: Annotated[Minor, COMPUTED, JsonName("amount_credited")]
    amount_due_minor: Annotated[
        Minor,
        COMPUTED,
        JsonName("amount_due"),
        Meta(description="What is still to be paid; of a draft its total."),
        EventSchema({"description": "what is still to be paid; of a draft its total"}),
    ]
    to_refund_minor: Annotated[
        Minor,
        COMPUTED,
        JsonName("to_refund"),
        Meta(description="What was paid above the rest that is not credited."),
        EventSchema({"description": "what was paid above the rest that is not credited"}),
    ]
    currency: Annotated[str, CURRENCY]
    issued: Millis | None
    due: Millis | None
    paid_at: Millis | None
    overdue: Annotated[bool, COMPUTED]
    payment_method: str | None
    payment_terms: str | None
    credit_type: Annotated[str | None, Meta(description="`true` or `false`.")]
    items: Annotated[ItemsText, JsonName("invoice_items")]
    recurring_items: Annotated[
        ItemsText, JsonName("recurring_invoice_items"), Meta(description="What a service checkout bills.")
    ]
    payments_shown: Annotated[_BookedText, COMPUTED, JsonName("payments")]
    credit_notes_shown: Annotated[_BookedText, COMPUTED, JsonName("credit_notes")]
    user: Annotated[
        PersonShape | None,
        Meta(description="Null if Workhook made the invoice by itself."),
        EventSchema({"description": "null when the service made the invoice by itself"}),
    ]
    created_at: Millis
    updated_at: Millis
    service_checkout_id: Annotated[str | None, HIDDEN]
    # Null until the first payment or credit note, and of what was marked as paid before there were any.
    paid_minor: Annotated[int | None, HIDDEN]
    credited_minor: Annotated[int | None, HIDDEN]
    payments: Annotated[str | None, HIDDEN]
    credit_notes: Annotated[str | None, HIDDEN]

    @property
    def books(self) -> Books:
        """Of an issued invoice that is not void."""
        was_marked = self.status == "paid" and self.paid_minor is None
        return Books(
            self.total_minor, self.total_minor if was_marked else self.paid_minor or 0, self.credited_minor or 0
        )


# `items` and `recurring_items` are JSON: `[[description, quantity in decimal, unit price in minor units, the timesheet
# that the item was made from, its time in milliseconds], …]`, the last two null for others. `payments` and
# `credit_notes` are JSON: `[[id, minor units, milliseconds], …]`. `credit_type` is `true` or `false`.
invoices = sa.Table(
    "invoices",
    metadata,
    in_project(),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    *table_columns(Invoice),
    sa.UniqueConstraint("account_id", "invoice_number"),
    sa.Index("ix_invoices_repository_id", "repository_id", "id"),
    sa.Index("ix_invoices_status", "repository_id", "status", "id"),
)

invoice_numbers = sa.Table(
    "invoice_numbers",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)


class InvoiceAnswer(msgspec.Struct):
    invoice: Wire[Invoice]
    success: bool = True


class InvoicesAnswer(msgspec.Struct):
    invoices: list[Wire[Invoice]]
    success: bool = True


def invoice_to_response(invoice: Invoice, now: int) -> Wire[Invoice]:
    """With its name, what it owes, and whether it is overdue now."""
    books = invoice.books if invoice.status in ISSUED else None
    return to_response(
        msgspec.structs.replace(
            invoice,
            name=name_of(invoice.invoice_number),
            overdue=invoice.status in OPEN and invoice.due is not None and invoice.due < now,
            amount_paid_minor=books.paid if books else 0,
            amount_credited_minor=books.credited if books else 0,
            amount_due_minor=books.due if books else invoice.total_minor if invoice.status == "draft" else 0,
            to_refund_minor=books.to_refund if books else 0,
            payments_shown=booked_text(payments_of(invoice)),
            credit_notes_shown=invoice.credit_notes or "[]",
        )
    )


def payments_of(invoice: Invoice) -> list[Booked]:
    """With the one of an invoice that was marked as paid before there were payments: it has the invoice's own id."""
    if invoice.status == "paid" and invoice.paid_minor is None and invoice.total_minor:
        at_ms = invoice.updated_at if invoice.paid_at is None else invoice.paid_at
        return [Booked(f"pay_{invoice.id.partition('_')[2]}", invoice.total_minor, at_ms)]
    return booked_of(invoice.payments)


NOT_COMPUTED: Mapping[str, Any] = {
    "name": "",
    "overdue": False,
    "amount_paid_minor": 0,
    "amount_credited_minor": 0,
    "amount_due_minor": 0,
    "to_refund_minor": 0,
    "payments_shown": "[]",
    "credit_notes_shown": "[]",
}
"""What `invoice_to_response` puts in."""


def name_of(invoice_number: str | None) -> str:
    return f"Invoice {invoice_number}" if invoice_number else "Draft invoice"


def blank_invoice(currency: str, user: Account | None, now: int) -> Invoice:
    """A draft that says nothing. `user`: who makes it; None: Workhook."""
    return Invoice(
        id=new_id("inv"),
        **NOT_COMPUTED,
        invoice_number=None,
        status="draft",
        bill_from=None,
        bill_to=None,
        address=None,
        amount_minor=0,
        tax_millionths=None,
        total_minor=0,
        currency=currency,
        issued=None,
        due=None,
        paid_at=None,
        payment_method=None,
        payment_terms=None,
        credit_type=None,
        items=rules.items_text(()),
        recurring_items=rules.items_text(()),
        user=person_shape(user) if user else None,
        created_at=now,
        updated_at=now,
        service_checkout_id=None,
        paid_minor=None,
        credited_minor=None,
        payments=None,
        credit_notes=None,
    )
