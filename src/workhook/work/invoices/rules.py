"""Amounts, numbers and states of invoices: pure functions.

An item's amount is quantity times unit price, rounded half up to a minor unit; an invoice's is the sum of those, so
that whoever adds up the lines gets it. The tax is a part of the sum, rounded half up once.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

import msgspec

from workhook.http.values import AMOUNT_MAX_MINOR

Status = Literal["draft", "sent", "paid", "void"]

QTY_DECIMALS = 6
QTY_MAX = 10**9
TAX_DECIMALS = 4
TAX_MAX_MILLIONTHS = 10**6
"""100 percent."""

_MILLION = 10**6


class Item(msgspec.Struct, frozen=True):
    """A line of an invoice. `qty` has at most six decimals; `timesheet_id`: whose time it is."""

    description: str
    qty: Decimal
    unit_price_minor: int
    timesheet_id: str | None = None

    @property
    def amount_minor(self) -> int:
        return _half_up(int(self.qty * _MILLION) * self.unit_price_minor)


def amount_minor(items: Iterable[Item]) -> int:
    """Before tax."""
    return sum(each.amount_minor for each in items)


def tax_minor(amount: int, tax_millionths: int | None) -> int:
    return _half_up(amount * (tax_millionths or 0))


def too_much(amount: int) -> bool:
    return amount > AMOUNT_MAX_MINOR


def number_text(number: int) -> str:
    """`INV-00001`."""
    return f"INV-{number:05d}"


def is_overdue(status: str, due: int | None, now: int) -> bool:
    return status == "sent" and due is not None and due < now


def _half_up(millionths: int) -> int:
    """Of an amount that is not negative."""
    return (millionths + _MILLION // 2) // _MILLION
