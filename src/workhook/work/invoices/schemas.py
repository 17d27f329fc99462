"""Invoices, their tables, and what a caller may say about one."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.ids import new_id
from workhook.core.records import (
    COMPUTED,
    CURRENCY,
    HIDDEN,
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
from workhook.work.invoices.rules import Status
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


_ItemsText = Annotated[str, JsonForm(list[InvoiceItemShape], _items_to_response)]


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
    currency: Annotated[str, CURRENCY]
    issued: Millis | None
    due: Millis | None
    paid_at: Millis | None
    overdue: Annotated[bool, COMPUTED]
    payment_method: str | None
    payment_terms: str | None
    credit_type: Annotated[str | None, Meta(description="`true` or `false`.")]
    items: Annotated[_ItemsText, JsonName("invoice_items")]
    recurring_items: Annotated[
        _ItemsText, JsonName("recurring_invoice_items"), Meta(description="What a service checkout bills.")
    ]
    user: Annotated[
        PersonShape | None,
        Meta(description="Null if Workhook made the invoice by itself."),
        EventSchema({"description": "null when the service made the invoice by itself"}),
    ]
    created_at: Millis
    updated_at: Millis
    service_checkout_id: Annotated[str | None, HIDDEN]


# `items` and `recurring_items` are JSON: `[[description, quantity in decimal, unit price in minor units, the timesheet
# that the item was made from, its time in milliseconds], …]`, the last two null for others. `credit_type` is `true` or
# `false`.
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
    """With its name, and whether it is overdue now."""
    overdue = invoice.status == "sent" and invoice.due is not None and invoice.due < now
    return to_response(msgspec.structs.replace(invoice, name=name_of(invoice.invoice_number), overdue=overdue))


def name_of(invoice_number: str | None) -> str:
    return f"Invoice {invoice_number}" if invoice_number else "Draft invoice"


def blank_invoice(currency: str, user: Account | None, now: int) -> Invoice:
    """A draft that says nothing. `user`: who makes it; None: Workhook."""
    return Invoice(
        id=new_id("inv"),
        name="",
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
        overdue=False,
        payment_method=None,
        payment_terms=None,
        credit_type=None,
        items=rules.items_text(()),
        recurring_items=rules.items_text(()),
        user=person_shape(user) if user else None,
        created_at=now,
        updated_at=now,
        service_checkout_id=None,
    )
