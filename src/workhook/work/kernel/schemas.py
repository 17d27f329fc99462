"""What the schemas of every resource of the work API share."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, TypeVar, overload

import msgspec
from msgspec import UnsetType

from workhook.core.money import HUNDREDTHS_MAX, TOTAL_MAX_MINOR, read_hundredths, read_money
from workhook.http.parameters import Read
from workhook.http.wire_types import wire_number

V = TypeVar("V")
N = TypeVar("N", int, Decimal)


def _above_zero(read: Callable[[object], N]) -> Callable[[object], N]:
    def read_above_zero(raw: object) -> N:
        amount = read(raw)
        if amount == 0:
            raise ValueError("more than 0")
        return amount

    return read_above_zero


MoneyAboveZero = Annotated[
    Decimal,
    wire_number("More than 0, with at most the decimals of the currency.", exclusiveMinimum=0, maximum=TOTAL_MAX_MINOR),
    Read(_above_zero(read_money), (int, float)),
]
CreditsAboveZero = Annotated[
    int,
    wire_number("More than 0, with at most two decimals.", exclusiveMinimum=0, maximum=HUNDREDTHS_MAX),
    Read(_above_zero(read_hundredths), (int, float)),
]
"""Hundredths of a credit."""


@overload
def if_set(value: V | UnsetType) -> V | None: ...
@overload
def if_set(value: V | UnsetType, otherwise: V) -> V: ...
def if_set(value: V | UnsetType, otherwise: V | None = None) -> V | None:
    """A parameter, or `otherwise` where it is absent."""
    return otherwise if isinstance(value, UnsetType) else value


class Done(msgspec.Struct):
    """Done: something was deleted, paused or canceled, and there is no record to show."""

    success: bool = True
