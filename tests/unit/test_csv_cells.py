"""No cell of a table is a formula, whatever delimiter a spreadsheet uses."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workhook.work.kernel import csv_tables

FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"
SEPARATORS = ";\t\r\n"
BEFORE = ' \t\r\n"\u00a0'
"""Characters that a spreadsheet may skip at the start of a cell."""

# A small alphabet, so that relevant characters occur together.
_cells = st.text(st.sampled_from([*FORMULA, *SEPARATORS, *BEFORE, ",", "'", "a", "1", "\u2028", "\u0085"]), max_size=12)


def _read(written: bytes, delimiter: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(written.decode(), newline=""), delimiter=delimiter))


def _formulas(written: bytes) -> list[tuple[str, str]]:
    """Return cells that start like a formula, with the delimiter used to split the line."""
    return [
        (delimiter, cell)
        for delimiter in (",", ";", "\t")
        for row in _read(written, delimiter)
        for cell in row
        if cell.lstrip(BEFORE).startswith(tuple(FORMULA))
    ]


@given(st.lists(st.lists(_cells, min_size=2, max_size=4), max_size=4))
@example([["a", ";=1+1"]])
@example([["a", "b\t=1+1"]])
@example([["a", "b\n=1+1"]])
@example([["a", 'b;"=1+1"']])
@example([["a", 'b; "" \t@SUM(1)']])
@example([["a;", "=1+1"]])
@example([['a;"', "=1+1"]])
@example([['"=1+1"', " =1+1"]])
def test_no_cell_is_a_formula_however_lines_are_split(rows: list[list[str]]) -> None:
    assert _formulas(csv_tables.encode_rows(rows)) == []


@given(st.lists(st.lists(_cells, min_size=2, max_size=4), max_size=4))
def test_cells_are_otherwise_unchanged(rows: list[list[str]]) -> None:
    read = _read(csv_tables.encode_rows(rows), ",")
    assert [len(row) for row in read] == [len(row) for row in rows]
    for row, line in zip(rows, read, strict=True):
        for cell, shown in zip(row, line, strict=True):
            assert _without_quotes(shown) == _without_quotes(_in_lines(cell))


@given(st.lists(_cells, min_size=1, max_size=4))
@example(["'=1", "''=1", "'\t", "\t", "'\t=", ";'=1", "- bullet", "'", "'a", "\n'=1;'-2"])
def test_encoded_cells_decode_to_the_original_text(row: list[str]) -> None:
    [read] = _read(csv_tables.encode_rows([row]), ",") or [[""]]
    assert [csv_tables.decode_cell(each) for each in read] == [_in_lines(each) for each in row]


def _without_quotes(text: str) -> str:
    return text.replace("'", "")


def _in_lines(text: str) -> str:
    """Return the text as a table contains it, with a single kind of line break."""
    return text.replace("\u2028", "\n").replace("\u2029", "\n").replace("\u0085", "\n")


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("a;=1", "a;'=1"),
        ("a\t+1", "a\t'+1"),
        ("a\n- one\n- two", "a\n'- one\n'- two"),
        ("\t=1", "'\t'=1"),
        ('a; "=1', "a;' \"=1"),
        ("a=1, b-c; d", "a=1, b-c; d"),
        ("a,=1", "a,=1"),
        ("\nplain", "'\nplain"),
        ("one\u2028two\u2029three\u0085four", "one\ntwo\nthree\nfour"),
        ("one\u2028=2", "one\n'=2"),
    ],
)
def test_a_quote_is_inserted_where_a_cell_may_begin(cell: str, shown: str) -> None:
    assert _read(csv_tables.encode_rows([("x", cell)]), ",") == [["x", shown]]


def test_numbers_are_not_quoted() -> None:
    assert csv_tables.encode_rows([(-1, Decimal("-0.50"))]) == b"-1,-0.50\r\n"


@pytest.mark.parametrize("unit", ["\n", '"', ";", "=", "; ", "a;"])
def test_long_runs_of_a_character_take_linear_time(unit: str) -> None:
    """A quadratic parser would not finish."""
    text = unit * (2**20 // len(unit))
    assert len(csv_tables.encode_rows([("x", text)])) >= len(text)
