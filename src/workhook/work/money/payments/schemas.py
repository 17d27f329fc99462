"""Payments and refunds: their record, table and request parameters."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.money import Minor
from workhook.core.records import (
    CURRENCY,
    DESCRIBED,
    HIDDEN,
    NOT_STORED,
    EventSchema,
    JsonName,
    Record,
    Timestamp,
    Wire,
    resource_id,
)
from workhook.http.parameters import ON_ONE_LINE, DayOrMoment
from workhook.identity.tables import accounts
from workhook.storage import Row
from workhook.storage.metadata import in_project, partial_index, plain_table
from workhook.storage.record_rows import row_reader, selected, table_columns
from workhook.work.kernel.access import with_access
from workhook.work.kernel.lists import Filter, Listing, Order, Weight
from workhook.work.kernel.people import PersonShape, membership_of, person_columns, person_of_row
from workhook.work.kernel.schemas import MoneyAboveZero
from workhook.work.money.invoices.schemas import invoices

Kind = Literal["payment", "refund"]

Method = Annotated[str, Meta(min_length=1, max_length=100, description="Payment method."), ON_ONE_LINE]
Reference = Annotated[str, Meta(min_length=1, max_length=255, description="Your own reference."), ON_ONE_LINE]


class PaymentDetails(msgspec.Struct):
    """Details of a payment. `paid_at` defaults to now and can be at most a day ahead."""

    paid_at: DayOrMoment | UnsetType | None = UNSET
    method: Method | UnsetType | None = UNSET
    reference: Reference | UnsetType | None = UNSET


class PaymentCreate(PaymentDetails):
    """A payment. `paid_at` defaults to now and can be at most a day ahead."""

    amount: Annotated[MoneyAboveZero, Meta(description="Default: the amount due.")] | UnsetType | None = UNSET


class RefundCreate(msgspec.Struct):
    """A refund of a payment. `paid_at` defaults to now and can be at most a day ahead."""

    amount: Annotated[MoneyAboveZero, Meta(description="Default: the rest of the payment.")] | UnsetType | None = UNSET
    paid_at: DayOrMoment | UnsetType | None = UNSET
    reference: Reference | UnsetType | None = UNSET


class InvoiceReference(msgspec.Struct):
    """An invoice, referred to by its number."""

    id: Annotated[str, resource_id("inv")]
    invoice_number: str


class Payment(Record, frozen=True):
    """A payment of an invoice, or a refund, which has a negative amount. Neither is ever changed or deleted."""

    id: Annotated[str, resource_id("pay")]
    kind: Kind
    amount_minor: Annotated[Minor, JsonName("amount"), Meta(description="Negative for a refund."), DESCRIBED]
    currency: Annotated[str, CURRENCY]
    paid_at: Timestamp
    method: str | None
    reference: str | None
    refund_of: Annotated[
        str | None,
        Meta(description="Payment that this refund belongs to."),
        EventSchema({"description": "for a refund: ID of the payment"}),
    ]
    invoice: Annotated[InvoiceReference, NOT_STORED]
    user: Annotated[
        PersonShape | None, NOT_STORED, Meta(description="User who recorded it; null if unknown."), DESCRIBED
    ]
    created_at: Timestamp
    position: Annotated[int, HIDDEN]


# Rows are never changed. `position` is the number within the invoice, in commit order.
payments = plain_table(
    "payments",
    in_project(),
    sa.Column("invoice_id", sa.Text, sa.ForeignKey("invoices.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    *table_columns(Payment),
    sa.UniqueConstraint("invoice_id", "position"),
    sa.Index("ix_payments_repository_id", "repository_id"),
    partial_index("ix_payments_refund_of", "refund_of", "amount_minor", where=sa.text("refund_of IS NOT NULL")),
)


class PaymentAnswer(msgspec.Struct):
    payment: Wire[Payment]
    success: bool = True


class PaymentsAnswer(msgspec.Struct):
    payments: list[Wire[Payment]]
    success: bool = True


R = TypeVar("R", bound=Record)
_people = accounts.alias("people")


class InvoiceEntries(Generic[R]):
    """Reads the records of a table that belong to invoices; each has a position in its invoice and an optional user.

    `listing` lists those of the parameter `invoice_id`. The keyword arguments are fields that are read from the
    invoice.
    """

    def __init__(
        self, record: type[R], table: sa.Table, weight: Weight | None = None, **of_invoice: sa.ColumnElement[Any]
    ) -> None:
        every = (
            sa.select(
                *selected(record, table),
                *person_columns(membership_of(table.c.repository_id, _people), _people),
                table.c.invoice_id,
                invoices.c.invoice_number,
                *(column.label(f"invoice_{name}") for name, column in of_invoice.items()),
            )
            .join_from(table, invoices, invoices.c.id == table.c.invoice_id)
            .outerjoin(_people, _people.c.id == table.c.user_id)
        )
        self.by_id = with_access(every.where(table.c.id == sa.bindparam("id")), table.c.repository_id)
        self.listing = Listing[R](
            table,
            lambda page, _: every.join(page, page.c.id == table.c.id),
            lambda row, _, __: self.of_row(row),
            weight,
            {"invoice_id": Filter(lambda row: row.c.invoice_id == sa.bindparam("invoice_id"), alone=True)},
            order=Order(lambda row: {"position": row.c.position}, tuple[int]),
        )
        self._read, self._of_invoice = row_reader(record), tuple(of_invoice)

    def of_row(self, row: Row) -> R:
        user = person_of_row(row) if row["user_id"] is not None else None
        more = {name: row[f"invoice_{name}"] for name in self._of_invoice}
        return self._read(row, invoice=InvoiceReference(row["invoice_id"], row["invoice_number"]), user=user, **more)
