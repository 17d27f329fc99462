"""Invoices, their tables, and what a caller may say about one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core.ids import new_id
from workhook.core.money import Minor
from workhook.core.records import (
    COMPUTED,
    CURRENCY,
    HIDDEN,
    EventSchema,
    JsonForm,
    JsonName,
    Record,
    Timestamp,
    Wire,
    resource_id,
    to_response,
)
from workhook.identity.schemas import Account
from workhook.storage.metadata import big, in_project, metadata, partial_index
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.people import PersonShape, person_shape
from workhook.work.kernel.schemas import RecordPlace
from workhook.work.kernel.settings import (
    DEFAULT_LANGUAGE,
    BuyerText,
    Category,
    Language,
    SellerText,
    percent_to_response,
)
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import ISSUED, OPEN, Books, Days, Discount, Status, TaxRate, TaxRow, rows_of
from workhook.work.money.invoices.shapes import (
    BookedText,
    ItemsText,
    RecurringText,
    TaxesText,
)
from workhook.work.money.invoices.time_lines import GroupBy


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
    taxes_shown: Annotated[
        TaxesText,
        COMPUTED,
        JsonName("taxes"),
        Meta(description="One for each rate and category; `amount` is the sum of their bases."),
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
    issued: Timestamp | None
    due: Timestamp | None
    paid_at: Timestamp | None
    overdue: Annotated[bool, COMPUTED]
    payment_method: str | None
    payment_terms: str | None
    credit_type: Annotated[str | None, Meta(description="`true` or `false`.")]
    items: Annotated[ItemsText, JsonName("invoice_items")]
    recurring_items: Annotated[
        RecurringText, JsonName("recurring_invoice_items"), Meta(description="What a service checkout bills.")
    ]
    group_by: Annotated[
        GroupBy | None,
        Meta(description="What has one line of time, at each rate; null: each timesheet."),
        EventSchema({"description": "what has one line of time, at each rate; null: each timesheet"}),
    ]
    payments_shown: Annotated[BookedText, COMPUTED, JsonName("payments")]
    credit_notes_shown: Annotated[BookedText, COMPUTED, JsonName("credit_notes")]
    buyer_shown: Annotated[
        BuyerText | None,
        COMPUTED,
        JsonName("buyer"),
        Meta(description="Who pays. Of a draft as the settings say now, fixed when it is sent."),
        EventSchema({"description": "who pays; of a draft as the settings say now, fixed when it is sent"}),
    ]
    seller_shown: Annotated[
        SellerText | None,
        COMPUTED,
        JsonName("seller"),
        Meta(description="Who bills. Null of invoices that were sent before there were parties."),
        EventSchema({"description": "who bills; null of invoices that were sent before there were parties"}),
    ]
    language_shown: Annotated[Language, COMPUTED, JsonName("language")]
    service_from_shown: Annotated[
        str | None,
        COMPUTED,
        JsonName("service_from"),
        Meta(description="First day of the service: of the invoice, or else of its lines of time and subscriptions."),
        EventSchema({"format": "date"}),
    ]
    service_to_shown: Annotated[
        str | None,
        COMPUTED,
        JsonName("service_to"),
        Meta(description="Last day of the service."),
        EventSchema({"format": "date"}),
    ]
    user: Annotated[
        PersonShape | None,
        Meta(description="Null if Workhook made the invoice by itself."),
        EventSchema({"description": "null when the service made the invoice by itself"}),
    ]
    created_at: Timestamp
    updated_at: Timestamp
    service_checkout_id: Annotated[str | None, HIDDEN]
    # Null until the first payment or credit note.
    paid_minor: Annotated[int | None, HIDDEN]
    credited_minor: Annotated[int | None, HIDDEN]
    taxes: Annotated[str, HIDDEN]
    payments: Annotated[str | None, HIDDEN]
    credit_notes: Annotated[str | None, HIDDEN]
    # As they were when it was sent; null of a draft.
    buyer: Annotated[str | None, HIDDEN]
    seller: Annotated[str | None, HIDDEN]
    # When the day or moment of `due` is over in the zone of the seller; null of a draft.
    overdue_at: Annotated[int | None, HIDDEN]
    language: Annotated[Language | None, HIDDEN]  # null: the default
    # As somebody said them; null: the days of the lines count.
    service_from: Annotated[str | None, HIDDEN]
    service_to: Annotated[str | None, HIDDEN]

    @property
    def service_days(self) -> Days | None:
        """The first and the last day of the service, or None if nothing says them."""
        if self.service_from and self.service_to:
            return self.service_from, self.service_to
        return rules.days_of_items((*rules.items_of(self.items), *rules.items_of(self.recurring_items)))

    @property
    def rate(self) -> TaxRate:
        """Of the lines that have none of their own."""
        return TaxRate(self.tax_millionths, self.tax_category)

    @property
    def whole_discount(self) -> Discount:
        return Discount(self.discount_millionths, self.discount_minor)

    @property
    def tax_rows(self) -> tuple[TaxRow, ...]:
        return rows_of(self.taxes)

    @property
    def books(self) -> Books:
        """Of an issued invoice that is not void."""
        return Books(self.total_minor, self.paid_minor or 0, self.credited_minor or 0)


class PlacedInvoice(Invoice, frozen=True):
    """An invoice with its project; `total` is `amount` and the tax on it."""

    project: RecordPlace


IS_OPEN = "status IN ('sent', 'partially_paid')"
"""Something is due. An index is of those, which a database finds by these words."""

# `items` and `recurring_items` are JSON: `[[description, quantity in decimal, unit price in minor units, the timesheet
# that the line was made of or a list of several, its time in milliseconds or a list of several, discount in millionths,
# discount in minor units, rate of tax in millionths, category, [first day, last day]], …]`, null where there is none;
# the last five are often left out. `taxes` is `[[rate in millionths, category, base, tax], …]`. `payments` and
# `credit_notes` are JSON: `[[id, minor units, milliseconds], …]`. `buyer` and `seller` are JSON, too (`parties`).
# `credit_type` is `true` or `false`.
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
    partial_index("ix_invoices_unsettled", "repository_id", "id", "overdue_at", where=sa.text(IS_OPEN)),
)


def is_late(row: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether an invoice that is open is overdue at the parameter `now`."""
    return sa.and_(row.c.overdue_at.is_not(None), row.c.overdue_at <= big("now"))


class _Payable(Protocol):
    @property
    def status(self) -> str: ...
    @property
    def overdue_at(self) -> int | None: ...


class InvoiceAnswer(msgspec.Struct):
    invoice: Wire[Invoice]
    success: bool = True


class InvoicesAnswer(msgspec.Struct):
    invoices: list[Wire[Invoice]]
    success: bool = True


def invoice_to_response(invoice: Invoice, now: int) -> Wire[Invoice]:
    """With its name, what it owes, and whether it is overdue now."""
    books = invoice.books if invoice.status in ISSUED else None
    service_from, service_to = invoice.service_days or (None, None)
    return to_response(
        msgspec.structs.replace(
            invoice,
            name=name_of(invoice.invoice_number),
            overdue=is_overdue(invoice, now),
            amount_paid_minor=books.paid if books else 0,
            amount_credited_minor=books.credited if books else 0,
            amount_due_minor=books.due if books else invoice.total_minor if invoice.status == "draft" else 0,
            to_refund_minor=books.to_refund if books else 0,
            taxes_shown=invoice.taxes,
            payments_shown=invoice.payments or "[]",
            credit_notes_shown=invoice.credit_notes or "[]",
            language_shown=language_of(invoice),
            service_from_shown=service_from,
            service_to_shown=service_to,
        )
    )


def is_overdue(invoice: _Payable, now: int) -> bool:
    """`now`: milliseconds since the epoch."""
    return invoice.status in OPEN and invoice.overdue_at is not None and invoice.overdue_at <= now


def language_of(invoice: Invoice) -> Language:
    return invoice.language or DEFAULT_LANGUAGE


NOT_COMPUTED: Mapping[str, Any] = {
    "name": "",
    "overdue": False,
    "amount_paid_minor": 0,
    "amount_credited_minor": 0,
    "amount_due_minor": 0,
    "to_refund_minor": 0,
    "taxes_shown": "[]",
    "payments_shown": "[]",
    "credit_notes_shown": "[]",
    "language_shown": DEFAULT_LANGUAGE,
    "service_from_shown": None,
    "service_to_shown": None,
}
"""What `invoice_to_response` puts in."""


def name_of(invoice_number: str | None) -> str:
    return f"Invoice {invoice_number}" if invoice_number else "Draft invoice"


def blank_invoice(currency: str, user: Account | None, now: int) -> Invoice:
    """A draft that says nothing. `user`: who makes it; None: Workhook."""
    return Invoice(
        id=new_id("inv"),
        **NOT_COMPUTED,
        buyer_shown=None,
        seller_shown=None,
        invoice_number=None,
        status="draft",
        bill_from=None,
        bill_to=None,
        address=None,
        amount_minor=0,
        tax_millionths=None,
        tax_category=None,
        discount_millionths=None,
        discount_minor=None,
        total_minor=0,
        currency=currency,
        issued=None,
        due=None,
        overdue_at=None,
        paid_at=None,
        payment_method=None,
        payment_terms=None,
        credit_type=None,
        items=rules.items_text(()),
        recurring_items=rules.items_text(()),
        group_by=None,
        user=person_shape(user) if user else None,
        created_at=now,
        updated_at=now,
        service_checkout_id=None,
        paid_minor=None,
        credited_minor=None,
        taxes="[]",
        payments=None,
        credit_notes=None,
        buyer=None,
        seller=None,
        language=None,
        service_from=None,
        service_to=None,
    )


is_issued = invoices.c.status != "draft"
