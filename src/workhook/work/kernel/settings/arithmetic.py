"""The sums of an invoice: discounts, and one row for each rate and category of tax. Pure.

All amounts are minor units. Rounding is half up, once at each step, and nowhere else:

1. A line's net is `round(qty * unit price)` less its discount.
2. The invoice's discount is shared over the groups of one rate and category in proportion to their nets.
3. The tax of a group is `round(base * percent)`; `amount` is the sum of the bases, `total` that and the taxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from workhook.core.money import read_decimal
from workhook.http.parameters import Read
from workhook.http.wire_types import wire_number

MILLION = 10**6

Category = Literal["standard", "zero", "exempt", "reverse_charge"]
CATEGORIES: tuple[Category, ...] = ("standard", "zero", "exempt", "reverse_charge")


class TaxRow(msgspec.Struct, frozen=True, array_like=True):
    """What is taxed at one rate: `base` before tax, `tax` on it. Columns hold it as `[rate, category, base, tax]`."""

    millionths: int
    category: Category
    base: int
    tax: int

    @property
    def gross(self) -> int:
        return self.base + self.tax


class TaxRate(msgspec.Struct, frozen=True):
    """A rate of tax, as an invoice or a line has it; None: nothing is said."""

    millionths: int | None = None
    category: Category | None = None

    def otherwise(self, default: TaxRate) -> tuple[int, Category]:
        """The rate of a line; `default`: that of its invoice, which counts where the line says nothing."""
        mine = self if self.millionths is not None or self.category is not None else default
        millionths = mine.millionths or 0
        return millionths, mine.category or ("standard" if millionths else "zero")


class Discount(msgspec.Struct, frozen=True):
    """A percentage, or an amount; None: no discount."""

    millionths: int | None = None
    minor: int | None = None

    def of(self, amount: int) -> int:
        """It may be more than the amount, if it is an amount itself."""
        if self.minor is not None:
            return self.minor
        return half_up(amount * (self.millionths or 0))


class Sums(msgspec.Struct, frozen=True):
    """`discount`: what was taken off the sum of the lines."""

    taxes: tuple[TaxRow, ...] = ()
    discount: int = 0

    @property
    def amount(self) -> int:
        """Before tax."""
        return sum(each.base for each in self.taxes)

    @property
    def total(self) -> int:
        return sum(each.gross for each in self.taxes)


def half_up(millionths: int) -> int:
    """Of an amount that is not negative."""
    return (millionths + MILLION // 2) // MILLION


def sums_of(lines: Iterable[tuple[int, TaxRate]], rate: TaxRate, discount: Discount) -> Sums:
    """`lines`: the net of each and its own rate; `rate` and `discount`: of the invoice, whose discount is at most the
    sum of the nets."""
    nets: dict[tuple[int, Category], int] = {}
    for net, own in lines:
        group = own.otherwise(rate)
        nets[group] = nets.get(group, 0) + net
    off = discount.of(sum(nets.values()))
    groups = sorted(nets, key=_order)
    bases = [nets[group] - share for group, share in zip(groups, shared(off, [nets[g] for g in groups]), strict=True)]
    rows = (
        TaxRow(millionths, category, base, half_up(base * millionths))
        for (millionths, category), base in zip(groups, bases, strict=True)
    )
    return Sums(tuple(rows), off)


def shared(amount: int, weights: Sequence[int]) -> list[int]:
    """Split an amount in proportion to the weights, by largest remainder; on a tie the first gets more.

    Wherever money is split, this does it. If the weights are what is left and the amount is at most their sum, no
    share is more than its weight.
    """
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    shares = [amount * weight // whole for weight in weights]
    behind = sorted(range(len(weights)), key=lambda index: -(amount * weights[index] % whole))
    for index in behind[: amount - sum(shares)]:
        shares[index] += 1
    return shares


def _order(group: tuple[int, Category]) -> tuple[int, int]:
    """The higher rate comes first, then the category."""
    return -group[0], CATEGORIES.index(group[1])


def rows_text(rows: Iterable[TaxRow]) -> str:
    """As columns hold them."""
    return msgspec.json.encode(list(rows)).decode()


def rows_of(text: str) -> tuple[TaxRow, ...]:
    return tuple(msgspec.json.decode(text, type=list[TaxRow]))


def rate_fault(millionths: int | None, category: Category | None) -> str | None:
    """Why both cannot be together, or None."""
    if category not in (None, "standard") and millionths:
        return f"a tax that is {category} has 0 percent; leave out one of both"
    return None


def discount_fault(millionths: int | None, minor: int | None, of: Mapping[str, int]) -> str | None:
    """Why the discount cannot be taken off, or None. `of`: what it is of, by the words for it."""
    if millionths is not None and minor is not None:
        return "a discount is a percentage or an amount; leave out one of both"
    [(words, most)] = of.items()
    return f"it is more than {words}" if minor is not None and minor > most else None


TAX_DECIMALS = 4


def read_percent(raw: object) -> int:
    """Millionths of a parameter. Raises `ValueError` that says what it has to be."""
    wanted = "a number from 0 to 100 with at most four decimals"
    percent = read_decimal(raw, wanted)
    if not 0 <= percent <= 100 or percent != round(percent, TAX_DECIMALS):
        raise ValueError(wanted)
    return int(percent * 10_000)


Percent = Annotated[
    int,
    wire_number("Percent, with at most four decimals.", minimum=0, maximum=100),
    Read(read_percent, (int, float)),
]
"""Millionths."""


def to_number(value: Decimal) -> int | float:
    """As JSON shows it: exact up to 15 digits."""
    return int(value) if value == value.to_integral_value() else float(value)


def percent_of(millionths: int) -> Decimal:
    return Decimal(millionths) / 10_000


def percent_to_response(millionths: int) -> int | float:
    return to_number(percent_of(millionths))
