"""Invoices on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.records import CURRENCY, MOMENT, EventSchema, resource_id
from workhook.http.currencies import Currency
from workhook.http.lists import ListQuery
from workhook.http.parameters import DayOrMoment, LongText, Money, Prepared, Read
from workhook.http.values import WIRE_TYPE, to_amount
from workhook.storage import Row
from workhook.work.invoices import rules
from workhook.work.invoices.queries import items_of
from workhook.work.invoices.rules import Item, Status
from workhook.work.people import PersonShape, person_of_row

ITEMS_MAX = 1000
TIMESHEETS_MAX = 1000

Qty = Annotated[
    Decimal,
    Meta(
        extra_json_schema={WIRE_TYPE: "number", "exclusiveMinimum": 0, "maximum": rules.QTY_MAX},
        description="More than 0, with at most six decimals.",
    ),
    Read(rules.read_qty, (int, float)),
]
Percent = Annotated[
    int,
    Meta(
        extra_json_schema={WIRE_TYPE: "number", "minimum": 0, "maximum": 100},
        description="Percent, with at most four decimals.",
    ),
    Read(rules.read_percent, (int, float)),
]
"""Millionths."""
InvoiceNumber = Annotated[
    str,
    Meta(
        extra_json_schema={WIRE_TYPE: ["string", "number"]},
        description="1 to 64 characters, or a number; unique in the organization. Without one the next of the "
        "organization's sequence is given when the invoice is sent.",
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
    Meta(max_length=TIMESHEETS_MAX, description="Billable and finished ones that no invoice has; they become items."),
]


class InvoiceCreate(msgspec.Struct):
    """A draft. Without `currency` it has the one of the project's last invoice, or else USD."""

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
    """What is absent stays. `invoice_items` and `timesheet_ids` replace what was there. Once the invoice is sent, its
    lines, timesheets, tax, currency and number stay."""


class InvoiceList(ListQuery):
    """Filters."""

    status: Status | UnsetType = UNSET
    overdue: Annotated[bool, Meta(description="Sent, and due in the past.")] | UnsetType = UNSET


_NUMBER = EventSchema({"type": "number"})


class InvoiceItemShape(msgspec.Struct):
    """A line."""

    description: str
    qty: Annotated[int | float, _NUMBER]
    unit_price: int | float


class InvoiceShape(msgspec.Struct):
    """An invoice; `total` is `amount` and the tax on it."""

    id: Annotated[str, resource_id("inv")]
    name: Annotated[str, EventSchema({"type": ["string", "null"]})]
    invoice_number: Annotated[
        str | None,
        Meta(description="Null until one is given, or the invoice is sent."),
        EventSchema({"description": "null until a number is given, or the invoice is sent"}),
    ]
    status: Status
    bill_from: str | None
    bill_to: str | None
    address: str | None
    amount: Annotated[int | float, Meta(description="Before tax."), EventSchema({"description": "before tax"})]
    tax: Annotated[
        int | float | None, Meta(description="Percent."), EventSchema({"type": "number", "description": "percent"})
    ]
    total: int | float
    currency: Annotated[str, CURRENCY]
    issued: Annotated[str | None, MOMENT]
    due: Annotated[str | None, MOMENT]
    paid_at: str | None
    overdue: bool
    payment_method: str | None
    payment_terms: str | None
    credit_type: Annotated[str | None, Meta(description="`true` or `false`.")]
    invoice_items: list[InvoiceItemShape]
    recurring_invoice_items: Annotated[list[InvoiceItemShape], Meta(description="What a service checkout bills.")]
    user: Annotated[
        PersonShape | None,
        Meta(description="Null where Workhook made the invoice by itself."),
        EventSchema({"description": "null when the service made the invoice by itself"}),
    ]
    created_at: str
    updated_at: str


class InvoiceAnswer(msgspec.Struct):
    invoice: InvoiceShape
    success: bool = True


class InvoicesAnswer(msgspec.Struct):
    invoices: list[InvoiceShape]
    success: bool = True


def invoice_shape(row: Row, now: int) -> InvoiceShape:
    """From a row of the table with the person's columns."""
    return InvoiceShape(
        id=row["id"],
        name=name_of(row["invoice_number"]),
        invoice_number=row["invoice_number"],
        status=row["status"],
        bill_from=row["bill_from"],
        bill_to=row["bill_to"],
        address=row["address"],
        amount=to_amount(row["amount_minor"]),
        tax=None if row["tax_millionths"] is None else to_number(percent_of(row["tax_millionths"])),
        total=to_amount(row["total_minor"]),
        currency=row["currency"],
        issued=_moment(row["issued"]),
        due=_moment(row["due"]),
        paid_at=_moment(row["paid_at"]),
        overdue=rules.is_overdue(row["status"], row["due"], now),
        payment_method=row["payment_method"],
        payment_terms=row["payment_terms"],
        credit_type=row["credit_type"],
        invoice_items=_items(items_of(row["items"])),
        recurring_invoice_items=_items(items_of(row["recurring_items"])),
        user=person_of_row(row) if row["user_id"] is not None else None,
        created_at=to_millis_text(row["created_at"]),
        updated_at=to_millis_text(row["updated_at"]),
    )


def name_of(invoice_number: str | None) -> str:
    return f"Invoice {invoice_number}" if invoice_number else "Draft invoice"


def to_number(value: Decimal) -> int | float:
    """As JSON shows it: exact up to 15 digits."""
    return int(value) if value == value.to_integral_value() else float(value)


def percent_of(millionths: int) -> Decimal:
    return Decimal(millionths) / 10_000


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else to_millis_text(at_ms)


def _items(items: Iterable[Item]) -> list[InvoiceItemShape]:
    return [InvoiceItemShape(each.description, to_number(each.qty), to_amount(each.unit_price_minor)) for each in items]
