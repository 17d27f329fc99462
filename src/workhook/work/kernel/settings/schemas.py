"""Billing settings of accounts and projects: the records, their tables, and what a caller may say about them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import HOUR_MS
from workhook.core.money import DEFAULT_CURRENCY, read_hundredths, to_amount, to_hundredths
from workhook.core.records import COMPUTED, HIDDEN, JsonForm, JsonName, Record, Wire
from workhook.core.zones import NAME_MAX_CHARS, zone_fault
from workhook.http.parameters import ON_ONE_LINE, Checked, Currency, Prepared, Read
from workhook.http.wire_types import wire_number
from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.people import Email
from workhook.work.kernel.schemas import MoneyAboveZero, Rate
from workhook.work.kernel.settings.arithmetic import Category, Percent, TaxRate, percent_to_response
from workhook.work.kernel.settings.bank import Bic, Country, Iban, TaxNumber, VatId
from workhook.work.kernel.settings.numbering import NumberFormatText
from workhook.work.kernel.settings.parties import Language, Party

PAYMENT_DAYS_MAX = 365

RoundMode = Literal["up", "nearest"]


RoundMinutes = Literal[0, 1, 5, 6, 10, 15, 30]
"""What the time of an entry can be rounded to on an invoice; 0: not at all."""

PartyName = Annotated[str, Meta(min_length=1, max_length=255), ON_ONE_LINE]
PartyAddress = Annotated[
    str, Meta(min_length=1, max_length=1000, description="Several lines, without the name."), Prepared(str.strip)
]
PaymentDays = Annotated[
    int,
    Meta(
        ge=0,
        le=PAYMENT_DAYS_MAX,
        description="An invoice without `due` is due so many days after it is sent.",
    ),
]
PaymentTerms = Annotated[str, Meta(min_length=1, max_length=4000), Prepared(str.strip)]
Zone = Annotated[
    str,
    Meta(
        max_length=NAME_MAX_CHARS,
        description="IANA name. The days of its invoices, and the year of their numbers, are those of this time zone.",
    ),
    Prepared(str.strip),
    Checked(zone_fault),
]
TaxCategory = Annotated[Category, Meta(description="All but `standard` have 0 percent.")]
_Percent = Annotated[
    Annotated[int, JsonForm(int | float, percent_to_response)] | None, JsonName("tax"), Meta(description="Percent.")
]


RoundingMinutes = Annotated[
    RoundMinutes, Meta(description="What the time of each entry is rounded to on an invoice; 0: it is not.")
]
RoundingMode = Annotated[RoundMode, Meta(description="`up` until it is set.")]
BUDGET_MAX_HOURS = 1_000_000


def _read_hours(raw: object) -> int:
    """Milliseconds of hours."""
    wanted = f"a number of more than 0 and at most {BUDGET_MAX_HOURS}, with at most two decimals"
    try:
        hundredths = read_hundredths(raw)
    except ValueError:
        raise ValueError(wanted) from None
    if not 0 < hundredths <= BUDGET_MAX_HOURS * 100:
        raise ValueError(wanted)
    return hundredths * (HOUR_MS // 100)


BudgetHours = Annotated[
    int,
    wire_number("More than 0, with at most two decimals.", exclusiveMinimum=0, maximum=BUDGET_MAX_HOURS),
    Read(_read_hours, (int, float)),
]


class BudgetEdit(msgspec.Struct):
    """One of both."""

    hours: BudgetHours | UnsetType | None = UNSET
    amount: MoneyAboveZero | UnsetType | None = UNSET


class PersonRate(msgspec.Struct):
    """What an hour of somebody costs in a project."""

    username: Annotated[str, Meta(min_length=1, max_length=255, description="Of a member of the project.")]
    hourly_rate: Rate


def _rate_to_response(minor: int, currency: str | None) -> int | float:
    return to_amount(minor, currency or DEFAULT_CURRENCY)


def _form(beside: str) -> JsonForm:
    return JsonForm(int | float, _rate_to_response, beside=beside)


_RATE = Meta(description="What an hour costs.")
_AccountRate = Annotated[Annotated[int, _form("currency")] | None, JsonName("hourly_rate"), _RATE]
_ProjectRate = Annotated[Annotated[int, _form("money")] | None, JsonName("hourly_rate"), _RATE]


class InvoiceDefaultsEdit(msgspec.Struct):
    """What new invoices, and new time, begin with. Null clears a field."""

    currency: Currency | UnsetType | None = UNSET
    tax: Percent | UnsetType | None = UNSET
    tax_category: TaxCategory | UnsetType | None = UNSET
    payment_days: PaymentDays | UnsetType | None = UNSET
    language: Annotated[Language, Meta(description="Of the invoice and its PDF.")] | UnsetType | None = UNSET
    hourly_rate: Rate | UnsetType | None = UNSET
    billable: Annotated[bool, Meta(description="Whether time is billable where nobody says.")] | UnsetType | None = (
        UNSET
    )
    round_minutes: RoundingMinutes | UnsetType | None = UNSET
    round_mode: RoundingMode | UnsetType | None = UNSET


class AccountBillingEdit(InvoiceDefaultsEdit):
    """Fields that are absent stay as they are; null clears one."""

    legal_name: PartyName | UnsetType | None = UNSET
    address: PartyAddress | UnsetType | None = UNSET
    vat_id: VatId | UnsetType | None = UNSET
    tax_number: TaxNumber | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    country: Country | UnsetType | None = UNSET
    iban: Iban | UnsetType | None = UNSET
    bic: Bic | UnsetType | None = UNSET
    payment_terms: PaymentTerms | UnsetType | None = UNSET
    number_format: NumberFormatText | UnsetType | None = UNSET
    timezone: Zone | UnsetType | None = UNSET


class BuyerEdit(msgspec.Struct):
    """Fields that are absent stay as they are; null clears one."""

    name: PartyName | UnsetType | None = UNSET
    address: PartyAddress | UnsetType | None = UNSET
    vat_id: VatId | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    country: Country | UnsetType | None = UNSET


class ProjectBillingEdit(InvoiceDefaultsEdit):
    """Fields that are absent stay as they are; null stands for the organization's, and clears all of `buyer`."""

    buyer: BuyerEdit | UnsetType | None = UNSET
    budget: Annotated[BudgetEdit, Meta(description="Null: none.")] | UnsetType | None = UNSET
    rates: (
        Annotated[list[PersonRate], Meta(max_length=1000, description="All of them: who is left out has none.")]
        | UnsetType
        | None
    ) = UNSET


class AccountBilling(Record, frozen=True):
    """What an organization, or a person's own account, puts on its invoices. What was never set is null, or the
    default that counts then."""

    legal_name: str | None = None
    address: str | None = None
    vat_id: str | None = None
    tax_number: Annotated[str | None, Meta(description="An e-invoice needs it where there is no `vat_id`.")] = None
    email: str | None = None
    country: Annotated[str | None, Meta(description="ISO 3166-1, two letters; an e-invoice needs it.")] = None
    iban: str | None = None
    bic: str | None = None
    currency: Annotated[str | None, Meta(description="USD until it is set.")] = None
    tax_millionths: _Percent = None
    tax_category: Category | None = None
    payment_days: int | None = None
    payment_terms: str | None = None
    number_format: str | None = None
    timezone: Annotated[str | None, Meta(description="Of the days of its invoices. UTC until it is set.")] = None
    language: Language | None = None
    hourly_rate_minor: _AccountRate = None
    billable: bool | None = None
    round_minutes: RoundMinutes | None = None
    round_mode: RoundMode | None = None
    logo_id: Annotated[str | None, JsonName("logo"), Meta(description="Id of the logo on its invoices.")] = None

    @property
    def rate(self) -> TaxRate:
        return TaxRate(self.tax_millionths, self.tax_category)


class BudgetShape(msgspec.Struct, frozen=True):
    """A budget is of hours or of money; the other one is null."""

    hours: float | None = None
    amount: Annotated[float, Meta(description="In the currency of the project's invoices.")] | None = None


def budget_shape(time_ms: int | None, minor: int | None, currency: str) -> BudgetShape | None:
    if minor is not None:
        return BudgetShape(amount=to_amount(minor, currency))
    return None if time_ms is None else BudgetShape(hours=to_hundredths(time_ms // (HOUR_MS // 100)))


class PersonRateShape(msgspec.Struct, frozen=True):
    """What an hour of somebody costs in the project."""

    username: str
    hourly_rate: float


class ProjectBilling(Record, frozen=True):
    """Who pays the invoices of a project, and what differs from its organization's settings. Null: the
    organization's."""

    buyer: Party = Party()
    currency: str | None = None
    tax_millionths: _Percent = None
    tax_category: Category | None = None
    payment_days: int | None = None
    language: Language | None = None
    hourly_rate_minor: _ProjectRate = None
    billable: bool | None = None
    round_minutes: RoundMinutes | None = None
    round_mode: RoundMode | None = None
    budget: BudgetShape | None = None
    rates: tuple[PersonRateShape, ...] = ()
    budget_ms: Annotated[int | None, HIDDEN] = None
    budget_minor: Annotated[int | None, HIDDEN] = None
    budget_mark: Annotated[int | None, HIDDEN] = None  # the percentage that was told last
    buyer_name: Annotated[str | None, HIDDEN] = None
    buyer_address: Annotated[str | None, HIDDEN] = None
    buyer_vat_id: Annotated[str | None, HIDDEN] = None
    buyer_email: Annotated[str | None, HIDDEN] = None
    buyer_country: Annotated[str | None, HIDDEN] = None
    # Of its rates and its budget: its own currency, or else that of its account.
    money: Annotated[str, HIDDEN, COMPUTED] = DEFAULT_CURRENCY

    @property
    def rate(self) -> TaxRate:
        return TaxRate(self.tax_millionths, self.tax_category)


# Who has no row has said nothing.
account_billing = sa.Table(
    "account_billing",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    *table_columns(AccountBilling),
)
project_billing = sa.Table(
    "project_billing",
    metadata,
    in_project(),
    *table_columns(ProjectBilling),
    sa.PrimaryKeyConstraint("repository_id"),
)
# A logo that is on an invoice that was sent stays. `blob`: where its content is, see `storage.blobs`.
billing_logos = sa.Table(
    "billing_logos",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("blob", sa.Text, nullable=False),
    sa.Column("is_issued", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Index("ix_billing_logos_account_id", "account_id"),
    sa.Index("ix_billing_logos_blob", "blob"),
)


class AccountBillingAnswer(msgspec.Struct):
    billing: Wire[AccountBilling]
    success: bool = True


class ProjectBillingAnswer(msgspec.Struct):
    billing: Wire[ProjectBilling]
    success: bool = True
