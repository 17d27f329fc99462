"""An invoice or a credit note in the model of EN 16931, and what is missing for that. Pure functions.

The arithmetic follows the standard, with one exception: the single discount of an invoice is split over its tax rates,
and becomes an allowance for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Literal

import msgspec

from workhook.core.errors import Fault, Invalid, compose, phrase, say
from workhook.core.money import amount_of
from workhook.core.zones import day_in
from workhook.identity.schemas import Repository
from workhook.work.kernel.billing_settings import Category, Language, Party, Seller, percent_of
from workhook.work.money.invoices import printing
from workhook.work.money.invoices.paper import DocumentLocale
from workhook.work.money.invoices.rules import Credit, Days, Item, TaxRate, TaxRow
from workhook.work.money.invoices.schemas import Invoice

XML = "application/xml"

Code = Literal["S", "Z", "E", "AE"]
CODES: dict[Category, Code] = {"standard": "S", "zero": "Z", "exempt": "E", "reverse_charge": "AE"}
"""The tax categories (UNTDID 5305)."""
DECIMALS_MAX = 2
"""The limit of EN 16931 in all currencies."""

Service = tuple[date, date]
"""The first and last day of a service."""


class EParty(msgspec.Struct, frozen=True):
    """The seller or buyer. `lines` is the address; `tax_number` is the seller's, as written by the tax office."""

    name: str
    lines: tuple[str, ...]
    country: str
    vat_id: str | None
    email: str | None
    tax_number: str | None = None


class ETax(msgspec.Struct, frozen=True):
    """The tax at one rate. `allowance` is its share of the invoice's discount."""

    code: Code
    percent: Decimal
    base: Decimal
    tax: Decimal
    allowance: Decimal


class ELine(msgspec.Struct, frozen=True):
    """A line of the e-invoice.

    `unit` is the unit of its quantity (UN/ECE Recommendation 20). `rounding` is added to quantity times price because
    each time entry is rounded individually; it can be negative. `net` includes it, and excludes `allowance`.
    """

    description: str
    qty: Decimal
    unit: Literal["HUR", "C62"]
    price: Decimal
    rounding: Decimal
    allowance: Decimal
    net: Decimal
    code: Code
    percent: Decimal
    service: Service | None = None


class EInvoice(msgspec.Struct, frozen=True):
    """An e-invoice. `kind` is 380 for an invoice and 381 for a credit note.

    `preceding` is the number and day of the credited invoice.
    """

    kind: Literal["380", "381"]
    number: str
    issued: date
    currency: str
    seller: EParty
    buyer: EParty
    lines: tuple[ELine, ...]
    taxes: tuple[ETax, ...]
    paid: Decimal
    terms: str | None
    due: date | None
    iban: str | None
    bic: str | None
    note: str | None
    preceding: tuple[str, date] | None
    language: Language
    service: Service | None = None


def einvoice_of(
    invoice: Invoice, repository: Repository, settings: tuple[Party, Party], credit: Credit | None = None
) -> EInvoice:
    """Convert an issued invoice or, with `credit`, one of its credit notes, which has the same parties.

    `settings` are the current seller and buyer. Their countries are used if the invoice was sent without any. Raises
    `Invalid` naming what is missing.
    """
    paper, currency, books = DocumentLocale(invoice.language), invoice.currency, invoice.books
    issued = invoice.days.issued or day_in(invoice.created_at, invoice.zone)
    items, rows, due, terms = invoice.every_item, invoice.tax_rows, invoice.days.due, invoice.payment_terms
    if credit is not None:
        # A credit note over a total has one line per rate.
        words = f"{paper.translate('Credit note for invoice')} {invoice.invoice_number}"
        whole = tuple(
            Item(words, Decimal(1), each.base, tax_millionths=each.millionths, tax_category=each.category)
            for each in credit.taxes
        )
        items, rows, due, terms = credit.items or whole, credit.taxes, None, None
    who, pays = _parties(invoice, repository, settings)
    if faults := [*_party_faults(who, pays, repository), *_decimal_faults(items, rows, currency)]:
        raise Invalid(faults=faults)
    if due is None and not terms:
        terms = paper.translate("Credit note" if credit else "Due on receipt")
    return EInvoice(
        kind="381" if credit else "380",
        number=credit.number if credit else invoice.invoice_number or "",
        issued=day_in(credit.issued, invoice.zone) if credit else issued,
        currency=currency,
        seller=who,
        buyer=pays,
        lines=tuple(_line(each, invoice.rate, currency) for each in items),
        taxes=_taxes(items, rows, invoice.rate, currency),
        paid=amount_of(0 if credit else books.total - books.due, currency),
        terms=terms,
        due=due,
        iban=invoice.who_bills.iban,
        bic=invoice.who_bills.bic,
        note=credit.reason if credit else invoice.payment_method,
        preceding=(invoice.invoice_number or "", issued) if credit else None,
        language=invoice.language,
        service=None if credit else _service(invoice.service_days),
    )


def _parties(invoice: Invoice, repository: Repository, settings: tuple[Party, Party]) -> tuple[EParty, EParty]:
    buyer = printing.buyer_text(invoice)
    if invoice.address and not invoice.bill_to:  # an address without a name gets the name of the party
        buyer = f"{invoice.who_pays.name}\n{buyer}" if invoice.who_pays.name else ""
    who = _party(printing.seller_text(invoice, repository).split("\n"), invoice.who_bills, settings[0])
    return who, _party(buyer.split("\n"), invoice.who_pays, settings[1])


def lacking_of_draft(invoice: Invoice, repository: Repository) -> tuple[list[str], list[str]]:
    """Return the fields that an e-invoice of the draft would lack, and the seller's fields that its pages would lack.

    The former, such as `buyer.country`, are empty if the draft probably needs no e-invoice: the seller has no country,
    and neither party has a VAT ID or tax number. The latter, `address` and `tax_number`, cannot be added after sending.
    `tax_number` is never reported if there is a `bill_from`, a text that may contain it.
    """
    who, pays = _parties(invoice, repository, (Party(), Party()))
    is_needed = who.country or who.vat_id or who.tax_number or pays.vat_id
    lacking = [field for field, value in _needed(who, pays) if is_needed and not value]
    has_number = who.vat_id or who.tax_number or invoice.bill_from
    return lacking, [*([] if who.lines else ["address"]), *([] if has_number else ["tax_number"])]


def _needed(seller: EParty, buyer: EParty) -> list[tuple[str, str | None]]:
    """Return required fields and values. A tax number can replace a VAT ID (BR-S-02, BR-Z-02, BR-E-02, BR-AE-02)."""
    return [
        ("seller.country", seller.country),
        ("seller.vat_id", seller.vat_id or seller.tax_number),
        ("buyer.country", buyer.country),
        ("buyer.name", buyer.name),
    ]


def _party(written: Sequence[str], party: Party, now: Party) -> EParty:
    """Build a party. `written` is its name and address as printed, and `now` is the party in the current settings."""
    name, *lines = [each.strip() for each in written if each.strip()] or [""]
    number = party.tax_number if isinstance(party, Seller) else None
    return EParty(name, tuple(lines), party.country or now.country or "", party.vat_id, party.email, number)


def _party_faults(seller: EParty, buyer: EParty, repository: Repository) -> list[Fault]:
    """Return the faults of missing fields. Only admins of the project are told where to enter them."""
    account, project = f"/organizations/{repository.owner.login}/billing", f"/projects/{repository.project_id}/billing"
    sent = phrase("; an issued invoice cannot be changed: credit it and issue another")
    remedies = {
        "seller.country": compose("set country in {}", account),
        "seller.vat_id": compose("set vat_id or tax_number in {}{}", account, sent),
        "buyer.country": compose("set buyer.country in {}", project),
        "buyer.name": compose("set bill_to of the invoice, or buyer.name in {} before sending it", project),
    }
    if repository.role != "admin":
        remedies = dict.fromkeys(remedies, phrase("the seller must complete its billing settings"))
    missing = {"seller.vat_id": "required for e-invoices, unless there is a tax number"}
    return [
        Fault(
            field=field,
            code="missing",
            message=compose(f"{field}: {missing.get(field, 'required for e-invoices')}; {{}}", remedies[field]),
        )
        for field, value in _needed(seller, buyer)
        if not value
    ]


def _decimal_faults(items: Sequence[Item], rows: Sequence[TaxRow], currency: str) -> list[Fault]:
    every = [minor for each in items for minor in (each.gross_minor, each.rounding_minor, each.amount_minor)]
    every += [minor for each in rows for minor in (each.base, each.tax)]
    if all(amount_of(each, currency) == round(amount_of(each, currency), DECIMALS_MAX) for each in every):
        return []
    message = say("currency: an e-invoice allows at most two decimal places, but amounts in {} have more", currency)
    return [Fault(field="currency", code="too_many_decimals", message=message)]


def _line(item: Item, rate: TaxRate, currency: str) -> ELine:
    code, percent = _kind(*item.rate.or_default(rate))
    return ELine(
        item.description,
        item.qty,
        "C62" if item.duration_ms is None else "HUR",
        amount_of(item.unit_price_minor, currency),
        amount_of(item.rounding_minor, currency),
        amount_of(item.gross_minor - item.amount_minor, currency),
        amount_of(item.amount_minor, currency),
        code,
        percent,
        _service(item.days),
    )


def _service(days: Days | None) -> Service | None:
    return None if days is None else (date.fromisoformat(days[0]), date.fromisoformat(days[1]))


def _kind(millionths: int, category: Category) -> tuple[Code, Decimal]:
    """Return the category and the percentage of a rate. A standard rate of 0 % gets category Z (zero-rated)."""
    code = CODES[category]
    return ("Z" if code == "S" and not millionths else code), percent_of(millionths).normalize()


def _taxes(items: Sequence[Item], rows: Sequence[TaxRow], rate: TaxRate, currency: str) -> tuple[ETax, ...]:
    """Return the tax at each rate. The allowance of a rate is the sum of its lines minus its base."""
    nets: dict[tuple[Code, Decimal], int] = {}
    for item in items:
        kind = _kind(*item.rate.or_default(rate))
        nets[kind] = nets.get(kind, 0) + item.amount_minor
    bases, taxes = dict.fromkeys(nets, 0), dict.fromkeys(nets, 0)
    for row in rows:
        kind = _kind(row.millionths, row.category)
        bases[kind] = bases.get(kind, 0) + row.base
        taxes[kind] = taxes.get(kind, 0) + row.tax
    return tuple(
        ETax(
            *kind,
            amount_of(bases[kind], currency),
            amount_of(taxes[kind], currency),
            amount_of(nets.get(kind, 0) - bases[kind], currency),
        )
        for kind in bases
    )
