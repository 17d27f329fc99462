"""Parameters and shapes shared by the resources of the work API."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, TypeVar, overload

import msgspec
from msgspec import UnsetType

from workhook.core.clock import DAY_MS
from workhook.core.errors import compose, phrase
from workhook.core.money import HUNDREDTHS_MAX, TOTAL_MAX_MINOR, parse_hundredths, parse_money, to_minor
from workhook.core.records import resource_id
from workhook.http.parameters import Converter
from workhook.http.wire_types import wire_number
from workhook.work.kernel.durations import duration_ms

V = TypeVar("V")
N = TypeVar("N", int, Decimal)
A = TypeVar("A", bound=UnsetType | None)


def _above_zero(read: Callable[[object], N]) -> Callable[[object], N]:
    def read_above_zero(raw: object) -> N:
        amount = read(raw)
        if amount == 0:
            raise ValueError("greater than 0")
        return amount

    return read_above_zero


MoneyAboveZero = Annotated[
    Decimal,
    wire_number(
        "More than 0, with at most the decimal places of the currency.", exclusiveMinimum=0, maximum=TOTAL_MAX_MINOR
    ),
    Converter(_above_zero(parse_money), (int, float)),
]
CreditsAboveZero = Annotated[
    int,
    wire_number("More than 0, with at most two decimal places.", exclusiveMinimum=0, maximum=HUNDREDTHS_MAX),
    Converter(_above_zero(parse_hundredths), (int, float)),
]
"""In hundredths of a credit."""


@overload
def if_set(value: V | UnsetType) -> V | None: ...
@overload
def if_set(value: V | UnsetType, otherwise: V) -> V: ...
def if_set(value: V | UnsetType, otherwise: V | None = None) -> V | None:
    """Return a parameter's value, or `otherwise` if it is absent."""
    return otherwise if isinstance(value, UnsetType) else value


class Done(msgspec.Struct):
    """Confirmation that something was deleted, paused or canceled, when there is no record to return."""

    success: bool = True


RATE_MAX_MINOR = 10**8
"""Keeps amounts and their sums within 64 bits."""

RATE_MAX = RATE_MAX_MINOR // 100
"""One million per hour in a currency with two decimal places; less with three."""

RATE_PATTERN = r"^\d+(\.\d{2,3})?$"
"""A rate as text, with all decimal places of its currency."""


def read_rate(raw: object) -> Decimal:
    if (rate := parse_money(raw)) > RATE_MAX:
        raise ValueError(compose("a number of at most {}", RATE_MAX))
    return rate


def rate_minor_of(rate: Decimal, currency: str, field: str) -> int:
    """Convert a rate to minor units of the currency. Raises `Invalid`."""
    return to_minor(rate, currency, field, maximum_minor=RATE_MAX_MINOR)


def given_rate(rate: Decimal | A, currency: str, field: str) -> int | A:
    """Convert a rate with `rate_minor_of`; pass null and absent values through."""
    return rate_minor_of(rate, currency, field) if isinstance(rate, Decimal) else rate


Rate = Annotated[
    Decimal,
    wire_number("Hourly rate, with at most the decimal places of the currency.", minimum=0, maximum=RATE_MAX),
    Converter(read_rate, (int, float)),
]


def read_duration_up_to(longest_ms: int) -> Callable[[object], int]:
    """Return a parser that accepts durations in every form, up to `longest_ms`."""

    def read(raw: object) -> int:
        wanted = "a whole number of milliseconds, such as 5400000, or text such as 1h 30m or 1:30"
        found = None if isinstance(raw, bool) or not isinstance(raw, str | int) else duration_ms(str(raw))
        if found is None:
            raise ValueError(wanted)
        if found > longest_ms:
            raise ValueError(compose("{}, and at most {} ({} days)", phrase(wanted), longest_ms, longest_ms // DAY_MS))
        return found

    return read


class RecordPlace(msgspec.Struct, frozen=True):
    """The project that a record belongs to."""

    id: Annotated[str, resource_id("prj")]
    title: str
