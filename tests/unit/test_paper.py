"""The texts of printed documents in each language, and the contents of the QR code for transfers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from workhook.work.money.invoices import paper as paper_module
from workhook.work.money.invoices import printing
from workhook.work.money.invoices.paper import DocumentLocale

IBAN = "DE89370400440532013000"


def test_numbers_and_dates_are_localized() -> None:
    english, german = DocumentLocale("en"), DocumentLocale("de")
    day = date(2030, 12, 24)
    found = [(each.money(129_999, "EUR"), each.quantity(Decimal("1.50")), each.day(day)) for each in (english, german)]
    assert found == [("1,299.99 EUR", "1.5", "24 Dec 2030"), ("1.299,99 EUR", "1,5", "24.12.2030")]


def _said() -> Iterator[str]:
    """Yield each text that is printed."""
    tree = ast.parse(Path(printing.__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "translate":
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))
    for texts in (printing._LABELS, printing._STATUSES, printing._MARKS):
        yield from texts.values()


def test_every_printed_text_has_a_german_translation() -> None:
    said = {*_said(), paper_module.REVERSE_CHARGE}
    assert len(said) > 20
    assert all(DocumentLocale("de").translate(words) for words in said)


def test_the_transfer_code_contains_the_payment_details() -> None:
    text = printing.transfer_text("Acme  Studio\nGmbH", IBAN, "COBADEFFXXX", 12_305, "INV-00001")
    assert text == f"BCD\n002\n1\nSCT\nCOBADEFFXXX\nAcme Studio GmbH\n{IBAN}\nEUR123.05\n\n\nINV-00001"


def test_the_transfer_code_has_an_optional_bic_and_truncates_long_texts() -> None:
    text = printing.transfer_text("ü" * 100, IBAN, None, 1, "x" * 200)
    assert text is not None
    lines = text.split("\n")
    assert (lines[4], len(lines[5]), lines[7], len(lines[10])) == ("", 70, "EUR0.01", 140)
    assert len(text.encode()) <= 331, "what the guideline allows"
    assert printing.code_of(text) is not None


@pytest.mark.parametrize("amount_minor", [0, -1, 100_000_000_000])
def test_an_amount_that_cannot_be_transferred_has_no_code(amount_minor: int) -> None:
    assert printing.transfer_text("Acme", IBAN, None, amount_minor, "1") is None


def test_an_oversized_text_has_no_code() -> None:
    assert printing.code_of("x" * 500) is None
    assert printing.code_of("x" * 5000) is None
