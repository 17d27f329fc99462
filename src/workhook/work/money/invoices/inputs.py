"""What a caller may say about an invoice and its lines, and how invoices are filtered."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.http.lists import ListQuery
from workhook.http.parameters import Checked, Currency, DayOrMoment, LongText, Money, Prepared, Read
from workhook.http.wire_types import WIRE_TYPE, wire_number
from workhook.work.kernel.settings import Category, Language, Percent
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import Status
from workhook.work.money.invoices.time_lines import GroupBy

ITEMS_MAX = 1000
TIMESHEETS_MAX = 1000

Qty = Annotated[
    Decimal,
    wire_number("More than 0, with at most six decimals.", exclusiveMinimum=0, maximum=rules.QTY_MAX),
    Read(rules.read_qty, (int, float)),
]
InvoiceNumber = Annotated[
    str,
    Meta(
        extra_json_schema={WIRE_TYPE: ["string", "number"]},
        description="1 to 64 characters, or a number; unique in the organization. Default: the organization's next "
        "number, given when the invoice is sent.",
    ),
    Read(rules.read_number, (str, int, float)),
]


SERVICE_YEARS = range(1970, 9999)


class InvoiceItemInput(msgspec.Struct):
    """A line that is written by hand."""

    REMEDIES: ClassVar = {
        "kind": "every line that is sent is an item; leave it out",
        "timesheet_ids": "lines of time are made of the timesheet_ids of the invoice; leave those lines out",
        "service_from": "only lines of time and subscriptions have days; set service_from of the invoice",
        "service_to": "only lines of time and subscriptions have days; set service_to of the invoice",
    }

    description: Annotated[str, Meta(min_length=1, max_length=4000), Prepared(str.strip)]
    qty: Qty
    unit_price: Money
    discount: Annotated[Percent, Meta(description="Percent.")] | UnsetType | None = UNSET
    discount_amount: Annotated[Money, Meta(description="At most the line.")] | UnsetType | None = UNSET
    tax: Annotated[Percent, Meta(description="Percent. Default: the invoice's.")] | UnsetType | None = UNSET
    tax_category: Category | UnsetType | None = UNSET


def _day_fault(text: str) -> str | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return "a date such as 2026-11-20"
    return None if day.year in SERVICE_YEARS and text == day.isoformat() else "a date such as 2026-11-20"


ServiceDay = Annotated[str, Meta(extra_json_schema={"format": "date"}), Prepared(str.strip), Checked(_day_fault)]

_Items = Annotated[list[InvoiceItemInput], Meta(max_length=ITEMS_MAX)]
_TimesheetIds = Annotated[
    list[str],
    Meta(max_length=TIMESHEETS_MAX, description="Finished, billable timesheets on no invoice; they become lines."),
]
_Grouping = Annotated[
    GroupBy, Meta(description="One line for each task, person or day, and rate. Default: one for each timesheet.")
]


class InvoiceCreate(msgspec.Struct):
    """A draft. What is absent comes from the billing settings of the project, or else of its organization: `currency`,
    `tax` and `tax_category` together, `payment_terms`, `language`. Without a currency there it is that of the last
    invoice of the project, or else of the organization, otherwise USD. Without `due` it is due `payment_days`
    after it is sent."""

    bill_to: LongText | UnsetType | None = UNSET
    bill_from: LongText | UnsetType | None = UNSET
    address: LongText | UnsetType | None = UNSET
    tax: Percent | UnsetType | None = UNSET
    tax_category: (
        Annotated[Category, Meta(description="All but `standard` have 0 percent. Default: it follows from `tax`.")]
        | UnsetType
        | None
    ) = UNSET
    discount: Annotated[Percent, Meta(description="Percent of the sum of the lines.")] | UnsetType | None = UNSET
    discount_amount: (
        Annotated[Money, Meta(description="Instead of a percentage; at most the sum of the lines.")] | UnsetType | None
    ) = UNSET
    payment_terms: LongText | UnsetType | None = UNSET
    due: DayOrMoment | UnsetType | None = UNSET
    payment_method: LongText | UnsetType | None = UNSET
    invoice_number: InvoiceNumber | UnsetType | None = UNSET
    currency: Currency | UnsetType = UNSET
    credit_type: bool | UnsetType | None = UNSET
    language: (
        Annotated[Language, Meta(description="Of its PDF, its lines of time and the e-mail about it.")] | UnsetType
    ) = UNSET
    service_from: (
        Annotated[ServiceDay, Meta(description="First day of the service. Default: that of the lines of time.")]
        | UnsetType
        | None
    ) = UNSET
    service_to: (
        Annotated[ServiceDay, Meta(description="Last day of the service. Default: `service_from`.")] | UnsetType | None
    ) = UNSET
    invoice_items: _Items | UnsetType = UNSET
    timesheet_ids: _TimesheetIds | UnsetType = UNSET
    group_by: _Grouping | UnsetType | None = UNSET


class InvoiceEdit(InvoiceCreate):
    """Fields that are absent stay as they are. `invoice_items` replaces the lines that were written by hand,
    `timesheet_ids` those of time. After the invoice is sent, its parties, lines, timesheets, tax, currency and number
    cannot be changed."""


class InvoiceList(ListQuery):
    """Filters."""

    status: Status | UnsetType = UNSET
    overdue: (
        Annotated[
            bool, Meta(description="Only sent invoices that are late: the day, or moment, when they were due is over.")
        ]
        | UnsetType
    ) = UNSET
