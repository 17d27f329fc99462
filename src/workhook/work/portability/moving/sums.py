"""Whether the sums of an invoice or a credit note are what its lines give, by the arithmetic that makes invoices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workhook.core import json
from workhook.work.kernel.settings.arithmetic import Discount, TaxRate, TaxRow, discount_fault, rate_fault
from workhook.work.money.invoices import rules


class CreditedRates:
    """What is left of an invoice at each of its rates, while its credit notes are read."""

    def __init__(self, billed: Sequence[TaxRow]) -> None:
        self._left = {(each.millionths, each.category): [each.base, each.tax] for each in billed}
        self._is_foreign = False

    @classmethod
    def of_invoice(cls, line: Any) -> CreditedRates:
        """Of a line of `invoices.jsonl`."""
        if line.taxes is not None:
            return cls(line.taxes)
        rate = TaxRate(line.tax_millionths, line.tax_category).otherwise(TaxRate())
        return cls([TaxRow(*rate, line.amount_minor, line.total_minor - line.amount_minor)])

    def add(self, taxes: Sequence[TaxRow]) -> None:
        """Take off the taxes of a credit note."""
        for each in taxes:
            left = self._left.get((each.millionths, each.category))
            if left is None:
                self._is_foreign = True
                continue
            left[0] -= each.base
            left[1] -= each.tax

    def fault(self) -> str | None:
        """Return what is wrong with the credit notes together, or None."""
        if self._is_foreign:
            return "they credit a rate that the invoice does not have"
        if any(min(each) < 0 for each in self._left.values()):
            return "they credit more at a rate than the invoice has"
        return None


def faults_of_invoice(line: Any) -> Iterator[tuple[str, str]]:
    """The fields that are wrong, and what is wrong with each. What has no `taxes` was made before there were several
    rates. The values have passed the checks of each alone."""
    items = [item for each in (line.items, line.recurring_items) for item in rules.items_of(json.encode_text(each))]
    for number, item in enumerate(items, 1):
        for fault in rules.item_faults(item, f"line {number} of the invoice, "):
            yield "items", str(fault.message)
            return
    nets = sum(each.amount_minor for each in items)
    if wrong := rate_fault(line.tax_millionths, line.tax_category):
        yield "tax_category", wrong
        return
    discount = Discount(line.discount_millionths, line.discount_minor)
    if wrong := discount_fault(discount.millionths, discount.minor, {"the sum of the lines": nets}):
        yield "discount_minor", wrong
        return
    sums = rules.sums_of_items(items, TaxRate(line.tax_millionths, line.tax_category), discount)
    if line.amount_minor != sums.amount:
        yield "amount_minor", f"its lines and discounts give {sums.amount}"
    if line.total_minor != sums.total:
        yield "total_minor", f"its lines, discounts and taxes give {sums.total}"
    if line.taxes is not None and tuple(line.taxes) != sums.taxes:
        yield "taxes", "they are not what its lines give"


def faults_of_credit_note(line: Any) -> Iterator[tuple[str, str]]:
    """The same; a credit note need not have lines."""
    yield from _faults_of_rows(line, line.taxes)


def _faults_of_rows(line: Any, taxes: Sequence[TaxRow] | None) -> Iterator[tuple[str, str]]:
    if taxes is None:
        return
    if line.amount_minor != sum(each.base for each in taxes):
        yield "amount_minor", "it is not the sum of what is taxed"
    if line.total_minor != sum(each.gross for each in taxes):
        yield "total_minor", "it is not the sum of its taxes and what is taxed"
