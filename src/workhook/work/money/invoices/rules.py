"""Amounts, taxes, numbers and states of invoices, as pure functions.

All amounts are in minor units. Rounding is half up, once per step, and nowhere else:

1. The net of a line is `round(qty * unit price)` minus its discount.

2. The invoice's discount is split over the groups of equal rate and category, in proportion to their nets.

3. The tax of a group is `round(base * percent)`; `amount` is the sum of the bases, and `total` is `amount` plus taxes.

The amount of a time item is the sum of its entries, each rounded individually. This gives the same sum as in reports,
for any grouping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeVar

import msgspec

from workhook.core import json
from workhook.core.errors import Fault, Message, compose, phrase
from workhook.core.money import convert_minor, half_up, parse_decimal
from workhook.work.kernel.billing_settings import CATEGORIES, Category
from workhook.work.kernel.durations import amount_minor as worth_of

V = TypeVar("V", str, int)
MILLION = 10**6
Days = tuple[str, str]
"""The first and last day of a service, as ISO 8601 dates."""

QTY_DECIMALS = 6
QTY_MAX = 999_999_999
NUMBER_MAX_CHARS = 64
PRINTED_MAX_CHARS = 100_000
"""The limit for all texts of an invoice together.

The worst text of that length (each character from a different script) took 5 s to print when measured; 1,000 lines of
100 letters took 1 s.
"""


class TaxRow(msgspec.Struct, frozen=True, array_like=True):
    """The tax at one rate: `tax` on `base`. Stored as `[rate, category, base, tax]`."""

    millionths: int
    category: Category
    base: int
    tax: int

    @property
    def gross(self) -> int:
        return self.base + self.tax


class TaxRate(msgspec.Struct, frozen=True):
    """The tax rate of an invoice or a line; None means not set."""

    millionths: int | None = None
    category: Category | None = None

    def or_default(self, default: TaxRate) -> tuple[int, Category]:
        """Return the effective rate of a line. `default` is the invoice's rate, which applies if the line has none."""
        mine = self if self.millionths is not None or self.category is not None else default
        millionths = mine.millionths or 0
        return millionths, mine.category or ("standard" if millionths else "zero")


class Discount(msgspec.Struct, frozen=True):
    """A discount as a percentage or an amount; None if not set."""

    millionths: int | None = None
    minor: int | None = None

    def of(self, amount: int) -> int:
        """Return the discount in minor units. A fixed discount may exceed the amount."""
        if self.minor is not None:
            return self.minor
        return half_up(amount * (self.millionths or 0), MILLION)


class Item(msgspec.Struct, frozen=True):
    """A line of an invoice. `qty` has at most six decimal places.

    `times_ms` is the time of each of `timesheet_ids`, rounded by the settings at the time of creation; hours with six
    decimal places cannot express it exactly. `days` are the first and last day of the service, as ISO dates, if known.
    """

    description: str
    qty: Decimal
    unit_price_minor: int
    timesheet_ids: tuple[str, ...] = ()
    times_ms: tuple[int, ...] = ()
    discount_millionths: int | None = None
    discount_minor: int | None = None
    tax_millionths: int | None = None
    tax_category: Category | None = None
    days: Days | None = None

    @property
    def kind(self) -> Literal["item", "time"]:
        return "time" if self.timesheet_ids else "item"

    @property
    def duration_ms(self) -> int | None:
        """The time of all its entries, or None if it is not a time item."""
        return sum(self.times_ms) if self.times_ms else None

    @property
    def gross_minor(self) -> int:
        """The amount before the line's discount."""
        if self.times_ms:
            return sum(worth_of(each, self.unit_price_minor) for each in self.times_ms)
        return self._exact_minor

    @property
    def rounding_minor(self) -> int:
        """The difference between the sum of individually rounded entries and quantity times unit price."""
        return self.gross_minor - self._exact_minor

    @property
    def _exact_minor(self) -> int:
        return half_up(int(self.qty * MILLION) * self.unit_price_minor, MILLION)

    @property
    def amount_minor(self) -> int:
        return self.gross_minor - Discount(self.discount_millionths, self.discount_minor).of(self.gross_minor)

    @property
    def rate(self) -> TaxRate:
        return TaxRate(self.tax_millionths, self.tax_category)


def in_currency(item: Item, before: str, after: str) -> Item | None:
    """Return the line with equal amounts in another currency, or None if that currency has too few decimal places."""
    price = convert_minor(item.unit_price_minor, before, after)
    off = None if item.discount_minor is None else convert_minor(item.discount_minor, before, after)
    if price is None or (off is None and item.discount_minor is not None):
        return None
    return msgspec.structs.replace(item, unit_price_minor=price, discount_minor=off)


def items_text(items: Iterable[Item]) -> str:
    return json.encode_text([_item_row(each) for each in items])


def _item_row(item: Item) -> tuple[object, ...]:
    """Return the JSON row of a line. The last five fields are left out if none of them is set."""
    ids = item.timesheet_ids[0] if len(item.timesheet_ids) == 1 else item.timesheet_ids or None
    times = item.times_ms[0] if len(item.times_ms) == 1 else item.times_ms or None
    row = (item.description, f"{item.qty:f}", item.unit_price_minor, ids, times)
    more = (item.discount_millionths, item.discount_minor, item.tax_millionths, item.tax_category, item.days)
    return row if not any(each is not None for each in more) else (*row, *more)


def items_of(text: str) -> tuple[Item, ...]:
    return tuple(_item_of(each) for each in json.decode(text))


def _item_of(row: Sequence[Any]) -> Item:
    item = Item(row[0], Decimal(row[1]), row[2], _several(row[3]), _several(row[4]), *row[5:9])
    return msgspec.structs.replace(item, days=tuple(row[9])) if len(row) > 9 and row[9] else item


def _several(value: V | list[V] | None) -> tuple[V, ...]:
    """Return the values of a cell, which stores a single value without a list."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


class Sums(msgspec.Struct, frozen=True):
    taxes: tuple[TaxRow, ...] = ()

    @property
    def amount(self) -> int:
        """The total before tax."""
        return sum(each.base for each in self.taxes)

    @property
    def total(self) -> int:
        return sum(each.gross for each in self.taxes)


def sums_of_items(items: Iterable[Item], rate: TaxRate, discount: Discount) -> Sums:
    return sums_of(((each.amount_minor, each.rate) for each in items), rate, discount)


def sums_of(lines: Iterable[tuple[int, TaxRate]], rate: TaxRate, discount: Discount) -> Sums:
    """Compute the sums of lines, given as net amounts with their own rates.

    `rate` and `discount` are those of the invoice. The discount may be at most the sum of the nets.
    """
    nets: dict[tuple[int, Category], int] = {}
    for net, own in lines:
        group = own.or_default(rate)
        nets[group] = nets.get(group, 0) + net
    off = discount.of(sum(nets.values()))
    groups = sorted(nets, key=lambda group: (-group[0], CATEGORIES.index(group[1])))
    bases = [
        nets[group] - share
        for group, share in zip(groups, split_proportionally(off, [nets[g] for g in groups]), strict=True)
    ]
    rows = (
        TaxRow(millionths, category, base, half_up(base * millionths, MILLION))
        for (millionths, category), base in zip(groups, bases, strict=True)
    )
    return Sums(tuple(rows))


def split_proportionally(amount: int, weights: Sequence[int]) -> list[int]:
    """Split an amount in proportion to the weights, by largest remainder; ties go to the first.

    No share exceeds its weight if the amount is at most the sum of the weights.
    """
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    shares = [amount * weight // whole for weight in weights]
    behind = sorted(range(len(weights)), key=lambda index: -(amount * weights[index] % whole))
    for index in behind[: amount - sum(shares)]:
        shares[index] += 1
    return shares


def rows_text(rows: Iterable[TaxRow]) -> str:
    return json.encode_text(list(rows))


def rows_of(text: str) -> tuple[TaxRow, ...]:
    return tuple(msgspec.json.decode(text, type=list[TaxRow]))


def rate_fault(millionths: int | None, category: Category | None) -> Message | None:
    """Return why the rate and the category cannot be combined, or None."""
    if category not in (None, "standard") and millionths:
        return compose("the tax category {} requires a tax of 0; omit one of the two", category)
    return None


def discount_fault(millionths: int | None, minor: int | None, of: Mapping[str, int]) -> Message | None:
    """Return why the discount is invalid, or None.

    `of` maps the name of the undiscounted amount in messages to that amount.
    """
    if millionths is not None and minor is not None:
        return phrase("a discount is either a percentage or an amount; omit one of them")
    [(words, most)] = of.items()
    return compose("it is more than {}", words) if minor is not None and minor > most else None


def item_faults(item: Item, path: str) -> list[Fault]:
    """Return the faults in the combination of a line's parameters. `path` is the prefix of their names."""
    off = discount_fault(item.discount_millionths, item.discount_minor, {"the line": item.gross_minor})
    rate = rate_fault(item.tax_millionths, item.tax_category)
    found = ((f"{path}discount_amount", off), (f"{path}tax_category", rate))
    return [Fault(field=field, message=compose("{}: {}", field, wrong)) for field, wrong in found if wrong]


_QTY = compose("a number greater than 0 and at most {}, with at most six decimal places", QTY_MAX)
_NUMBER = compose("a number, or text of 1 to {} characters", NUMBER_MAX_CHARS)


def read_qty(raw: object) -> Decimal:
    """Read a quantity. Raises `ValueError` stating what the parameter must be."""
    qty = parse_decimal(raw, _QTY)
    if not 0 < qty <= QTY_MAX or qty != round(qty, QTY_DECIMALS):
        raise ValueError(_QTY)
    return qty.normalize()


def read_number(raw: object) -> str:
    """Read an invoice number, given as text or as a JSON number.

    Raises `ValueError` stating what the parameter must be.
    """
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise ValueError(_NUMBER)
    if not isinstance(raw, str) and not abs(raw) < 10**15:  # also rejects NaN
        raise ValueError(_NUMBER)
    text = raw.strip() if isinstance(raw, str) else f"{Decimal(str(raw)):f}".removesuffix(".0")
    if not 1 <= len(text) <= NUMBER_MAX_CHARS or not text.isprintable():
        raise ValueError(_NUMBER)
    return text


class Credit(msgspec.Struct, frozen=True):
    """The contents of a credit note. Without `items`, a total was credited. `issued` is in milliseconds."""

    id: str
    number: str
    issued: int
    items: tuple[Item, ...]
    taxes: tuple[TaxRow, ...]
    reason: str


Status = Literal["draft", "sent", "partially_paid", "paid", "credited", "void"]

ISSUED: tuple[Status, ...] = ("sent", "partially_paid", "paid", "credited")
"""Invoices that can be paid, refunded and credited. A void invoice was issued as well, but nothing is owed on it."""

OPEN: tuple[Status, ...] = ("sent", "partially_paid")
"""Invoices with an amount due."""


class Balance(msgspec.Struct, frozen=True):
    """The sums of one invoice. `paid` is payments minus refunds."""

    total: int
    paid: int = 0
    credited: int = 0

    @property
    def due(self) -> int:
        return max(self.total - self.credited - self.paid, 0)

    @property
    def to_refund(self) -> int:
        """The overpaid amount: what was paid in excess of the total minus credits."""
        return max(self.paid - (self.total - self.credited), 0)

    @property
    def not_credited(self) -> int:
        return self.total - self.credited

    @property
    def status(self) -> Status:
        """The status of an issued invoice that is not void."""
        if self.credited and self.credited == self.total:
            return "credited"
        if self.due == 0:
            return "paid"
        return "partially_paid" if self.paid else "sent"
