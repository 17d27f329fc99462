"""Amounts of money: integers in minor units internally, and decimal numbers in JSON.

A parameter is parsed as a decimal number before its currency is known, and `to_minor` converts it to minor units once
it is. Currencies and their decimal places are those of ISO 4217. See decision 32.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from workhook.core.errors import Fault, Invalid, Message, compose, phrase, say
from workhook.core.records import JsonForm

# Active country currencies (ISO 4217, list one), without the codes for funds, metals and testing.
_ACTIVE = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP
CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR
IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU
MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG
SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV
WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES = frozenset(_ACTIVE.split())
DEFAULT_CURRENCY = "USD"
"""The currency if none is specified."""

# Currencies whose minor unit (ISO 4217, list one, column "Mnr unt") does not have two decimal places.
_WITHOUT = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"
UNUSUAL_DIGITS = {**dict.fromkeys(_WITHOUT.split(), 0), **dict.fromkeys(_THREE.split(), 3)}
"""Decimal places of the currencies that do not have two."""
USUAL_DIGITS = 2


def digits_of(currency: str) -> int:
    """Return the number of decimal places of the currency, down to its minor unit (ISO 4217)."""
    return UNUSUAL_DIGITS.get(currency, USUAL_DIGITS)


AMOUNT_MAX_MINOR = 10**13
"""Upper bound of one amount, and of an invoice before tax, in minor units of any currency.

Far below the limits of 64 bits and of exact numbers in JavaScript.
"""
TOTAL_MAX_MINOR = 2 * AMOUNT_MAX_MINOR
"""Upper bound of an invoice's total with up to 100 % tax, which can be paid, refunded or credited in one amount."""
HUNDREDTH_DIGITS = 2
HUNDREDTHS_MAX = AMOUNT_MAX_MINOR // 10**HUNDREDTH_DIGITS
"""Upper bound of credits and other numbers with two decimal places."""

_TEXT_MAX_CHARS = 40
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)


def parse_money(raw: object) -> Decimal:
    """Parse a non-negative amount whose currency is not known yet. Raises `ValueError` stating what is accepted."""
    return _parse_up_to(raw, "a number of at least 0", TOTAL_MAX_MINOR)


def parse_hundredths(raw: object) -> int:
    """Parse a non-negative number with at most two decimal places. Raises `ValueError` stating the accepted values."""
    wanted = "a number of at least 0 with at most two decimal places"
    if (found := _scaled(_parse_up_to(raw, wanted, HUNDREDTHS_MAX), HUNDREDTH_DIGITS)) is None:
        raise ValueError(wanted)
    return found


def _parse_up_to(raw: object, wanted: str, maximum: int) -> Decimal:
    amount = parse_decimal(raw, wanted)
    if amount < 0:
        raise ValueError(wanted)
    if amount > maximum:
        raise ValueError(compose("{}, and at most {}", phrase(wanted), maximum))
    return amount


def parse_decimal(raw: object, wanted: str) -> Decimal:
    """Parse a number, or text in JSON's notation for numbers. Raises `ValueError(wanted)`.

    This notation excludes `1_000` and digits of other scripts, which `Decimal` accepts.
    """
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise ValueError(wanted)
    try:
        text = str(raw).strip()
    except ValueError:  # an integer with thousands of digits
        raise ValueError(wanted) from None
    if len(text) > _TEXT_MAX_CHARS or not _DECIMAL.fullmatch(text):
        raise ValueError(wanted)
    found = Decimal(text)
    if abs(found.adjusted()) > _TEXT_MAX_CHARS:
        raise ValueError(wanted)
    return found


def _scaled(amount: Decimal, digits: int) -> int | None:
    """Return the amount in units of its last decimal place, or None if it has more than `digits` decimal places."""
    numerator, denominator = amount.as_integer_ratio()
    found, rest = divmod(numerator * 10**digits, denominator)
    return None if rest else found


def to_minor_or_none(amount: Decimal, currency: str) -> int | None:
    """Return the amount in minor units of the currency, or None if it has too many decimal places."""
    return _scaled(amount, digits_of(currency))


def amount_fault(amount: Decimal, currency: str, field: str, *, maximum_minor: int = AMOUNT_MAX_MINOR) -> Fault | None:
    """Return why an amount is invalid in its currency, or None if it is valid. `maximum_minor` is in minor units."""
    minor = to_minor_or_none(amount, currency)
    if minor is None:
        message = compose("{}: an amount in {} has {}", field, currency, decimals(currency))
        return Fault(field=field, code="too_many_decimals", message=message)
    if minor <= maximum_minor:
        return None
    return Fault(field=field, message=say("{}: at most {} in {}", field, to_amount(maximum_minor, currency), currency))


def decimals(currency: str) -> Message:
    """Describe the decimal places of the currency: `no decimals` or `at most 2 decimals`."""
    digits = digits_of(currency)
    return compose("at most {} decimal places", digits) if digits else compose("no decimal places")


def to_minor(amount: Decimal, currency: str, field: str, *, maximum_minor: int = AMOUNT_MAX_MINOR) -> int:
    """Return the amount in minor units.

    Raises `Invalid`, naming the field and the currency, for too many decimal places or more than `maximum_minor`.
    """
    if fault := amount_fault(amount, currency, field, maximum_minor=maximum_minor):
        raise Invalid(faults=[fault])
    found = to_minor_or_none(amount, currency)
    assert found is not None, "it has the decimals of its currency"
    return found


def half_up(value: int, unit: int) -> int:
    """Divide a non-negative value by a unit, rounding half up."""
    return (2 * value + unit) // (2 * unit)


def convert_minor(minor: int, before: str, after: str) -> int | None:
    """Convert an amount to the minor units of another currency, keeping the number.

    Returns None if the other currency has too few decimal places or the result would be too large.
    """
    more = digits_of(after) - digits_of(before)
    if more >= 0:
        larger = minor * int(10**more)
        return larger if larger <= max(AMOUNT_MAX_MINOR, minor) else None
    unit: int = 10**-more
    found, rest = divmod(minor, unit)
    return None if rest else found


def amount_of(minor: int, currency: str) -> Decimal:
    """Return minor units as a number with all decimal places of the currency."""
    return Decimal(minor).scaleb(-digits_of(currency))


def amount_text(minor: int, currency: str) -> str:
    """Format minor units with all decimal places of the currency: 8000 is `80.00` in EUR and `8000` in JPY."""
    return f"{amount_of(minor, currency):f}"


def to_amount(minor: int, currency: str) -> int | float:
    """Return minor units as a JSON number, such as `12`, `12.5` or `12.05`. Exact up to 15 digits."""
    return _shown(minor, digits_of(currency))


def to_hundredths(hundredths: int) -> int | float:
    return _shown(hundredths, HUNDREDTH_DIGITS)


def _shown(value: int, digits: int) -> int | float:
    unit: int = 10**digits
    return value // unit if value % unit == 0 else value / unit


Minor = Annotated[int, JsonForm(int | float, to_amount, beside="currency")]
"""Minor units of the record's `currency`. JSON has a number with at most that currency's decimal places."""

Hundredths = Annotated[int, JsonForm(int | float, to_hundredths)]
"""Hundredths. JSON has a number with at most two decimal places."""
