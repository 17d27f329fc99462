"""Discounts and several taxes of one invoice: what is answered, printed and refused."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from pypdf import PdfReader

from tests.work.paper import as_shown, text_of
from tests.work.studio import Studio

Draw = Callable[..., Any]


def line(price: float, **more: Any) -> dict[str, Any]:
    return {"description": f"For {price}", "qty": 1, "unit_price": price, **more}


@pytest.fixture
def draw(studio: Studio) -> Draw:
    return lambda *lines, **more: studio.owner.post(
        f"{studio.project}/invoices", json={"invoice_items": list(lines), "currency": "EUR", **more}
    )["invoice"]


def rows(record: Any) -> list[tuple[Any, ...]]:
    return [(each["percent"], each["category"], each["base"], each["tax"]) for each in record["taxes"]]


def test_each_line_has_its_rate_or_that_of_the_invoice(draw: Draw) -> None:
    record = draw(line(100), line(50, tax=10), line(7, tax_category="exempt"), line(3, tax=0), line(1, tax=20), tax=20)
    assert rows(record) == [
        (20, "standard", 101, 20.2),
        (10, "standard", 50, 5),
        (0, "zero", 3, 0),
        (0, "exempt", 7, 0),
    ]
    assert (record["amount"], record["total"]) == (161, 186.2)
    assert record["invoice_items"] == as_shown(
        [line(100), line(50, tax=10), line(7, tax_category="exempt"), line(3, tax=0), line(1, tax=20)]
    )


def test_a_line_is_cheaper_by_a_percentage_or_an_amount(draw: Draw) -> None:
    lines = [line(99.99, discount=33.3333), line(10, discount_amount=2.5), line(5, discount=100)]
    record = draw(*lines, tax=19)
    assert record["invoice_items"] == as_shown(lines)
    assert (record["amount"], record["total"]) == (74.16, 88.25)  # 99.99 - 33.33 + 7.5 + 0


def test_the_discount_of_an_invoice_is_shared_over_its_rates(draw: Draw) -> None:
    # 10 % of 100.01 is 10.00: 6.6666 of it is for 20 %, 3.3333 for 10 %, and the larger remainder gets the cent more.
    record = draw(line(66.67, tax=20), line(33.34, tax=10), discount=10)
    assert rows(record) == [(20, "standard", 60, 12), (10, "standard", 30.01, 3)]
    assert (record["discount"], record["discount_amount"], record["amount"], record["total"]) == (
        10,
        None,
        90.01,
        105.01,
    )
    # Of a tie the higher rate gets more.
    record = draw(line(10, tax=10), line(10, tax=20), discount_amount=0.01)
    assert rows(record) == [(20, "standard", 9.99, 2), (10, "standard", 10, 1)]


def test_a_percentage_and_an_amount_take_the_place_of_each_other(studio: Studio, draw: Draw) -> None:
    record = draw(line(100), discount=10)
    path = f"/invoices/{record['id']}"
    record = studio.owner.patch(path, json={"discount_amount": 25})["invoice"]
    assert (record["discount"], record["discount_amount"], record["total"]) == (None, 25, 75)
    record = studio.owner.patch(path, json={"discount": 50})["invoice"]
    assert (record["discount"], record["discount_amount"], record["total"]) == (50, None, 50)
    record = studio.owner.patch(path, json={"discount": None})["invoice"]
    assert (record["discount"], record["discount_amount"], record["total"]) == (None, None, 100)
    record = studio.owner.patch(path, json={"tax": 20, "tax_category": "standard"})["invoice"]
    assert rows(record) == [(20, "standard", 100, 20)]
    record = studio.owner.patch(path, json={"tax": None, "tax_category": "exempt"})["invoice"]
    assert (rows(record), record["total"]) == ([(0, "exempt", 100, 0)], 100)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"discount": 101}, "discount"),
        ({"discount": 10, "discount_amount": 1}, "discount_amount"),
        ({"discount_amount": 100.01}, "discount_amount"),
        ({"discount_amount": -1}, "discount_amount"),
        ({"tax": 10, "tax_category": "zero"}, "tax_category"),
        ({"tax_category": "reverse"}, "tax_category"),
        ({"invoice_items": [line(1, discount_amount=1.01)]}, "invoice_items[0].discount_amount"),
        ({"invoice_items": [line(1), line(1, discount=1, discount_amount=1)]}, "invoice_items[1].discount_amount"),
        ({"invoice_items": [line(1, tax=5, tax_category="exempt")]}, "invoice_items[0].tax_category"),
        ({"invoice_items": [line(1, tax="much")]}, "invoice_items[0].tax"),
    ],
)
def test_wrong_parameters(studio: Studio, draw: Draw, body: dict[str, Any], fault: str) -> None:
    record = draw(line(100))
    whole = {"invoice_items": [line(100)], **body}
    assert set(studio.owner.faults("POST", f"{studio.project}/invoices", json=whole)) == {fault}
    assert set(studio.owner.faults("PATCH", f"/invoices/{record['id']}", json=body)) == {fault}
    assert studio.owner.get(f"/invoices/{record['id']}")["invoice"] == record


def test_what_was_sent_keeps_its_discount(studio: Studio, draw: Draw) -> None:
    record = draw(line(100), discount=10)
    path = f"/invoices/{record['id']}"
    studio.owner.post(f"{path}/send")
    for change in ({"discount": 5}, {"discount_amount": 5}, {"tax_category": "exempt"}):
        assert studio.owner.refused(409, "PATCH", path, json=change)["code"] == "invoice_sent"
    assert studio.owner.patch(path, json={"discount": 10})["invoice"]["total"] == 90


def test_a_total_is_credited_in_proportion_to_the_taxes(studio: Studio, draw: Draw) -> None:
    record = draw(line(100, tax=20), line(100, tax=10))
    path = f"/invoices/{record['id']}"
    studio.owner.post(f"{path}/send")
    note = studio.owner.post(f"{path}/credit_notes", json={"total": 23, "reason": "x"})["credit_note"]
    assert rows(note) == [(20, "standard", 10, 2), (10, "standard", 10, 1)]
    lines = [line(50, tax=20, discount=50), line(10, tax=10)]
    note = studio.owner.post(f"{path}/credit_notes", json={"invoice_items": lines, "reason": "x"})["credit_note"]
    assert (rows(note), note["total"]) == ([(20, "standard", 25, 5), (10, "standard", 10, 1)], 41)
    assert note["invoice_items"] == as_shown(lines)


def test_a_whole_invoice_is_credited_with_exactly_its_taxes(studio: Studio, draw: Draw) -> None:
    record = draw(line(0.99, tax=25.5), line(33.33, tax=7), line(12.34), line(5, tax_category="exempt"), discount=7.5)
    studio.owner.post(f"/invoices/{record['id']}/send")
    note = studio.owner.post(f"/invoices/{record['id']}/credit_notes", json={"reason": "x"})["credit_note"]
    assert (note["taxes"], note["amount"], note["total"]) == (record["taxes"], record["amount"], record["total"])


def test_discounts_and_taxes_are_printed(studio: Studio, draw: Draw) -> None:
    record = draw(line(100, tax=20, discount=10), line(50, tax=10), discount_amount=14)
    content = studio.owner.call("GET", f"/invoices/{record['id']}/pdf").content
    text = " ".join(text_of(PdfReader(BytesIO(content))).split())
    for shown in (
        "Discount: 10.00", "Subtotal 140.00 EUR", "Discount -14.00 EUR", "Tax 20 % of 81.00 EUR 16.20 EUR",
        "Tax 10 % of 45.00 EUR 4.50 EUR", "Total 146.70 EUR",
    ):  # fmt: skip
        assert shown in text, text


def test_a_discount_on_one_rate_leaves_an_amount_that_is_printed(studio: Studio, draw: Draw) -> None:
    record = draw(line(100, tax=20), discount=10)
    content = studio.owner.call("GET", f"/invoices/{record['id']}/pdf").content
    text = " ".join(text_of(PdfReader(BytesIO(content))).split())
    assert "Discount 10 % -10.00 EUR Tax 20 % of 90.00 EUR 18.00 EUR Total 108.00 EUR" in text, text
