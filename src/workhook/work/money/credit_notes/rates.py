"""Split credited amounts over the tax rates of an invoice, never beyond what is left at a rate. Pure.

All amounts are minor units. Each part is cut from the running total of its rate, so the parts always add up to exactly
what was billed, and the last one takes the remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from workhook.work.kernel.settings import Category
from workhook.work.money.invoices.rules import TaxRate, TaxRow, shared

Key = tuple[int, Category]


class NotBilled(Exception):
    """The invoice has nothing at the requested rate."""


class Ambiguous(Exception):
    """The invoice has several rates and the request does not say which one it means."""


class RateBooks(msgspec.Struct, frozen=True):
    """The amount billed at one rate, and how much of its base and tax has been credited."""

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
        """Split an amount with tax, which is at most what is left, into its base and its tax."""
        left = self.left
        [so_far, _] = shared(self.base + self.tax + gross, [self.billed.base, self.billed.tax])
        base = min(max(so_far - self.base, gross - left.tax, 0), left.base, gross)
        return self._row(base, gross - base)

    def part_before_tax(self, base: int) -> TaxRow:
        """Add the tax to an amount before tax, which is at most the base that is left."""
        billed = self.billed
        so_far = self.base + base
        if not billed.base:
            return self._row(0, 0)
        tax = (2 * billed.tax * so_far + billed.base) // (2 * billed.base) - self.tax
        return self._row(base, min(max(tax, 0), self.left.tax))

    def _row(self, base: int, tax: int) -> TaxRow:
        return TaxRow(self.billed.millionths, self.billed.category, base, tax)


class Rates(msgspec.Struct, frozen=True):
    """All rates of an invoice, in the order in which it shows them. `default`: the invoice's own rate."""

    rows: tuple[RateBooks, ...]
    default: TaxRate = TaxRate()

    @property
    def left(self) -> int:
        """The amount with tax that can still be credited at all rates together."""
        return sum(each.left.gross for each in self.rows)

    def find(self, rate: TaxRate) -> RateBooks:
        """Return the rate that is meant. If only its percentage or only its category is given, that has to name one.

        Raises `NotBilled`, `Ambiguous`.
        """
        found = self._matching(rate)
        if len(found) > 1 and rate == TaxRate() and self.default != TaxRate():
            found = [each for each in self.rows if each.key == self.default.otherwise(TaxRate())]
        if not found:
            raise NotBilled if rate != TaxRate() else Ambiguous
        if len(found) > 1:
            raise Ambiguous
        return found[0]

    def _matching(self, rate: TaxRate) -> list[RateBooks]:
        return [
            each
            for each in self.rows
            if rate.millionths in (None, each.billed.millionths) and rate.category in (None, each.billed.category)
        ]

    def parts_of(self, total: int) -> tuple[TaxRow, ...]:
        """Split an amount with tax over all rates, in proportion to what is left at each."""
        shares = shared(total, [each.left.gross for each in self.rows])
        parts = (each.part_with_tax(gross) for each, gross in zip(self.rows, shares, strict=True))
        return tuple(each for each in parts if each.gross)

    def parts_before_tax(self, bases: Mapping[Key, int]) -> tuple[TaxRow, ...]:
        """Add the tax to amounts before tax, each at most the base that is left at its rate."""
        return tuple(each.part_before_tax(bases[each.key]) for each in self.rows if each.key in bases)


def rates_of(billed: Sequence[TaxRow], default: TaxRate, credited: Iterable[TaxRow]) -> Rates:
    """`credited`: the rows of all credit notes of the invoice so far."""
    sums: dict[Key, tuple[int, int]] = {}
    for row in credited:
        base, tax = sums.get((row.millionths, row.category), (0, 0))
        sums[row.millionths, row.category] = base + row.base, tax + row.tax
    rows = (RateBooks(row, *sums.get((row.millionths, row.category), (0, 0))) for row in billed)
    return Rates(tuple(rows), default)
