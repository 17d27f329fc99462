"""The split of credits over tax rates: in any order, the parts add up to the amount billed at each rate."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from workhook.work.money.credit_notes.amounts import Rates, rates_of
from workhook.work.money.invoices.rules import Discount, TaxRate, TaxRow, sums_of

PERCENTS = st.sampled_from([0, 40_000, 70_000, 190_000, 200_000, 255_000, 333_333, 1_000_000])
LINES = st.lists(st.tuples(st.integers(0, 10**6), PERCENTS), min_size=1, max_size=5)
DISCOUNTS = st.integers(0, 10**6)


def billed(lines: Sequence[tuple[int, int]], discount: int = 0) -> tuple[TaxRow, ...]:
    return sums_of([(net, TaxRate(rate)) for net, rate in lines], TaxRate(), Discount(discount)).taxes


def at(rows: Sequence[TaxRow], notes: Sequence[TaxRow]) -> Rates:
    return rates_of(rows, TaxRate(), notes)


@given(LINES, DISCOUNTS)
def test_crediting_a_whole_invoice_credits_exactly_its_taxes(lines: list[tuple[int, int]], discount: int) -> None:
    rows = billed(lines, discount)
    rates = at(rows, [])
    assert rates.parts_of(rates.left) == tuple(each for each in rows if each.gross)


@given(LINES, DISCOUNTS, st.data())
def test_partial_credits_never_exceed_a_rate_and_the_last_takes_the_remainder(
    lines: list[tuple[int, int]], discount: int, data: st.DataObject
) -> None:
    rows = billed(lines, discount)
    notes: list[TaxRow] = []
    for _ in range(data.draw(st.integers(0, 12))):
        rates = at(rows, notes)
        kind = data.draw(st.sampled_from(["total", "rate", "line"]))
        one = data.draw(st.sampled_from(rates.rows))
        if kind == "total":
            total = data.draw(st.integers(0, rates.left))
            parts = rates.parts_of(total)
            assert sum(each.gross for each in parts) == total
        elif kind == "rate":
            total = data.draw(st.integers(0, one.left.gross))
            parts = (one.part_with_tax(total),)
            assert parts[0].gross == total
        else:
            base = data.draw(st.integers(0, one.left.base))
            parts = rates.parts_before_tax({one.key: base})
            assert [each.base for each in parts] == [base]
        notes += parts
        assert all(each.base >= 0 <= each.tax for each in parts)
        for each in at(rows, notes).rows:
            assert each.left.base >= 0 <= each.left.tax
            assert each.base + each.left.base == each.billed.base, "no more than was billed"
            assert each.tax + each.left.tax == each.billed.tax
            assert abs(each.tax * 10**6 - each.base * each.billed.millionths) <= 2 * 10**6, (
                "the tax is that of the rate"
            )
    notes += at(rows, notes).parts_of(at(rows, notes).left)
    for each in at(rows, notes).rows:
        assert (each.base, each.tax) == (each.billed.base, each.billed.tax)


def test_many_small_credits_keep_the_tax_proportion() -> None:
    rows = (TaxRow(190_000, "standard", 10_000, 1_900),)
    notes: list[TaxRow] = []
    for _ in range(1_190):
        [part] = at(rows, notes).parts_of(1)
        notes.append(part)
    assert (sum(each.base for each in notes), sum(each.tax for each in notes)) == (1_000, 190)


def test_a_rate_is_found_by_percentage_category_or_invoice() -> None:
    rows = (
        TaxRow(190_000, "standard", 100, 19),
        TaxRow(70_000, "standard", 100, 7),
        TaxRow(0, "zero", 100, 0),
        TaxRow(0, "exempt", 100, 0),
    )
    rates = at(rows, [])
    assert [each.billed for each in rates.find(TaxRate(70_000))] == [rows[1]]
    assert [each.billed for each in rates.find(TaxRate(category="exempt"))] == [rows[3]]
    assert [each.billed for each in rates.find(TaxRate(0, "zero"))] == [rows[2]]
    for unclear in (TaxRate(), TaxRate(0), TaxRate(category="standard")):
        assert len(rates.find(unclear)) > 1
    for absent in (TaxRate(200_000), TaxRate(category="reverse_charge"), TaxRate(70_000, "exempt")):
        assert rates.find(absent) == []
    assert [each.billed for each in rates_of(rows, TaxRate(70_000), []).find(TaxRate())] == [rows[1]]
    assert rates_of(rows, TaxRate(200_000), []).find(TaxRate()) == []
    assert [each.billed for each in at(rows[:1], []).find(TaxRate())] == [rows[0]]
    assert [each.billed for each in rates_of(rows[:1], TaxRate(70_000), []).find(TaxRate())] == [rows[0]]


def test_a_second_credit_is_split_like_the_first() -> None:
    rows = (TaxRow(200_000, "standard", 10_000, 2_000),)
    [first] = at(rows, []).parts_of(6_000)
    [second] = at(rows, [first]).parts_of(3_000)
    assert (first.base, first.tax) == (5_000, 1_000)
    assert (second.base, second.tax) == (2_500, 500)
