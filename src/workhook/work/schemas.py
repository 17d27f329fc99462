"""What the schemas of every resource of the work API share."""

from __future__ import annotations

from typing import Annotated, TypeVar, overload

import msgspec
from msgspec import UnsetType

from workhook.http.parameters import Read
from workhook.http.wire_types import AMOUNT_MAX_MINOR, read_money, wire_number

V = TypeVar("V")


def _read_above_zero(raw: object) -> int:
    amount = read_money(raw)
    if amount == 0:
        raise ValueError("more than 0")
    return amount


MoneyAboveZero = Annotated[
    int,
    wire_number("More than 0, with at most two decimals.", exclusiveMinimum=0, maximum=AMOUNT_MAX_MINOR // 100),
    Read(_read_above_zero, (int, float)),
]
"""Minor units."""


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
