"""Billing and time settings of accounts and projects: types, records, tables and parameters.

IBANs have check digits (ISO 13616, ISO 7064 MOD 97-10). BICs (ISO 9362) and VAT IDs are validated by format only. Tax
numbers have as many formats as there are tax offices and are stored as entered. Invoice number formats are user input,
so they are parsed here and never passed to Python's string formatting.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.clock import HOUR_MS
from workhook.core.errors import compose
from workhook.core.money import DEFAULT_CURRENCY, parse_decimal, parse_hundredths, to_amount, to_hundredths
from workhook.core.records import HIDDEN, NOT_STORED, EventSchema, JsonForm, JsonName, Record, Wire
from workhook.core.zones import NAME_MAX_CHARS, zone_fault, zone_or_utc
from workhook.http.parameters import IN_CAPITALS, ON_ONE_LINE, Converter, Currency, Rule, Transform
from workhook.http.wire_types import wire_number
from workhook.storage.metadata import in_project, of_account, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.people import Email
from workhook.work.kernel.schemas import MoneyAboveZero, Rate

_COUNTRY_CODES = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD
CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF
GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN
KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA
NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI
SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI
VN VU WF WS YE YT ZA ZM ZW
"""
COUNTRIES = frozenset(_COUNTRY_CODES.split())
"""ISO 3166-1 alpha-2 codes."""

Category = Literal["standard", "zero", "exempt", "reverse_charge"]
CATEGORIES: tuple[Category, ...] = ("standard", "zero", "exempt", "reverse_charge")

TAX_DECIMALS = 4


def read_percent(raw: object) -> int:
    """Parse a percentage into millionths. Raises `ValueError` with the accepted format."""
    wanted = "a number from 0 to 100 with at most four decimal places"
    percent = parse_decimal(raw, wanted)
    if not 0 <= percent <= 100 or percent != round(percent, TAX_DECIMALS):
        raise ValueError(wanted)
    return int(percent * 10_000)


Percent = Annotated[
    int,
    wire_number("Percent, with at most four decimal places.", minimum=0, maximum=100),
    Converter(read_percent, (int, float)),
]
"""In millionths."""


def to_number(value: Decimal) -> int | float:
    """Convert to a JSON number, exact up to 15 digits."""
    return int(value) if value == value.to_integral_value() else float(value)


def percent_of(millionths: int) -> Decimal:
    return Decimal(millionths) / 10_000


def percent_to_response(millionths: int) -> int | float:
    return to_number(percent_of(millionths))


Language = Literal["en", "de"]
DEFAULT_LANGUAGE: Language = "en"


class Party(msgspec.Struct, frozen=True):
    """The party that pays. Unknown values are null."""

    name: str | None = None
    address: str | None = None
    vat_id: str | None = None
    email: str | None = None
    country: str | None = None  # ISO 3166-1 alpha-2


class Seller(Party, frozen=True):
    """The party that issues invoices.

    `logo` is the ID of the logo on the invoice's PDF. `timezone` is the IANA name of the time zone where its days
    begin and end; null means UTC.
    """

    iban: str | None = None
    bic: str | None = None
    logo: Annotated[str | None, EventSchema({"pattern": "^lgo_[0-9a-z]{26}$"})] = None
    timezone: str | None = None
    tax_number: str | None = None

    @property
    def zone(self) -> tzinfo:
        return zone_or_utc(self.timezone)


def party_of(text: str) -> Party:
    return msgspec.json.decode(text, type=Party)


def seller_of(text: str) -> Seller:
    return msgspec.json.decode(text, type=Seller)


def party_text(party: Party) -> str:
    return json.encode_text(party)


BuyerText = Annotated[str, JsonForm(Party, party_of)]
SellerText = Annotated[str, JsonForm(Seller, seller_of)]

DEFAULT_FORMAT = "INV-{number:05}"
FORMAT_MAX_CHARS = 40

_FIELD = re.compile(r"\{(?:year|number(?::0([1-9]))?)\}")
_YEAR = "{year}"


class NumberFormat(msgspec.Struct, frozen=True):
    """An invoice number format that `format_fault` accepts."""

    text: str = DEFAULT_FORMAT

    @property
    def is_yearly(self) -> bool:
        """Whether numbering restarts each year."""
        return _YEAR in self.text

    def number_text(self, number: int, year: int) -> str:
        """Format an invoice number, such as `INV-00001`."""
        return _FIELD.sub(
            lambda found: str(year) if found[0] == _YEAR else str(number).zfill(int(found[1] or 1)), self.text
        )


def format_fault(text: str) -> str | None:
    """Return the accepted formats if `text` is invalid, or None."""
    fields = [found[0] for found in _FIELD.finditer(text)]
    rest = _FIELD.sub("", text)
    numbers = len(fields) - fields.count(_YEAR)
    if numbers != 1 or fields.count(_YEAR) > 1 or "{" in rest or "}" in rest or not text.isprintable():
        return (
            "text with {number} once (or {number:05} for at least five digits, at most {number:09}), and at most once "
            "{year}, such as INV-{number:05} or {year}-{number:04}; no other braces"
        )
    return None


NumberFormatText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=FORMAT_MAX_CHARS,
        description="Contains `{number}` or `{number:05}`; with `{year}`, numbering restarts each year (in "
        "`timezone`).",
    ),
    Transform(str.strip),
    Rule(format_fault),
]


Country = Annotated[
    str,
    Meta(
        description="Two-letter code (ISO 3166-1); required for e-invoices.",
        extra_json_schema={"pattern": "^[A-Z]{2}$"},
    ),
    IN_CAPITALS,
    Rule.accepts(COUNTRIES.__contains__, "a two-letter country code (ISO 3166-1), such as DE"),
]
"""In upper case, both internally and in responses."""

_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_BIC = re.compile(r"[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?")
_VAT_ID = re.compile(r"[A-Z]{2,3}[A-Z0-9+*]{2,15}")
_SPACES = re.compile(r"\s+")
_SEPARATORS = re.compile(r"[\s.\-/]+")
TAX_NUMBER_MAX_CHARS = 64
_LENGTHS = {
    "AT": 20, "BE": 16, "BG": 22, "CH": 21, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "EE": 20, "ES": 24, "FI": 18,
    "FR": 27, "GB": 22, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IS": 26, "IT": 27, "LI": 21, "LT": 20, "LU": 20,
    "LV": 21, "MC": 27, "MT": 31, "NL": 18, "NO": 15, "PL": 28, "PT": 25, "RO": 24, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27,
}  # fmt: skip
"""Length of an IBAN by SEPA country. Other countries use 15 to 34 characters."""

# Council Directive 2006/112/EC, Article 215: the format after each member state's prefix.
_VAT_FORMS = {
    "AT": r"U\d{8}", "BE": r"[01]\d{9}", "BG": r"\d{9,10}", "CY": r"\d{8}[A-Z]", "CZ": r"\d{8,10}", "DE": r"\d{9}",
    "DK": r"\d{8}", "EE": r"\d{9}", "EL": r"\d{9}", "ES": r"[A-Z0-9]\d{7}[A-Z0-9]", "FI": r"\d{8}",
    "FR": r"[A-HJ-NP-Z0-9]{2}\d{9}", "HR": r"\d{11}", "HU": r"\d{8}", "IE": r"\d[A-Z0-9+*]\d{5}[A-Z]{1,2}",
    "IT": r"\d{11}", "LT": r"\d{9}(?:\d{3})?", "LU": r"\d{8}", "LV": r"\d{11}", "MT": r"\d{8}",
    "NL": r"[A-Z0-9+*]{10}\d{2}", "PL": r"\d{10}", "PT": r"\d{9}", "RO": r"\d{2,10}", "SE": r"\d{12}", "SI": r"\d{8}",
    "SK": r"\d{10}", "XI": r"\d{9}(?:\d{3})?|(?:GD|HA)\d{3}",
}  # fmt: skip


def without_spaces(text: str) -> str:
    """Normalize an IBAN or BIC for storage: upper case, without spaces."""
    return _SPACES.sub("", text).upper()


def plain_vat_id(text: str) -> str:
    """Normalize a VAT ID: `DE 123.456.789` becomes `DE123456789`."""
    return _SEPARATORS.sub("", text).upper()


def iban_fault(text: str) -> str | None:
    """Return why an IBAN normalized by `without_spaces` is invalid, or None."""
    if not text.isascii() or not _IBAN.fullmatch(text):
        return "an IBAN such as DE89 3704 0044 0532 0130 00: two letters, two digits, 11 to 30 letters or digits"
    wanted = _LENGTHS.get(text[:2], len(text))
    if len(text) != wanted:
        return compose("an IBAN: IBANs of {} have {} characters, but this one has {}", text[:2], wanted, len(text))
    as_digits = "".join(str(int(each, 36)) for each in text[4:] + text[:4])
    if int(as_digits) % 97 != 1:
        return "an IBAN with correct check digits; compare it with the bank's records"
    return None


def bic_fault(text: str) -> str | None:
    """Return why a BIC is invalid, or None."""
    return None if text.isascii() and _BIC.fullmatch(text) else "a BIC of 8 or 11 characters, such as COBADEFFXXX"


def vat_id_fault(text: str) -> str | None:
    """Return why a VAT ID normalized by `plain_vat_id` is invalid, or None."""
    if not text.isascii() or not _VAT_ID.fullmatch(text):
        return "a VAT ID that starts with its country code, such as DE123456789"
    form = _VAT_FORMS.get(text[:2])
    if form is not None and not re.fullmatch(form, text[2:]):
        return compose("a valid VAT ID for {}; compare it with the certificate", text[:2])
    return None


def on_one_line(text: str) -> str:
    """Collapse white space, including line breaks, into single spaces."""
    return " ".join(text.split())


def tax_number_fault(text: str) -> str | None:
    """Return why a tax number normalized by `on_one_line` is invalid, or None."""
    if not text.isprintable() or not any(each.isalnum() for each in text):
        return "a tax number as the tax office writes it, such as 21/815/08150"
    return None


def grouped(iban: str) -> str:
    """Format an IBAN in groups of four characters."""
    return " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))


Iban = Annotated[str, Meta(description="The check digits are verified."), Transform(without_spaces), Rule(iban_fault)]
"""In upper case, without spaces."""
Bic = Annotated[str, Meta(description="8 or 11 characters."), Transform(without_spaces), Rule(bic_fault)]
VatId = Annotated[
    str,
    Meta(description="With the country prefix, such as DE123456789."),
    Transform(plain_vat_id),
    Rule(vat_id_fault),
]
"""In upper case, without separators."""
TaxNumber = Annotated[
    str,
    Meta(max_length=TAX_NUMBER_MAX_CHARS, description="As the tax office writes it, such as 21/815/08150."),
    Transform(on_one_line),
    Rule(tax_number_fault),
]

PAYMENT_DAYS_MAX = 365

RoundMode = Literal["up", "nearest"]

RoundMinutes = Literal[0, 1, 5, 6, 10, 15, 30]
"""Rounding of each time entry on an invoice, in minutes; 0 means no rounding."""

PartyName = Annotated[str, Meta(min_length=1, max_length=255), ON_ONE_LINE]
PartyAddress = Annotated[
    str, Meta(min_length=1, max_length=1000, description="Several lines, without the name."), Transform(str.strip)
]
PaymentDays = Annotated[
    int,
    Meta(
        ge=0,
        le=PAYMENT_DAYS_MAX,
        description="Days from sending until an invoice without `due` is due.",
    ),
]
PaymentTerms = Annotated[str, Meta(min_length=1, max_length=4000), Transform(str.strip)]
Zone = Annotated[
    str,
    Meta(
        max_length=NAME_MAX_CHARS,
        description="Time zone (IANA name) for the days of invoices and the year in their numbers.",
    ),
    Transform(str.strip),
    Rule(zone_fault),
]
TaxCategory = Annotated[Category, Meta(description="All but `standard` have 0 percent.")]
_Percent = Annotated[
    Annotated[int, JsonForm(int | float, percent_to_response)] | None, JsonName("tax"), Meta(description="Percent.")
]

RoundingMinutes = Annotated[
    RoundMinutes, Meta(description="Minutes each time entry is rounded to on invoices; 0: no rounding.")
]
RoundingMode = Annotated[RoundMode, Meta(description="Default: `up`.")]
BUDGET_MAX_HOURS = 1_000_000


def _read_hours(raw: object) -> int:
    wanted = compose("a number greater than 0 and at most {}, with at most two decimal places", BUDGET_MAX_HOURS)
    try:
        hundredths = parse_hundredths(raw)
    except ValueError:
        raise ValueError(wanted) from None
    if not 0 < hundredths <= BUDGET_MAX_HOURS * 100:
        raise ValueError(wanted)
    return hundredths * (HOUR_MS // 100)


BudgetHours = Annotated[
    int,
    wire_number("More than 0, with at most two decimal places.", exclusiveMinimum=0, maximum=BUDGET_MAX_HOURS),
    Converter(_read_hours, (int, float)),
]


class BudgetEdit(msgspec.Struct):
    """A budget in hours or in money."""

    hours: BudgetHours | UnsetType | None = UNSET
    amount: MoneyAboveZero | UnsetType | None = UNSET


class PersonRateInput(msgspec.Struct):
    """The hourly rate of a person in a project."""

    username: Annotated[str, Meta(min_length=1, max_length=255, description="A member of the project.")]
    hourly_rate: Rate


def _form(beside: str) -> JsonForm:
    return JsonForm(int | float, lambda minor, currency: to_amount(minor, currency or DEFAULT_CURRENCY), beside=beside)


_RATE = Meta(description="Hourly rate.")
_AccountRate = Annotated[Annotated[int, _form("currency")] | None, JsonName("hourly_rate"), _RATE]
_ProjectRate = Annotated[Annotated[int, _form("money")] | None, JsonName("hourly_rate"), _RATE]


class InvoiceDefaultsEdit(msgspec.Struct):
    """Defaults for new invoices and time entries. Null clears a field."""

    currency: Currency | UnsetType | None = UNSET
    tax: Percent | UnsetType | None = UNSET
    tax_category: TaxCategory | UnsetType | None = UNSET
    payment_days: PaymentDays | UnsetType | None = UNSET
    language: Annotated[Language, Meta(description="Language of the invoice and its PDF.")] | UnsetType | None = UNSET
    hourly_rate: Rate | UnsetType | None = UNSET
    billable: Annotated[bool, Meta(description="Whether time is billable by default.")] | UnsetType | None = UNSET
    round_minutes: RoundingMinutes | UnsetType | None = UNSET
    round_mode: RoundingMode | UnsetType | None = UNSET


class AccountBillingEdit(InvoiceDefaultsEdit):
    """Omitted fields are left unchanged; null clears a field."""

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
    """Omitted fields are left unchanged; null clears a field."""

    name: PartyName | UnsetType | None = UNSET
    address: PartyAddress | UnsetType | None = UNSET
    vat_id: VatId | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    country: Country | UnsetType | None = UNSET


class ProjectBillingEdit(InvoiceDefaultsEdit):
    """Omitted fields are left unchanged.

    Null resets a field to the organization's setting, and clears all of `buyer`.
    """

    buyer: BuyerEdit | UnsetType | None = UNSET
    budget: Annotated[BudgetEdit, Meta(description="Null: none.")] | UnsetType | None = UNSET
    rates: (
        Annotated[
            list[PersonRateInput], Meta(max_length=1000, description="Replaces all rates: people not listed have none.")
        ]
        | UnsetType
        | None
    ) = UNSET


class AccountBilling(Record, frozen=True):
    """The billing details that an organization, or a person's own account, uses on its invoices.

    A setting that was never set is null, or the default that applies.
    """

    legal_name: str | None = None
    address: str | None = None
    vat_id: str | None = None
    tax_number: Annotated[str | None, Meta(description="Required for e-invoices if `vat_id` is missing.")] = None
    email: str | None = None
    country: Annotated[str | None, Meta(description="Two-letter code (ISO 3166-1); required for e-invoices.")] = None
    iban: str | None = None
    bic: str | None = None
    currency: Annotated[str | None, Meta(description="Default: USD.")] = None
    tax_millionths: _Percent = None
    tax_category: Category | None = None
    payment_days: int | None = None
    payment_terms: str | None = None
    number_format: str | None = None
    timezone: Annotated[str | None, Meta(description="Time zone of the days of its invoices. Default: UTC.")] = None
    language: Language | None = None
    hourly_rate_minor: _AccountRate = None
    billable: bool | None = None
    round_minutes: RoundMinutes | None = None
    round_mode: RoundMode | None = None
    logo_id: Annotated[str | None, JsonName("logo"), Meta(description="ID of the logo printed on invoices.")] = None


class BudgetShape(msgspec.Struct, frozen=True):
    """A budget in hours or in money; the other field is null."""

    hours: float | None = None
    amount: Annotated[float, Meta(description="In the currency of the project's invoices.")] | None = None


def budget_to_response(time_ms: int | None, minor: int | None, currency: str) -> BudgetShape | None:
    if minor is not None:
        return BudgetShape(amount=to_amount(minor, currency))
    return None if time_ms is None else BudgetShape(hours=to_hundredths(time_ms // (HOUR_MS // 100)))


class PersonRateShape(msgspec.Struct, frozen=True):
    """The hourly rate of a person in the project."""

    username: str
    hourly_rate: float


class ProjectBilling(Record, frozen=True):
    """The buyer of a project's invoices, and the settings that differ from the organization's.

    A null setting means that the organization's applies.
    """

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
    budget_mark: Annotated[int | None, HIDDEN] = None  # the percentage of the last notification
    buyer_name: Annotated[str | None, HIDDEN] = None
    buyer_address: Annotated[str | None, HIDDEN] = None
    buyer_vat_id: Annotated[str | None, HIDDEN] = None
    buyer_email: Annotated[str | None, HIDDEN] = None
    buyer_country: Annotated[str | None, HIDDEN] = None
    # The currency of its rates and its budget: its own, or else its account's.
    money: Annotated[str, HIDDEN, NOT_STORED] = DEFAULT_CURRENCY


# Accounts without a row use the defaults.
account_billing = plain_table(
    "account_billing",
    of_account("account_id", primary_key=True),
    *table_columns(AccountBilling),
)
project_billing = plain_table(
    "project_billing",
    in_project(),
    *table_columns(ProjectBilling),
    sa.PrimaryKeyConstraint("repository_id"),
)
# A logo on a sent invoice is kept. `blob` is the name of its content; see `storage.blobs`.
billing_logos = plain_table(
    "billing_logos",
    of_account("account_id", nullable=False, index=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("blob", sa.Text, nullable=False, index=True),
    sa.Column("is_issued", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)


class AccountBillingAnswer(msgspec.Struct):
    billing: Wire[AccountBilling]
    success: bool = True


class ProjectBillingAnswer(msgspec.Struct):
    billing: Wire[ProjectBilling]
    success: bool = True
