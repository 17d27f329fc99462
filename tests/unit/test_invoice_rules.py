"""Amounts, quantities and numbers of invoices."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.work.kernel.billing_settings import read_percent
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.printing import initials_of
from workhook.work.money.invoices.rules import (
    Balance,
    Discount,
    Item,
    TaxRate,
    items_of,
    items_text,
    split_proportionally,
    sums_of,
)

QUANTITIES = st.integers(1, rules.QTY_MAX * 10**6).map(lambda millionths: Decimal(millionths).scaleb(-6))
PERCENTS = st.none() | st.integers(0, 10**6)
IDS = st.lists(st.text(), max_size=3).map(tuple)
DAYS = st.none() | st.tuples(st.dates(), st.dates()).map(lambda days: tuple(each.isoformat() for each in sorted(days)))
TIMES = st.lists(st.integers(0, 10**9), max_size=3).map(tuple)
ITEMS = st.builds(
    Item, st.text(), QUANTITIES, st.integers(0, 10**13), IDS, TIMES, PERCENTS, st.none(), PERCENTS, st.none(), DAYS
)


@given(QUANTITIES, st.integers(0, 10**13))
def test_line_amounts_are_rounded_half_up(qty: Decimal, unit_price_minor: int) -> None:
    exact = qty * unit_price_minor if unit_price_minor < 10**9 else None
    amount = Item("", qty, unit_price_minor).amount_minor
    if exact is not None:
        assert amount == exact.quantize(Decimal(1), ROUND_HALF_UP)
    assert 2 * abs(amount * 10**6 - int(qty.scaleb(6)) * unit_price_minor) <= 10**6


@given(st.lists(ITEMS, max_size=5))
def test_an_invoice_is_the_sum_of_its_lines(items: list[Item]) -> None:
    sums = rules.sums_of_items(items, TaxRate(), Discount())
    assert sums.amount == sum(each.amount_minor for each in items)


@given(st.lists(ITEMS, max_size=5))
def test_items_are_stored_exactly(items: list[Item]) -> None:
    assert items_of(items_text(items)) == tuple(items)


def test_stored_lines_from_before_grouping_can_be_read() -> None:
    text = '[["Logo", "1.5", 8000, "tms_1", 5400000], ["Hosting", "1", 1000, null, null]]'
    assert [each.timesheet_ids for each in items_of(text)] == [("tms_1",), ()]
    assert items_text(items_of(text)).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("amount", "millionths", "tax"), [(100, None, 0), (100, 0, 0), (50, 10_000, 1), (49, 10_000, 0), (100, 10**6, 100)]
)
def test_tax_is_rounded_half_up(amount: int, millionths: int | None, tax: int) -> None:
    [row] = sums_of([(amount, TaxRate())], TaxRate(millionths), Discount()).taxes
    assert (row.base, row.tax) == (amount, tax)


def test_the_largest_remainder_is_rounded_up_first() -> None:
    assert split_proportionally(10, [6, 3, 2]) == [5, 3, 2]
    assert split_proportionally(10, [2, 3, 6]) == [2, 3, 5]
    assert split_proportionally(1, [1, 1]) == [1, 0]


def test_the_whole_amount_of_a_new_invoice_is_due() -> None:
    books = Balance(1)
    assert (books.due, books.not_credited, books.to_refund, books.status) == (1, 1, 0, "sent")


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**13), min_size=1, max_size=9))
def test_shares_add_up_and_deviate_by_less_than_a_unit(amount: int, weights: list[int]) -> None:
    shares = split_proportionally(amount, weights)
    if whole := sum(weights):
        assert sum(shares) == amount
        for share, weight in zip(shares, weights, strict=True):
            assert abs(share * whole - amount * weight) < whole
            assert share <= weight or amount > whole
    else:
        assert not any(shares)


@pytest.mark.parametrize(
    ("raw", "qty"), [(1, "1"), (0.1, "0.1"), ("2.50", "2.5"), (1e2, "100"), (0.000001, "0.000001"), (123.654321, None)]
)
def test_quantities_are_parsed_exactly(raw: object, qty: str | None) -> None:
    assert rules.read_qty(raw) == Decimal(qty or str(raw))


@pytest.mark.parametrize(
    "raw", [0, -1, 0.0000001, 1e9, float("inf"), "NaN", "", "1,5", True, None, [], "1" * 99, "1e99"]
)
def test_an_invalid_quantity_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="a number greater than 0"):
        rules.read_qty(raw)


@pytest.mark.parametrize(("raw", "millionths"), [(0, 0), (100, 10**6), (7.7, 77_000), (0.0001, 1), ("19", 190_000)])
def test_percentages_are_parsed(raw: object, millionths: int) -> None:
    assert read_percent(raw) == millionths


@pytest.mark.parametrize("raw", [-0.1, 100.0001, 0.00001, False, "ten", "1e-30", None])
def test_an_invalid_percentage_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        read_percent(raw)


@pytest.mark.parametrize(
    ("raw", "text"), [(42, "42"), (42.0, "42"), (1.5, "1.5"), (-7, "-7"), (" A-1 ", "A-1"), (0, "0"), (1e-5, "0.00001")]
)
def test_invoice_numbers_of_callers_are_normalized(raw: object, text: str) -> None:
    assert rules.read_number(raw) == text


@pytest.mark.parametrize("raw", ["", "  ", "x" * 65, "a\nb", True, None, [], 1e300, 10**20, float("inf")])
def test_an_invalid_invoice_number_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="a number, or text"):
        rules.read_number(raw)


@pytest.mark.parametrize(
    ("name", "initials"),
    [("Acme Studio GmbH", "AS"), ("acme", "A"), ("acme-1", "A1"), ("Łódź", "Ł"), ("!!!", ""), ("", ""), ("你好", "你")],
)
def test_initials_are_taken_from_the_name(name: str, initials: str) -> None:
    assert initials_of(name) == initials
