"""Parsing, currencies and formatting of amounts of money, with the decimals of ISO 4217."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from babel.numbers import get_currency_precision
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.errors import Invalid
from workhook.core.money import (
    AMOUNT_MAX_MINOR,
    CURRENCIES,
    TOTAL_MAX_MINOR,
    UNUSUAL_DIGITS,
    amount_text,
    convert_minor,
    digits_of,
    parse_hundredths,
    parse_money,
    to_amount,
    to_hundredths,
    to_minor,
    to_minor_or_none,
)

SOME_CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD"])
AMOUNTS = st.integers(min_value=0, max_value=AMOUNT_MAX_MINOR)

_CUSTOMARY = "AFN ALL COP HUF IDR IQD IRR KPW LAK LBP MGA MMK SOS SYP YER"
"""Currencies without coins in use. Babel has the decimals that people write (CLDR), ISO 4217 those of accounts."""


def test_the_decimals_of_currencies_match_babel() -> None:
    others = {code for code in CURRENCIES if get_currency_precision(code) != digits_of(code)}
    assert others == set(_CUSTOMARY.split())
    assert {get_currency_precision(code) for code in others} == {0}
    assert set(UNUSUAL_DIGITS) < CURRENCIES
    assert max(UNUSUAL_DIGITS.values()) == 3


@given(AMOUNTS, SOME_CURRENCIES)
def test_a_displayed_amount_is_parsed_to_the_same_value(minor: int, currency: str) -> None:
    shown = to_amount(minor, currency)
    assert to_minor(parse_money(msgspec.json.decode(msgspec.json.encode(shown))), currency, "x") == minor
    assert Decimal(str(shown)) * 10 ** digits_of(currency) == minor
    assert to_minor(Decimal(amount_text(minor, currency)), currency, "x") == minor


@given(st.integers(min_value=0, max_value=AMOUNT_MAX_MINOR))
def test_displayed_credits_are_parsed_to_the_same_value(value: int) -> None:
    assert parse_hundredths(to_hundredths(value)) == value


@pytest.mark.parametrize(("minor", "text"), [(0, b"0"), (1200, b"12"), (1250, b"12.5"), (1205, b"12.05")])
def test_an_amount_has_only_the_decimals_it_needs(minor: int, text: bytes) -> None:
    assert msgspec.json.encode(to_amount(minor, "EUR")) == text
    assert msgspec.json.encode(to_hundredths(minor)) == text


def test_the_maximum_of_credits_equals_that_of_amounts() -> None:
    assert parse_hundredths("100000000000") == AMOUNT_MAX_MINOR
    with pytest.raises(ValueError, match=r"at most 100000000000$"):
        parse_hundredths("100000000000.01")


@pytest.mark.parametrize(
    "raw", [-1, "NaN", "Infinity", 1e300, True, None, [], "", "1,5", TOTAL_MAX_MINOR + 1, "9" * 5000]
)
def test_an_invalid_amount_is_refused(raw: object) -> None:
    for read in (parse_money, parse_hundredths):
        with pytest.raises(ValueError, match="a number of at least 0"):
            read(raw)


@pytest.mark.parametrize("raw", [1.005, "1.234"])
def test_credits_have_two_decimals(raw: object) -> None:
    with pytest.raises(ValueError, match="two decimal places"):
        parse_hundredths(raw)


@pytest.mark.parametrize(
    ("amount", "currency", "words"),
    [
        ("1.5", "JPY", "price: an amount in JPY has no decimal places"),
        ("1.005", "EUR", "price: an amount in EUR has at most 2 decimal places"),
        ("1.0005", "KWD", "price: an amount in KWD has at most 3 decimal places"),
        ("1e-39", "EUR", "price: an amount in EUR has at most 2 decimal places"),
    ],
)
def test_too_many_decimals_are_refused_with_the_field_name(amount: str, currency: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        to_minor(parse_money(amount), currency, "price")
    [fault] = refused.value.faults
    assert (fault.field, fault.code, fault.message) == ("price", "too_many_decimals", words)


def test_trailing_zeros_do_not_count_as_decimals() -> None:
    assert to_minor(parse_money("8000.00"), "JPY", "price") == 8000
    assert to_minor(parse_money("1.50000"), "EUR", "price") == 150


@given(AMOUNTS, SOME_CURRENCIES, SOME_CURRENCIES)
def test_an_amount_keeps_its_value_in_another_currency_or_cannot_be_converted(
    minor: int, before: str, after: str
) -> None:
    value = Decimal(amount_text(minor, before))
    found = to_minor_or_none(value, after)
    assert convert_minor(minor, before, after) == (None if found and found > AMOUNT_MAX_MINOR else found)


def test_an_amount_is_converted_between_currency_decimals() -> None:
    assert convert_minor(12_000, "KWD", "EUR") == convert_minor(12, "JPY", "EUR") == 1_200
    assert convert_minor(12_000, "KWD", "JPY") == convert_minor(1_200, "EUR", "JPY") == 12
    assert convert_minor(12, "JPY", "KWD") == convert_minor(1_200, "EUR", "KWD") == 12_000
    assert convert_minor(12_005, "KWD", "EUR") is None
