"""Invoices: their record and table, the JSON of their parts, and request parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, tzinfo
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.clock import to_millis_text
from workhook.core.ids import new_id
from workhook.core.money import Minor, to_amount
from workhook.core.records import (
    CURRENCY,
    DESCRIBED,
    HIDDEN,
    MOMENT,
    NOT_STORED,
    EventSchema,
    JsonForm,
    JsonName,
    Record,
    Timestamp,
    Wire,
    resource_id,
    to_response,
)
from workhook.core.zones import calendar_day, day_in, end_of
from workhook.http.lists import ListQuery
from workhook.http.parameters import Converter, Currency, DayOrMoment, LongText, Money, Rule, Transform
from workhook.http.wire_types import WIRE_TYPE, wire_number
from workhook.identity.schemas import Account
from workhook.storage.metadata import bigint_param, in_project, partial_index, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.billing_settings import (
    BuyerText,
    Category,
    Language,
    Party,
    Percent,
    Seller,
    SellerText,
    party_of,
    party_text,
    percent_to_response,
    seller_of,
    to_number,
)
from workhook.work.kernel.people import PersonShape, person_to_response
from workhook.work.kernel.schemas import RecordPlace
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import (
    ISSUED,
    OPEN,
    Balance,
    Days,
    Discount,
    Item,
    Status,
    TaxRate,
    TaxRow,
    rows_of,
)
from workhook.work.money.invoices.settings import InvoiceSettings
from workhook.work.money.invoices.time_lines import GroupBy

_NUMBER = EventSchema({"type": "number"})
_MAYBE_PERCENT = EventSchema({"type": "number", "description": "percent"}, optional=True)
_MAYBE = EventSchema(optional=True)


class InvoiceItemShape(msgspec.Struct, omit_defaults=True):
    """A line of an invoice. Discount and tax fields that are not set are omitted."""

    kind: Annotated[
        Literal["item", "time", "service"],
        Meta(description="`item`: entered manually; `time`: from timesheets; `service`: from a checkout."),
        EventSchema({"description": "entered manually, from timesheets, or from a service checkout"}),
    ]
    description: str
    qty: Annotated[int | float, _NUMBER]
    unit_price: int | float
    timesheet_ids: Annotated[
        list[str],
        Meta(description="Timesheets that the line bills; empty for other lines."),
        EventSchema({"description": "timesheets that the line bills"}),
    ]
    discount: Annotated[int | float | None, _MAYBE_PERCENT] = None
    discount_amount: Annotated[int | float | None, _MAYBE] = None
    tax: Annotated[int | float | None, _MAYBE_PERCENT] = None
    tax_category: Annotated[Category | None, _MAYBE] = None
    service_from: Annotated[
        str | None,
        Meta(description="First day of the time or period; null for lines entered manually."),
        EventSchema({"type": "string", "format": "date"}, optional=True),
    ] = None
    service_to: Annotated[str | None, EventSchema({"type": "string", "format": "date"}, optional=True)] = None


def _items_to_response(text: str, currency: str, kind: Literal["service"] | None = None) -> list[InvoiceItemShape]:
    return [
        InvoiceItemShape(
            kind or each.kind,
            each.description,
            to_number(each.qty),
            to_amount(each.unit_price_minor, currency),
            list(each.timesheet_ids),
            None if each.discount_millionths is None else percent_to_response(each.discount_millionths),
            None if each.discount_minor is None else to_amount(each.discount_minor, currency),
            None if each.tax_millionths is None else percent_to_response(each.tax_millionths),
            each.tax_category,
            *(each.days or (None, None)),
        )
        for each in rules.items_of(text)
    ]


ItemsText = Annotated[str, JsonForm(list[InvoiceItemShape], _items_to_response, beside="currency")]
RecurringText = Annotated[
    str, JsonForm(list[InvoiceItemShape], partial(_items_to_response, kind="service"), beside="currency")
]


class TaxShape(msgspec.Struct):
    """The tax at one rate and category, and the base it applies to."""

    percent: Annotated[int | float, _NUMBER]
    category: Category
    base: int | float
    tax: int | float


def _taxes_to_response(text: str, currency: str) -> list[TaxShape]:
    return [
        TaxShape(
            percent_to_response(each.millionths),
            each.category,
            to_amount(each.base, currency),
            to_amount(each.tax, currency),
        )
        for each in rows_of(text)
    ]


TaxesText = Annotated[str, JsonForm(list[TaxShape], _taxes_to_response, beside="currency")]


class InvoiceEntryShape(msgspec.Struct):
    """A payment, a refund (with a negative amount) or a credit note."""

    id: str
    amount: int | float
    date: Annotated[str, MOMENT]


class Booked(msgspec.Struct, frozen=True, array_like=True):
    """A payment, refund or credit note in the row of its invoice: `[id, minor units, milliseconds]`."""

    id: str
    amount_minor: int
    at_ms: int


def booked_of(text: str | None) -> list[Booked]:
    return msgspec.json.decode(text, type=list[Booked]) if text else []


def booked_text(booked: Iterable[Booked]) -> str:
    return json.encode_text(list(booked))


def _booked_to_response(text: str, currency: str) -> list[InvoiceEntryShape]:
    return [
        InvoiceEntryShape(e.id, to_amount(e.amount_minor, currency), to_millis_text(e.at_ms)) for e in booked_of(text)
    ]


BookedText = Annotated[str, JsonForm(list[InvoiceEntryShape], _booked_to_response, beside="currency")]

ITEMS_MAX = 1000
TIMESHEETS_MAX = 1000

Qty = Annotated[
    Decimal,
    wire_number("More than 0, with at most six decimal places.", exclusiveMinimum=0, maximum=rules.QTY_MAX),
    Converter(rules.read_qty, (int, float)),
]
InvoiceNumber = Annotated[
    str,
    Meta(
        extra_json_schema={WIRE_TYPE: ["string", "number"]},
        description="1 to 64 characters, or a number; unique in the organization. Default: the organization's next "
        "number, given when the invoice is sent.",
    ),
    Converter(rules.read_number, (str, int, float)),
]

SERVICE_YEARS = range(1970, 9999)


class InvoiceItemInput(msgspec.Struct):
    """A line that is entered manually."""

    REMEDIES: ClassVar = {
        "kind": "every submitted line is an item; omit this field",
        "timesheet_ids": "time lines come from the invoice's timesheet_ids; omit them here",
        "service_from": "only time and subscription lines have days; set service_from of the invoice",
        "service_to": "only time and subscription lines have days; set service_to of the invoice",
    }

    description: Annotated[str, Meta(min_length=1, max_length=4000), Transform(str.strip)]
    qty: Qty
    unit_price: Money
    discount: Annotated[Percent, Meta(description="Percent.")] | UnsetType | None = UNSET
    discount_amount: Annotated[Money, Meta(description="At most the amount of the line.")] | UnsetType | None = UNSET
    tax: Annotated[Percent, Meta(description="Percent. Default: the invoice's rate.")] | UnsetType | None = UNSET
    tax_category: Category | UnsetType | None = UNSET


def _day_fault(text: str) -> str | None:
    with suppress(ValueError):
        if (day := date.fromisoformat(text)).year in SERVICE_YEARS and text == day.isoformat():
            return None
    return "a date such as 2026-11-20"


ServiceDay = Annotated[str, Meta(extra_json_schema={"format": "date"}), Transform(str.strip), Rule(_day_fault)]

_TaxCategory = Annotated[
    Category, Meta(description="All but `standard` have 0 percent. Default: it follows from `tax`.")
]
_DiscountAmount = Annotated[Money, Meta(description="Instead of a percentage; at most the sum of the lines.")]
_Language = Annotated[Language, Meta(description="Language of the PDF, of time lines, and of the e-mail.")]
_ServiceFrom = Annotated[ServiceDay, Meta(description="First day of the service. Default: that of the time lines.")]
_ServiceTo = Annotated[ServiceDay, Meta(description="Last day of the service. Default: `service_from`.")]
_Items = Annotated[list[InvoiceItemInput], Meta(max_length=ITEMS_MAX)]
_TimesheetIds = Annotated[
    list[str],
    Meta(
        max_length=TIMESHEETS_MAX,
        description="Finished, billable timesheets that are on no invoice; they become lines.",
    ),
]
_Grouping = Annotated[
    GroupBy, Meta(description="One line per task, person, or day, and per rate. Default: one per timesheet.")
]


class InvoiceCreate(msgspec.Struct):
    """A draft invoice.

    If omitted, `currency`, `payment_terms`, `language`, and the pair of `tax` and `tax_category` are taken from the
    billing settings of the project, or else of its organization. If these set no currency, the currency is that of the
    last invoice of the project, or else of the organization; if there is none, USD. Without `due`, the invoice is due
    `payment_days` after it is sent.
    """

    bill_to: LongText | UnsetType | None = UNSET
    bill_from: LongText | UnsetType | None = UNSET
    address: LongText | UnsetType | None = UNSET
    tax: Percent | UnsetType | None = UNSET
    tax_category: _TaxCategory | UnsetType | None = UNSET
    discount: Annotated[Percent, Meta(description="Percent of the sum of the lines.")] | UnsetType | None = UNSET
    discount_amount: _DiscountAmount | UnsetType | None = UNSET
    payment_terms: LongText | UnsetType | None = UNSET
    due: DayOrMoment | UnsetType | None = UNSET
    payment_method: LongText | UnsetType | None = UNSET
    invoice_number: InvoiceNumber | UnsetType | None = UNSET
    currency: Currency | UnsetType = UNSET
    credit_type: bool | UnsetType | None = UNSET
    language: _Language | UnsetType = UNSET
    service_from: _ServiceFrom | UnsetType | None = UNSET
    service_to: _ServiceTo | UnsetType | None = UNSET
    invoice_items: _Items | UnsetType = UNSET
    timesheet_ids: _TimesheetIds | UnsetType = UNSET
    group_by: _Grouping | UnsetType | None = UNSET


class InvoiceEdit(InvoiceCreate):
    """Omitted fields are left unchanged.

    `invoice_items` replaces the manually entered lines, and `timesheet_ids` those of time. Once the invoice is sent,
    its parties, lines, timesheets, tax, currency and number cannot be changed.
    """


class InvoiceList(ListQuery):
    """Filters for invoices."""

    status: Status | UnsetType = UNSET
    overdue: Annotated[bool, Meta(description="Only sent invoices whose due date has passed.")] | UnsetType = UNSET


class InvoiceDays(NamedTuple):
    """The days of an invoice; None if not known yet."""

    issued: date | None
    due: date | None
    paid: date | None


def due_day(at_ms: int | None, zone: tzinfo) -> date | None:
    """Return the day of a due or paid date. A date that was given as a day is that day in every time zone."""
    return None if at_ms is None else calendar_day(at_ms, zone)


class Invoice(Record, frozen=True):
    """An invoice. `total` is `amount` plus tax."""

    id: Annotated[str, resource_id("inv")]
    name: Annotated[str, NOT_STORED, EventSchema({"type": ["string", "null"]})]
    invoice_number: Annotated[
        str | None,
        Meta(description="Null until one is given, or the invoice is sent."),
        EventSchema({"description": "null until a number is given, or the invoice is sent"}),
    ]
    status: Status
    bill_from: str | None
    bill_to: str | None
    address: str | None
    amount_minor: Annotated[Minor, JsonName("amount"), Meta(description="Before tax."), DESCRIBED]
    tax_millionths: Annotated[
        Annotated[int, JsonForm(int | float, percent_to_response)] | None,
        JsonName("tax"),
        Meta(description="Percent."),
        EventSchema({"type": "number", "description": "percent"}),
    ]
    tax_category: Category | None
    discount_millionths: Annotated[
        Annotated[int, JsonForm(int | float, percent_to_response)] | None,
        JsonName("discount"),
        Meta(description="Percent of the sum of the lines."),
        EventSchema({"type": ["number", "null"], "description": "percent of the sum of the lines"}),
    ]
    discount_minor: Annotated[Minor | None, JsonName("discount_amount")]
    taxes: Annotated[TaxesText, Meta(description="One for each rate and category; `amount` is the sum of their bases.")]
    total_minor: Annotated[Minor, JsonName("total")]
    amount_paid_minor: Annotated[
        Minor, NOT_STORED, JsonName("amount_paid"), Meta(description="Payments less refunds."), DESCRIBED
    ]
    amount_credited_minor: Annotated[Minor, NOT_STORED, JsonName("amount_credited")]
    amount_due_minor: Annotated[
        Minor,
        NOT_STORED,
        JsonName("amount_due"),
        Meta(description="Amount still to be paid; for a draft, its total."),
        DESCRIBED,
    ]
    to_refund_minor: Annotated[
        Minor, NOT_STORED, JsonName("to_refund"), Meta(description="Amount paid beyond what is owed."), DESCRIBED
    ]
    currency: Annotated[str, CURRENCY]
    issued: Timestamp | None
    due: Timestamp | None
    paid_at: Timestamp | None
    overdue: Annotated[bool, NOT_STORED]
    payment_method: str | None
    payment_terms: str | None
    credit_type: Annotated[str | None, Meta(description="`true` or `false`.")]
    items: Annotated[ItemsText, JsonName("invoice_items")]
    recurring_items: Annotated[
        RecurringText, JsonName("recurring_invoice_items"), Meta(description="Lines billed by a service checkout.")
    ]
    group_by: Annotated[
        GroupBy | None, Meta(description="Grouping of time lines, per rate; null: one line per timesheet."), DESCRIBED
    ]
    payments_shown: Annotated[BookedText, NOT_STORED, JsonName("payments")]
    credit_notes_shown: Annotated[BookedText, NOT_STORED, JsonName("credit_notes")]
    buyer_shown: Annotated[
        BuyerText | None,
        NOT_STORED,
        JsonName("buyer"),
        Meta(description="Buyer. For a draft, the current settings; fixed when the invoice is sent."),
        EventSchema({"description": "buyer; for a draft, the current settings; fixed when the invoice is sent"}),
    ]
    seller_shown: Annotated[
        SellerText,
        NOT_STORED,
        JsonName("seller"),
        Meta(description="Seller. For a draft, the current settings; fixed when the invoice is sent."),
        EventSchema({"description": "seller; for a draft, the current settings; fixed when the invoice is sent"}),
    ]
    language: Language
    service_from_shown: Annotated[
        str | None,
        NOT_STORED,
        JsonName("service_from"),
        Meta(description="First day of the service: of the invoice, or else of its time and subscription lines."),
        EventSchema({"format": "date"}),
    ]
    service_to_shown: Annotated[
        str | None,
        NOT_STORED,
        JsonName("service_to"),
        Meta(description="Last day of the service."),
        EventSchema({"format": "date"}),
    ]
    user: Annotated[PersonShape | None, Meta(description="Null if Workhook created the invoice."), DESCRIBED]
    created_at: Timestamp
    updated_at: Timestamp
    service_checkout_id: Annotated[str | None, HIDDEN]
    # Null until the first payment or credit note.
    paid_minor: Annotated[int | None, HIDDEN]
    credited_minor: Annotated[int | None, HIDDEN]
    payments: Annotated[str | None, HIDDEN]
    credit_notes: Annotated[str | None, HIDDEN]
    # The parties as of when it was sent; null for a draft.
    buyer: Annotated[str | None, HIDDEN]
    seller: Annotated[str | None, HIDDEN]
    # The end of the day or moment of `due`, in the seller's time zone; null for a draft.
    overdue_at: Annotated[int | None, HIDDEN]
    # As given in the request; if null, the days of the lines apply.
    service_from: Annotated[str | None, HIDDEN]
    service_to: Annotated[str | None, HIDDEN]

    @property
    def service_days(self) -> Days | None:
        """The first and last day of the service, by default of all items together, or None if unknown."""
        if self.service_from and self.service_to:
            return self.service_from, self.service_to
        known = [each.days for each in self.every_item if each.days]
        return (min(first for first, _ in known), max(last for _, last in known)) if known else None

    @property
    def who_bills(self) -> Seller:
        return seller_of(self.seller_shown)

    @property
    def who_pays(self) -> Party:
        return party_of(self.buyer_shown) if self.buyer_shown else Party()

    @property
    def zone(self) -> tzinfo:
        """The seller's time zone, which determines the days of the invoice."""
        return self.who_bills.zone

    @property
    def days(self) -> InvoiceDays:
        issued = None if self.issued is None else day_in(self.issued, self.zone)
        return InvoiceDays(issued, due_day(self.due, self.zone), due_day(self.paid_at, self.zone))

    @property
    def every_item(self) -> tuple[Item, ...]:
        return (*rules.items_of(self.items), *rules.items_of(self.recurring_items))

    def with_overdue_at(self) -> Invoice:
        """Return the invoice with `overdue_at` set, which is None for a draft and for an invoice without `due`."""
        end = None if self.seller is None or self.due is None else end_of(self.due, self.zone)
        return msgspec.structs.replace(self, overdue_at=end)

    @property
    def rate(self) -> TaxRate:
        return TaxRate(self.tax_millionths, self.tax_category)

    @property
    def whole_discount(self) -> Discount:
        return Discount(self.discount_millionths, self.discount_minor)

    @property
    def tax_rows(self) -> tuple[TaxRow, ...]:
        return rows_of(self.taxes)

    @property
    def books(self) -> Balance:
        return Balance(self.total_minor, self.paid_minor or 0, self.credited_minor or 0)


class PlacedInvoice(Invoice, frozen=True):
    """An invoice with its project. `total` is `amount` plus tax."""

    project: RecordPlace


IS_OPEN = "status IN ('sent', 'partially_paid')"
"""The condition of a partial index; statements must repeat it verbatim to use the index."""

# `items` and `recurring_items` are JSON: `[[description, quantity as decimal, unit price in minor units, the timesheet
# of the line or a list of several, its time in milliseconds or a list of several, discount in millionths, discount in
# minor units, tax rate in millionths, category, [first day, last day]], …]`, with null for missing values; the last
# five are often left out. `taxes` is `[[rate in millionths, category, base, tax], …]`. `payments` and `credit_notes`
# are JSON: `[[id, minor units, milliseconds], …]`. `buyer` and `seller` are JSON, too. `credit_type` is `true` or
# `false`.
invoices = plain_table(
    "invoices",
    in_project(),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    *table_columns(Invoice),
    sa.UniqueConstraint("account_id", "invoice_number"),
    sa.Index("ix_invoices_repository_id", "repository_id", "id"),
    sa.Index("ix_invoices_status", "repository_id", "status", "id"),
    partial_index("ix_invoices_unsettled", "repository_id", "id", "overdue_at", where=sa.text(IS_OPEN)),
)


def is_late(row: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that an open invoice is overdue at the parameter `now`."""
    return sa.and_(row.c.overdue_at.is_not(None), row.c.overdue_at <= bigint_param("now"))


class InvoiceAnswer(msgspec.Struct):
    invoice: Wire[Invoice]
    success: bool = True


class InvoicesAnswer(msgspec.Struct):
    invoices: list[Wire[Invoice]]
    success: bool = True


def invoice_to_response(invoice: Invoice, now: int) -> Wire[Invoice]:
    books = invoice.books if invoice.status in ISSUED else None
    service_from, service_to = invoice.service_days or (None, None)
    return to_response(
        msgspec.structs.replace(
            invoice,
            name=name_of(invoice.invoice_number),
            overdue=is_overdue(invoice.status, invoice.overdue_at, now),
            amount_paid_minor=books.paid if books else 0,
            amount_credited_minor=books.credited if books else 0,
            amount_due_minor=books.due if books else invoice.total_minor if invoice.status == "draft" else 0,
            to_refund_minor=books.to_refund if books else 0,
            payments_shown=invoice.payments or "[]",
            credit_notes_shown=invoice.credit_notes or "[]",
            service_from_shown=service_from,
            service_to_shown=service_to,
        )
    )


def is_overdue(status: str, overdue_at: int | None, now: int) -> bool:
    return status in OPEN and overdue_at is not None and overdue_at <= now


NOT_COMPUTED: Mapping[str, Any] = {
    "name": "",
    "overdue": False,
    "amount_paid_minor": 0,
    "amount_credited_minor": 0,
    "amount_due_minor": 0,
    "to_refund_minor": 0,
    "payments_shown": "[]",
    "credit_notes_shown": "[]",
    "service_from_shown": None,
    "service_to_shown": None,
}
"""The fields that `invoice_to_response` computes."""


def name_of(invoice_number: str | None) -> str:
    return f"Invoice {invoice_number}" if invoice_number else "Draft invoice"


_UNSAID: Mapping[str, Any] = dict.fromkeys(
    (
        *("invoice_number", "bill_from", "bill_to", "address", "payment_method", "credit_type", "group_by"),
        *("discount_millionths", "discount_minor", "service_from", "service_to", "service_checkout_id"),
        *("issued", "due", "overdue_at", "paid_at", "buyer", "seller"),
        *("paid_minor", "credited_minor", "payments", "credit_notes"),
    )
)
"""The fields that are null in a new invoice."""


def new_invoice(settings: InvoiceSettings, currency: str, rate: TaxRate, user: Account | None, now: int) -> Invoice:
    """Return a draft without lines, with the values of the settings. `user` is its creator; None means Workhook."""
    return Invoice(
        **NOT_COMPUTED,
        **_UNSAID,
        id=new_id("inv"),
        status="draft",
        buyer_shown=party_text(settings.buyer) if settings.buyer else None,
        seller_shown=party_text(settings.seller),
        amount_minor=0,
        total_minor=0,
        tax_millionths=rate.millionths,
        tax_category=rate.category,
        taxes=rules.rows_text(()),
        currency=currency,
        payment_terms=settings.payment_terms,
        language=settings.language,
        items=rules.items_text(()),
        recurring_items=rules.items_text(()),
        user=person_to_response(user) if user else None,
        created_at=now,
        updated_at=now,
    )


is_issued = invoices.c.status != "draft"
