"""Validation of IBANs, BICs, VAT IDs, tax numbers and number formats, and the messages for invalid ones."""

from __future__ import annotations

import pytest
from babel import Locale
from hypothesis import given
from hypothesis import strategies as st

from workhook.identity.rate import subscriber
from workhook.work.kernel.billing_settings import (
    COUNTRIES,
    DEFAULT_FORMAT,
    NumberFormat,
    bic_fault,
    format_fault,
    grouped,
    iban_fault,
    on_one_line,
    plain_vat_id,
    tax_number_fault,
    vat_id_fault,
    without_spaces,
)

# Examples from the IBAN registry (SWIFT).
IBANS = (
    "DE89 3704 0044 0532 0130 00", "AT61 1904 3002 3457 3201", "FR14 2004 1010 0505 0001 3M02 606",
    "NL91 ABNA 0417 1643 00", "GB29 NWBK 6016 1331 9268 19", "NO93 8601 1117 947",
    "MT84 MALT 0110 0001 2345 MTLC AST0 01S", "TR33 0006 1005 1978 6457 8413 26",
)  # fmt: skip


@pytest.mark.parametrize("text", IBANS)
def test_a_valid_iban_is_accepted(text: str) -> None:
    plain = without_spaces(text.lower())
    assert iban_fault(plain) is None
    assert grouped(plain) == text


@given(st.sampled_from(IBANS), st.data())
def test_a_wrong_digit_in_an_iban_is_found(text: str, data: st.DataObject) -> None:
    plain = without_spaces(text)
    at = data.draw(st.sampled_from([index for index, each in enumerate(plain) if each.isdigit()]))
    other = data.draw(st.sampled_from([each for each in "0123456789" if each != plain[at]]))
    fault = iban_fault(plain[:at] + other + plain[at + 1 :])
    assert fault is not None
    assert "check digits" in fault


@given(st.sampled_from(IBANS), st.data())
def test_swapped_neighbors_in_an_iban_are_found(text: str, data: st.DataObject) -> None:
    plain = without_spaces(text)
    pairs = [at for at in range(2, len(plain) - 1) if plain[at] != plain[at + 1]]
    at = data.draw(st.sampled_from(pairs))
    assert iban_fault(plain[:at] + plain[at + 1] + plain[at] + plain[at + 2 :]) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "such as DE89"),
        ("DE", "such as DE89"),
        ("1234", "such as DE89"),
        ("DE8937040044053201300", "have 22 characters, but this one has 21"),
        ("\uff24\uff2589370400440532013000", "such as DE89"),
        ("DE89370400440532013000" * 2, "such as DE89"),
    ],
)
def test_an_invalid_iban_is_explained(text: str, words: str) -> None:
    fault = iban_fault(text)
    assert fault is not None
    assert words in fault


def test_a_bic_is_checked_by_its_form() -> None:
    assert [bic_fault(each) for each in ("COBADEFFXXX", "DEUTDEFF")] == [None, None]
    assert all(map(bic_fault, ("", "COBADEFFXX", "C0BADEFF", "COBADEFFXXXX", "COBA DEFF")))


@pytest.mark.parametrize(
    "text", ["DE123456789", "de 123 456 789", "ATU12345678", "CHE-123.456.789 MWST", "FRXX123456789", "NL123456789B01"]
)
def test_a_plausible_vat_id_is_accepted(text: str) -> None:
    assert vat_id_fault(plain_vat_id(text)) is None


@pytest.mark.parametrize("text", ["", "123456789", "DE12345678", "AT12345678", "DE1234567890", "DE12345678Ä"])
def test_an_impossible_vat_id_is_refused(text: str) -> None:
    assert vat_id_fault(plain_vat_id(text)) is not None


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("21/815/08150", "21/815/08150"),
        (" 21\u00a0815\t08150\n", "21 815 08150"),
        ("RSSMRA85T10A562S", "RSSMRA85T10A562S"),
        ("ΑΦΜ 123456789", "ΑΦΜ 123456789"),
    ],
)
def test_a_tax_number_is_kept_as_written_on_one_line(typed: str, stored: str) -> None:
    assert on_one_line(typed) == stored
    assert tax_number_fault(stored) is None


@pytest.mark.parametrize("text", ["", " ", "--", "12\x07", "12\u200b", "12\u202e"])
def test_an_invalid_tax_number_is_refused(text: str) -> None:
    assert tax_number_fault(on_one_line(text)) is not None


# --- numbers of invoices ----------------------------------------------------------------------------------------------


def test_invoice_numbers_may_exceed_five_digits() -> None:
    numbers = [NumberFormat(DEFAULT_FORMAT).number_text(each, 2026) for each in (1, 99_999, 100_000)]
    assert numbers == ["INV-00001", "INV-99999", "INV-100000"]


@pytest.mark.parametrize(
    ("text", "number", "is_yearly"),
    [
        ("{number}", "7", False),
        ("{year}-{number:04}", "2026-0007", True),
        ("RE{number:09}/{year}", "RE000000007/2026", True),
        ("Rechnung Nr. {number}", "Rechnung Nr. 7", False),
    ],
)
def test_a_number_format_is_applied(text: str, number: str, *, is_yearly: bool) -> None:
    assert format_fault(text) is None
    read = NumberFormat(text)
    assert (read.number_text(7, 2026), read.is_yearly) == (number, is_yearly)


@pytest.mark.parametrize(
    "text",
    [
        "", "INV", "{year}", "{number}{number}", "{number}{year}{year}", "{number:5}", "{number:00}", "{number:10}",
        "{number!r}", "{number.__class__}", "{0}", "{}", "{number", "number}", "{{number}}", "{number} {", "{Number}",
        "{year:04}{number}", "{number}\n",
    ],
)  # fmt: skip
def test_an_invalid_number_format_is_refused(text: str) -> None:
    fault = format_fault(text)
    assert fault is not None
    assert "{number:05}" in fault


@given(st.text(alphabet="{}number:0159year !.rs", max_size=40), st.integers(1, 10**9))
def test_every_accepted_format_can_be_applied(text: str, number: int) -> None:
    if format_fault(text) is None:
        made = NumberFormat(text).number_text(number, 2026)
        assert str(number) in made
        assert len(made) <= 64


# --- addresses --------------------------------------------------------------------------------------------------------
# The key under which calls and attempts are counted, however the address is written.


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:201", "192.0.2.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somebody", "unknown"),
        ("192.0.2.1, 192.0.2.2", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_addresses_of_a_subscriber_are_counted_together(address: str | None, counted_as: str) -> None:
    assert subscriber(address) == counted_as


# --- countries -------------------------------------------------------------------------------------------------------
# The countries are those of ISO 3166-1.


_NO_COUNTRIES = {*["AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "XK", "ZZ"]}
"""Further codes known to Babel: islands, unions, and codes that are only reserved."""


def test_the_countries_match_those_of_babel() -> None:
    known = {code for code in map(str, Locale("en").territories) if len(code) == 2 and code.isalpha()}
    assert known - COUNTRIES == _NO_COUNTRIES
    assert known >= COUNTRIES
