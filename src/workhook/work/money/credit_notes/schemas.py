"""Credit notes: their record, table and request parameters."""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.money import Minor
from workhook.core.records import (
    CURRENCY,
    DESCRIBED,
    HIDDEN,
    NOT_STORED,
    JsonName,
    Record,
    Timestamp,
    Wire,
    resource_id,
)
from workhook.http.parameters import Transform
from workhook.storage.metadata import in_project, of_account, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.billing_settings import BuyerText, Category, Language, Percent, SellerText
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.schemas import MoneyAboveZero
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import Credit
from workhook.work.money.invoices.schemas import InvoiceItemInput, ItemsText, TaxesText
from workhook.work.money.payments.schemas import InvoiceReference

ITEMS_MAX = 1000


_TaxOfLine = Annotated[
    Percent, Meta(description="Tax rate in percent. Default: the only rate of the invoice, or the invoice's own.")
]


class CreditedItemInput(InvoiceItemInput):
    """A credited line. Its rate must be one of the invoice."""

    tax: _TaxOfLine | UnsetType | None = UNSET


_Tax = Annotated[Percent, Meta(description="A rate of the invoice, in percent. Default: all of them, in proportion.")]
_TaxCategory = Annotated[Category, Meta(description="Needed if the invoice has several categories at this percentage.")]
_Items = Annotated[list[CreditedItemInput], Meta(min_length=1, max_length=ITEMS_MAX, description="Before tax.")]


class CreditNoteCreate(msgspec.Struct):
    """The part of an invoice to credit: a `total`, or lines. By default, everything that is left is credited.

    With `tax` or `tax_category`, only that rate is credited.
    """

    reason: Annotated[
        str, Meta(min_length=1, max_length=4000, description="Printed on the credit note."), Transform(str.strip)
    ]
    total: Annotated[MoneyAboveZero, Meta(description="With tax.")] | UnsetType | None = UNSET
    tax: _Tax | UnsetType | None = UNSET
    tax_category: _TaxCategory | UnsetType | None = UNSET
    invoice_items: _Items | UnsetType | None = UNSET


class CreditNote(Record, frozen=True):
    """A credit note. `total` is `amount` plus tax. Credit notes are never changed or deleted."""

    id: Annotated[str, resource_id("crn")]
    credit_note_number: str
    invoice: Annotated[InvoiceReference, NOT_STORED]
    amount_minor: Annotated[Minor, JsonName("amount"), Meta(description="Before tax."), DESCRIBED]
    taxes: TaxesText
    total_minor: Annotated[Minor, JsonName("total")]
    currency: Annotated[str, CURRENCY]
    reason: str
    issued: Timestamp
    items: Annotated[ItemsText, JsonName("invoice_items"), Meta(description="Empty if a total was credited.")]
    buyer: Annotated[BuyerText | None, NOT_STORED, Meta(description="As on the invoice.")]
    seller: Annotated[SellerText, NOT_STORED, Meta(description="As on the invoice.")]
    language: Annotated[Language, NOT_STORED, Meta(description="Language of the invoice.")]
    user: Annotated[PersonShape | None, NOT_STORED]
    position: Annotated[int, HIDDEN]

    @property
    def credit(self) -> Credit:
        items, taxes = rules.items_of(self.items), rules.rows_of(self.taxes)
        return Credit(self.id, self.credit_note_number, self.issued, items, taxes, self.reason)


# Rows are never changed. `items` is JSON as in invoices. `position` is the number within the invoice, in commit order.
credit_notes = plain_table(
    "credit_notes",
    in_project(),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("invoice_id", sa.Text, sa.ForeignKey("invoices.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    *table_columns(CreditNote),
    sa.UniqueConstraint("account_id", "credit_note_number"),
    sa.UniqueConstraint("invoice_id", "position"),
    sa.Index("ix_credit_notes_repository_id", "repository_id", "id"),
)

credit_note_numbers = plain_table(
    "credit_note_numbers",
    of_account("account_id", primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)


class CreditNoteAnswer(msgspec.Struct):
    credit_note: Wire[CreditNote]
    success: bool = True


class CreditNotesAnswer(msgspec.Struct):
    credit_notes: list[Wire[CreditNote]]
    success: bool = True
