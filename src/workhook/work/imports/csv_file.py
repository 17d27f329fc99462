"""Reads a table: CSV with commas, semicolons or tabs between its fields. What is wrong is told with its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workhook.core.errors import shown
from workhook.work.imports.json_file import FAULTS_MAX, NotUsable, clean
from workhook.work.imports.texts import Distinct

DELIMITERS = (",", ";", "\t")
FIELDS_MAX = 500


class TableRow(NamedTuple):
    """`line`: where it begins in the file, from 1. `cells`: by the name of their field, trimmed."""

    line: int
    cells: dict[str, str]


class Table(NamedTuple):
    names: list[str]
    rows: list[TableRow]


def read_table(data: bytes) -> Table:
    """The first line names the fields. Empty lines are left out, missing fields at the end of a line are empty. Raises
    `NotUsable`."""
    text = clean(_decoded(data))
    delimiter = _delimiter(text)
    lines = _records(text, delimiter)
    try:
        header = next(lines, None)
        if header is None:
            raise NotUsable(["it is empty: the first line has to name the fields"])
        names = _names(header[1])
        return Table(names, list(_rows(names, lines)))
    except csv.Error as error:
        raise NotUsable([f"line {error.args[1]}: it is not CSV: {error.args[0]}"]) from None


def _decoded(data: bytes) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotUsable([f"line {line}: it is not UTF-8; save the file as CSV in UTF-8"]) from None


def _delimiter(text: str) -> str:
    """The one that parts the first line into the most fields."""
    first = next((each for each in text.splitlines() if each.strip()), "")
    return max(DELIMITERS, key=lambda each: _outside_of_quotes(first).count(each))


def _outside_of_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not empty, with their numbers. Raises `csv.Error` with what is wrong, and the number."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise csv.Error(str(error), line) from None
        if cells is None:
            return
        if any(each.strip() for each in cells):
            yield line, cells
        line = reader.line_num + 1


def _names(cells: Sequence[str]) -> list[str]:
    if len(cells) > FIELDS_MAX:
        raise NotUsable([f"line 1: it has {len(cells):,} fields; at most {FIELDS_MAX} are read"])
    name_of = Distinct()
    return [name_of(each.strip() or f"field {at}") for at, each in enumerate(cells, 1)]


def _rows(names: Sequence[str], lines: Iterator[tuple[int, list[str]]]) -> Iterator[TableRow]:
    """Raises `NotUsable`."""
    faults: list[str] = []
    for line, cells in lines:
        if any(each.strip() for each in cells[len(names) :]):
            more = shown(next(each.strip() for each in cells[len(names) :] if each.strip()))
            faults.append(
                f"line {line}: it has {len(cells)} fields, and the first line {len(names)}: {more!r} is of none"
            )
        if len(faults) == FAULTS_MAX:
            break
        padded = [*cells, *[""] * (len(names) - len(cells))]
        yield TableRow(line, {name: cell.strip() for name, cell in zip(names, padded, strict=False)})
    if faults:
        raise NotUsable(faults)
