"""Numbers and amounts typed by people, which are read as intended or refused with a remedy."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.money import AMOUNT_MAX_MINOR, parse_money, to_minor
from workhook.web.frame import formats, texts
from workhook.web.frame.places import AmountField, NumberField, PercentField, QuantityField

AMOUNTS = st.integers(0, AMOUNT_MAX_MINOR)
SWAPPED = str.maketrans(".,", ",.")


def speak(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    monkeypatch.setattr(texts, "language", lambda: language)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("250", "250"),
        (" 250 ", "250"),
        ("1,250.00", "1250.00"),
        ("1 250.00", "1250.00"),
        ("1\u202f250.00", "1250.00"),
        ("1'250.00", "1250.00"),
        ("1,250,000", "1250000"),
        ("12.5", "12.5"),
        ("0.25", "0.25"),
        (".5", "0.5"),
        ("-5", "-5"),
        ("\u22125", "-5"),
    ],
)
def test_numbers_are_parsed_in_the_readers_language(monkeypatch: pytest.MonkeyPatch, typed: str, read: str) -> None:
    assert formats.read_number(typed) == formats.read_amount(typed) == read
    speak(monkeypatch, "de")
    german = typed.translate(SWAPPED)
    assert formats.read_number(german) == formats.read_amount(german) == read


@pytest.mark.parametrize(
    ("typed", "example"),
    [
        ("0,125", "0.125"),
        ("0,250", "0.250"),
        ("12,5", "12.5"),
        ("1.250,00", "1250.00"),
        ("1.234.567", "1234567"),
        ("1,2345", "1.2345"),
        ("12,34,567", "1.5"),
        ("1,23", "1.23"),
        ("1,250 000", "1.5"),
        ("01,234", "1.234"),
    ],
)
def test_a_number_in_the_other_language_is_refused_with_an_example(
    monkeypatch: pytest.MonkeyPatch, typed: str, example: str
) -> None:
    with pytest.raises(ValueError, match=rf"“{re.escape(typed)}” is not a number\. .* {re.escape(example)}\."):
        formats.read_number(typed)
    with pytest.raises(ValueError, match="is not an amount"):
        formats.read_amount(typed)
    speak(monkeypatch, "de")
    with pytest.raises(ValueError, match=re.escape(example.translate(SWAPPED))):
        formats.read_number(typed.translate(SWAPPED))


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_number_is_never_multiplied(language: str) -> None:
    """Decimals stay decimals and thousands form whole groups, or the text is refused."""

    @given(st.text("0123456789.,", min_size=1, max_size=12))
    def holds(typed: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            speak(patch, language)
            try:
                read = formats.read_number(typed)
            except ValueError:
                return
            thousands, decimal = (",", ".") if language == "en" else (".", ",")
            whole, _, part = typed.partition(decimal)
            assert Decimal(read) == Decimal(f"{whole.replace(thousands, '') or 0}.{part or 0}")
            groups = whole.split(thousands)
            assert len(groups) == 1 or (groups[0][0] != "0" and all(len(each) == 3 for each in groups[1:]))

    holds()


def test_thousands_separators_depend_on_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch, "en")
    assert formats.read_amount("1,250") == "1250"
    assert formats.read_number("1.125") == "1.125"
    with pytest.raises(
        ValueError, match=r"“1\.250” has more than two decimal places\. Enter an amount such as 1250\.00\."
    ):
        formats.read_amount("1.250")
    speak(monkeypatch, "de")
    assert formats.read_amount("1.250") == "1250"
    assert formats.read_number("1,125") == "1.125"
    with pytest.raises(ValueError, match="1250,00"):
        formats.read_amount("1,250")


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "lots",
        "€5",
        "5 EUR",
        "1,25,0",
        "1.2.3",
        "1,250.00.0",
        "1e3",
        "--5",
        "+5",
        "٢٥٠",
        "1'250'00",
        "9" + " 9" * 40,
    ],
)
@pytest.mark.parametrize("language", ["en", "de"])
def test_an_invalid_number_is_refused(monkeypatch: pytest.MonkeyPatch, language: str, typed: str) -> None:
    speak(monkeypatch, language)
    for read in (formats.read_number, formats.read_amount):
        with pytest.raises(ValueError, match="“" if language == "en" else "„"):
            read(typed)


@pytest.mark.parametrize("currency", ["EUR", "JPY", "KWD"])
@pytest.mark.parametrize("language", ["en", "de"])
def test_a_displayed_amount_is_parsed_to_the_same_value(language: str, currency: str) -> None:
    @given(AMOUNTS)
    def holds(minor: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            speak(patch, language)
            for shown in (formats.typed_amount(minor, currency), formats.money(minor, currency)):
                read = parse_money(formats.read_amount(shown, currency))
                assert to_minor(read, currency, "amount") == minor
            assert formats.amount(minor, currency) == f"{formats.money(minor, currency)} {currency}"

    holds()


@pytest.mark.parametrize(
    ("typed", "currency", "read"),
    [
        ("8000", "JPY", "8000"), ("8,000", "JPY", "8000"), ("8000.00", "JPY", "8000"), ("80.0", "EUR", "80.0"),
        ("1.250", "KWD", "1.250"), ("1.25", "KWD", "1.25"),
    ],
)  # fmt: skip
def test_an_amount_has_the_decimals_of_its_currency(typed: str, currency: str, read: str) -> None:
    assert formats.read_amount(typed, currency) == read


@pytest.mark.parametrize(
    ("typed", "currency", "words"),
    [
        ("8000.5", "JPY", "has decimal places, but this currency has none. Enter an amount such as 1250."),
        ("8.000", "JPY", "has decimal places, but this currency has none"),
        ("1.250", "EUR", "has more than two decimal places. Enter an amount such as 1250.00."),
        ("1.2345", "KWD", "has more than three decimal places. Enter an amount such as 1250.000."),
    ],
)
def test_an_amount_with_more_decimals_is_refused(typed: str, currency: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        formats.read_amount(typed, currency)


def test_a_percentage_may_have_a_percent_sign() -> None:
    assert [formats.read_percent(each) for each in ("19", "19%", "7.7 %")] == ["19", "19", "7.7"]


def test_credits_have_decimals_only_if_needed() -> None:
    assert formats.task_credits(125_000) == "1,250"
    assert formats.task_credits(-1_250, signed=True) == "\u221212.50"
    assert formats.task_credits(1_250, signed=True) == "+12.50"
    assert formats.task_credits(0, signed=True) == "0"


@pytest.mark.parametrize(("language", "typed"), [("en", "1.000"), ("de", "1,000"), ("en", " 12.000 ")])
def test_an_ambiguous_quantity_is_refused(monkeypatch: pytest.MonkeyPatch, language: str, typed: str) -> None:
    speak(monkeypatch, language)
    with pytest.raises(ValueError, match=r"1000|12000"):
        formats.read_quantity(typed)
    assert formats.read_quantity("1.125" if language == "en" else "1,125") == "1.125"


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(
    ("field", "digits"),
    [
        (NumberField("n"), 6), (QuantityField("qty"), 6), (PercentField("tax"), 4), (AmountField("amount", "EUR"), 2),
        (AmountField("amount", "JPY"), 0), (AmountField("amount", "KWD"), 3), (AmountField("credits"), 2),
    ],
)  # fmt: skip
def test_every_number_field_parses_the_intended_number(field: NumberField, digits: int, language: str) -> None:
    """Written in the page's language, the number is read exactly. Written in the other language, it is read correctly
    or refused, and never multiplied by a thousand."""

    @given(st.decimals(0, 10**8, places=digits), st.booleans())
    def holds(number: Decimal, grouped: bool) -> None:
        english = f"{number:,f}" if grouped else f"{number:f}"
        german = english.translate(SWAPPED)
        own, other = (english, german) if language == "en" else (german, english)
        with pytest.MonkeyPatch.context() as patch:
            speak(patch, language)
            is_asked_again = field == "qty" and re.search(r"\.000$", english)
            with suppress(ValueError) if is_asked_again else nullcontext():
                assert Decimal(field.read(own)) == number
            if own != other and not is_number_of(language, other):
                with pytest.raises(ValueError, match="\u201c" if language == "en" else "\u201e"):
                    field.read(other)

    holds()


def is_number_of(language: str, typed: str) -> bool:
    thousands, decimal = (",", ".") if language == "en" else (".", ",")
    return formats._read(typed, thousands, decimal) is not None
