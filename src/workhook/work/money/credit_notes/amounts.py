"""The amounts of a new credit note, computed from the request and the amounts still creditable at each tax rate.

All amounts are in minor units. They are split over the tax rates of an invoice, never exceeding the amount left at a
rate. Each part is cut from the running total of its rate, so all parts add up to exactly the billed amount, and the
last one takes the remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import Conflict, Fault, Invalid, say
from workhook.core.money import TOTAL_MAX_MINOR, amount_of, half_up, to_amount, to_minor
from workhook.storage import Reader
from workhook.work.kernel.billing_settings import Category, percent_to_response
from workhook.work.kernel.schemas import if_set
from workhook.work.money.credit_notes.schemas import CreditedItemInput, CreditNoteCreate, credit_notes
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.drafts import items_of_inputs
from workhook.work.money.invoices.rules import Item, Sums, TaxRate, TaxRow, rows_of, split_proportionally
from workhook.work.money.invoices.schemas import Invoice

Key = tuple[int, Category]


class RateBalance(msgspec.Struct, frozen=True):
    """The amount billed at one tax rate, and how much of its base and tax has been credited."""

    billed: TaxRow
    base: int = 0
    tax: int = 0

    @property
    def key(self) -> Key:
        return self.billed.millionths, self.billed.category

    @property
    def left(self) -> TaxRow:
        """The amount that can still be credited."""
        billed = self.billed
        return self._row(max(billed.base - self.base, 0), max(billed.tax - self.tax, 0))

    def part_with_tax(self, gross: int) -> TaxRow:
        """Split a gross amount into its base and tax. It must not exceed the gross amount left."""
        left = self.left
        [so_far, _] = split_proportionally(self.base + self.tax + gross, [self.billed.base, self.billed.tax])
        base = min(max(so_far - self.base, gross - left.tax, 0), left.base, gross)
        return self._row(base, gross - base)

    def part_before_tax(self, base: int) -> TaxRow:
        """Add the tax to a net amount, which is at most the base left."""
        billed = self.billed
        so_far = self.base + base
        if not billed.base:
            return self._row(0, 0)
        tax = half_up(billed.tax * so_far, billed.base) - self.tax
        return self._row(base, min(max(tax, 0), self.left.tax))

    def _row(self, base: int, tax: int) -> TaxRow:
        return TaxRow(self.billed.millionths, self.billed.category, base, tax)


class Rates(msgspec.Struct, frozen=True):
    """All tax rates of an invoice, in the order of the invoice. `default` is the invoice's own rate."""

    rows: tuple[RateBalance, ...]
    default: TaxRate = TaxRate()

    @property
    def left(self) -> int:
        """The gross amount that can still be credited at all rates together."""
        return sum(each.left.gross for each in self.rows)

    def find(self, rate: TaxRate) -> list[RateBalance]:
        """Return the matching rates: one, unless the request is ambiguous or matches none.

        An empty `rate` means the invoice's own.
        """
        found = [
            each
            for each in self.rows
            if rate.millionths in (None, each.billed.millionths) and rate.category in (None, each.billed.category)
        ]
        if len(found) > 1 and rate == TaxRate() and self.default != TaxRate():
            found = [each for each in self.rows if each.key == self.default.or_default(TaxRate())]
        return found

    def parts_of(self, total: int) -> tuple[TaxRow, ...]:
        """Split a gross amount over all rates, in proportion to the amounts left."""
        shares = split_proportionally(total, [each.left.gross for each in self.rows])
        parts = (each.part_with_tax(gross) for each, gross in zip(self.rows, shares, strict=True))
        return tuple(each for each in parts if each.gross)

    def parts_before_tax(self, bases: Mapping[Key, int]) -> tuple[TaxRow, ...]:
        """Add the tax to net amounts, each at most the base left at its rate."""
        return tuple(each.part_before_tax(bases[each.key]) for each in self.rows if each.key in bases)


def rates_of(billed: Sequence[TaxRow], default: TaxRate, credited: Iterable[TaxRow]) -> Rates:
    """Combine the billed rates with the `credited` rows of all credit notes so far."""
    sums: dict[Key, tuple[int, int]] = {}
    for row in credited:
        base, tax = sums.get((row.millionths, row.category), (0, 0))
        sums[row.millionths, row.category] = base + row.base, tax + row.tax
    rows = (RateBalance(row, *sums.get((row.millionths, row.category), (0, 0))) for row in billed)
    return Rates(tuple(rows), default)


_taxes = (
    sa.select(credit_notes.c.taxes)
    .where(credit_notes.c.invoice_id == sa.bindparam("invoice_id"))
    .order_by(credit_notes.c.position)
)


async def find_rates(reader: Reader, invoice: Invoice) -> Rates:
    """Return the billed and credited amounts at each rate of the invoice."""
    rows = await reader.fetch_all(_taxes, {"invoice_id": invoice.id}) if invoice.credited_minor else []
    return rates_of(invoice.tax_rows, invoice.rate, [row for each in rows for row in rows_of(each["taxes"])])


def amounts_of(invoice: Invoice, rates: Rates, wanted: CreditNoteCreate) -> tuple[list[Item], Sums]:
    """Return the lines and sums of the credit note. Raises `Conflict` or `Invalid`."""
    if if_set(wanted.invoice_items) is not None:
        return _of_lines(invoice, rates, wanted)
    rate = TaxRate(if_set(wanted.tax), None if isinstance(wanted.tax_category, UnsetType) else wanted.tax_category)
    asked = if_set(wanted.total)
    total = None if asked is None else to_minor(asked, invoice.currency, "total", maximum_minor=TOTAL_MAX_MINOR)
    if rate == TaxRate():
        return [], Sums(rates.parts_of(_checked(invoice, total, rates.left, say("The invoice is fully credited."))))
    one = _find(rates, rate, "")
    words = rate_words(one.billed)
    amount = _checked(
        invoice, total, one.left.gross, say("The part of the invoice taxed at {} is fully credited.", words), words
    )
    return [], Sums((one.part_with_tax(amount),))


class CreditableLine(msgspec.Struct, frozen=True):
    """A line of an invoice that can be credited.

    `base` is its net amount after its share of the invoice's discount. `left` is the part of it that has not been
    credited and can still be credited at its rate.
    """

    item: Item
    row: TaxRow
    base: int
    left: int


def lines_of(invoice: Invoice, rates: Rates, credited: Iterable[Item]) -> list[CreditableLine]:
    """Return all lines of the invoice; their bases add up to those of its rates.

    `credited` are the lines of its credit notes, which are matched by description and rate.
    """
    taken: dict[tuple[str, Key], int] = {}
    for each in credited:
        known = each.description, each.rate.or_default(invoice.rate)
        taken[known] = taken.get(known, 0) + each.amount_minor
    items = invoice.every_item
    groups: dict[Key, list[int]] = {}
    for number, each in enumerate(items):
        groups.setdefault(each.rate.or_default(invoice.rate), []).append(number)
    found: dict[int, CreditableLine] = {}
    for one in rates.rows:
        numbers = groups.get(one.key, [])
        bases = split_proportionally(one.billed.base, [items[number].amount_minor for number in numbers])
        for number, base in zip(numbers, bases, strict=True):
            known = items[number].description, one.key
            gone = min(base, taken.get(known, 0))
            taken[known] = taken.get(known, 0) - gone
            found[number] = CreditableLine(items[number], one.billed, base, min(base - gone, one.left.base))
    return [found[number] for number in sorted(found)]


def whole_line(line: CreditableLine, currency: str) -> CreditedItemInput:
    """Return a credited line for everything that is left of a line."""
    row = line.row
    price = amount_of(line.left, currency)
    return CreditedItemInput(line.item.description, Decimal(1), price, tax=row.millionths, tax_category=row.category)


def _checked(invoice: Invoice, total: int | None, left: int, nothing: str, words: str = "") -> int:
    """Return the requested total, or everything that is left."""
    most = min(left, invoice.books.not_credited)
    if total is None:
        if most == 0:
            raise Conflict(nothing, code="nothing_due")
        return most
    if total > most:
        raise _more_than_due("total", most, invoice, words)
    return total


def _of_lines(invoice: Invoice, rates: Rates, wanted: CreditNoteCreate) -> tuple[list[Item], Sums]:
    inputs = if_set(wanted.invoice_items) or []
    extra = [name for name in ("total", "tax", "tax_category") if if_set(getattr(wanted, name)) is not None]
    if extra:
        sentence = "{}: the lines already define the amounts and rates to credit; omit one or the other"
        raise Invalid(faults=[Fault(field=each, message=say(sentence, each)) for each in extra])
    items = items_of_inputs(inputs, invoice.currency)
    if faults := [f for n, each in enumerate(items) for f in rules.item_faults(each, f"invoice_items[{n}].")]:
        raise Invalid(faults=faults)
    found = _rates_of_lines(rates, items)
    bases: dict[Key, int] = {}
    for item, one in zip(items, found, strict=True):
        bases[one.key] = bases.get(one.key, 0) + item.amount_minor
    if not any(bases.values()):
        message = "invoice_items: the lines add up to 0; a credit note must credit an amount"
        raise Invalid.at("invoice_items", message, code="empty")
    for one in rates.rows:
        if bases.get(one.key, 0) > one.left.base:
            raise _more_than_due("invoice_items", one.left.base, invoice, rate_words(one.billed), before_tax=True)
    # Store the rate on a line unless the line and the invoice already determine it.
    kept = [
        item
        if item.rate.or_default(invoice.rate) == one.key
        else msgspec.structs.replace(item, tax_millionths=one.billed.millionths, tax_category=one.billed.category)
        for item, one in zip(items, found, strict=True)
    ]
    return kept, Sums(rates.parts_before_tax(bases))


def _rates_of_lines(rates: Rates, items: Iterable[Item]) -> list[RateBalance]:
    found: list[RateBalance] = []
    faults: list[Fault] = []
    for number, each in enumerate(items):
        try:
            found.append(_find(rates, each.rate, f"invoice_items[{number}]."))
        except Invalid as problem:
            faults += problem.faults
    if faults:
        raise Invalid(faults=faults)
    return found


def _find(rates: Rates, rate: TaxRate, path: str) -> RateBalance:
    """Find the single matching rate, or raise `Invalid`. `path` is the prefix of field names in faults."""
    found = rates.find(rate)
    if len(found) == 1:
        return found[0]
    is_unclear = len(found) > 1 or rate == TaxRate()
    field = path + ("tax" if (rate.millionths is None) == is_unclear else "tax_category")
    has = ", ".join(rate_words(each.billed) for each in rates.rows)
    if is_unclear:
        code, message = "missing", say("{}: specify the tax rate to credit; the invoice's rates are {}", field, has)
    else:
        code = "not_on_invoice"
        message = say("{}: the invoice has no lines at this rate; its rates are {}", field, has)
    raise Invalid.at(field, message, code=code)


def rate_words(row: TaxRow) -> str:
    """Return the rate as shown in messages: `19 %`, `0 % (exempt)`."""
    percent = f"{percent_to_response(row.millionths)} %"
    return percent if row.category == "standard" else f"{percent} ({row.category})"


def _more_than_due(field: str, left: int, invoice: Invoice, rate: str = "", *, before_tax: bool = False) -> Invalid:
    money = f"{to_amount(left, invoice.currency)} {invoice.currency}"
    message = say("{}: at most {} can still be credited", field, money)
    if rate:
        message = say("{}: at the tax rate {}, at most {} can still be credited", field, rate, money)
    if before_tax:
        message = say("{}: at the tax rate {}, at most {} before tax can still be credited", field, rate, money)
    return Invalid.at(field, message, code="more_than_due")
