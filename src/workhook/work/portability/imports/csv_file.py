"""Reads a table: CSV with commas, semicolons or tabs between its fields. What is wrong is told with its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from workhook.core.errors import Message, Number, say, shown
from workhook.work.board.tasks.export import CELLS
from workhook.work.kernel.csv_tables import without_guard, without_guards
from workhook.work.portability.imports.decoding import decoded, place_in
from workhook.work.portability.imports.json_file import ENTRIES_MAX, FAULTS_MAX, NotUsable
from workhook.work.portability.imports.texts import Distinct

DELIMITERS = (",", ";", "\t")
FIELDS_MAX = 500
ROWS_MAX = ENTRIES_MAX
CELLS_MAX = 1_000_000
"""Cells of one table that are not empty."""


class TableRow(NamedTuple):
    """`line`: where it begins in the file, from 1. `cells`: those that are not empty, by the name of their field,
    trimmed."""

    line: int
    cells: dict[str, str]


class Table(NamedTuple):
    """`remarks`: what there is to say of how it was read. `is_own`: the table of tasks that Workhook exports, whose
    cells are not trimmed."""

    names: list[str]
    rows: list[TableRow]
    remarks: list[Message]
    is_own: bool = False


def read_table(data: bytes) -> Table:
    """The first line names the fields. Empty lines are left out, missing fields at the end of a line are empty. Raises
    `NotUsable`."""
    text, remarks = decoded(data)
    delimiter = _delimiter(text)
    lines = _records(text, delimiter)
    try:
        header = next(lines, None)
        if header is None:
            raise NotUsable(["it is empty: the first line has to name the fields"])
        names = _names(header[1])
        is_own = set(CELLS) <= set(names)
        return Table(names, list(_rows(names, lines, without_guards if is_own else _trimmed)), remarks, is_own)
    except csv.Error as error:
        raise NotUsable([_in_words(text, delimiter, int(error.args[1]))]) from None


def _in_words(text: str, delimiter: str, line: int) -> str:
    """What the reader refuses in the record that begins in this line. The reader itself says no place."""
    most = csv.field_size_limit()
    at, fault = _fault_of_record(text, delimiter, sum(map(len, islice(io.StringIO(text, newline=""), line - 1))), most)
    line, column = place_in(text, at)
    match fault:
        case "not closed":
            return say("line {}, column {}: the quotation mark that opens here is not closed", line, column)
        case "behind":
            found = shown(text[at])
            return say(
                "line {}, column {}: {} stands behind a quotation mark; within a text write it twice",
                line,
                column,
                repr(found),
            )
        case "too long":
            return say(
                "line {}, column {}: the field that begins here has more than {} characters", line, column, Number(most)
            )
        case "too long in quotes":
            return say(
                "line {}, column {}: the field that begins here has more than {} characters; perhaps its "
                "quotation mark is not closed",
                line,
                column,
                Number(most),
            )
    return say("line {}: it is not CSV", line)


_QUOTED = re.compile(r'"(?:[^"]|"")*+(?P<closed>"?)')


def _fault_of_record(text: str, delimiter: str, start: int, most: int) -> tuple[int, str]:
    """Where in the text it is, and of which kind."""
    plain, at = re.compile(rf"[^{delimiter}\r\n]*"), start
    while at < len(text):
        quoted = _QUOTED.match(text, at)
        found = quoted or plain.match(text, at)
        end = found.end() if found else at
        if end - at - (2 if quoted else 0) > most:
            return at, "too long in quotes" if quoted else "too long"
        if quoted and not quoted["closed"]:
            return at, "not closed"
        if end == len(text) or text[end] in "\r\n":
            break
        if text[end] != delimiter:
            return end, "behind"
        at = end + 1
    return start, ""


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


def _trimmed(cell: str) -> str:
    return without_guard(cell.strip())


def _rows(
    names: Sequence[str], lines: Iterator[tuple[int, list[str]]], read: Callable[[str], str]
) -> Iterator[TableRow]:
    """Raises `NotUsable`."""
    faults: list[str] = []
    number_of_cells = 0
    for number, (line, cells) in enumerate(lines, 1):
        if number > ROWS_MAX:
            raise NotUsable(
                [say("line {}: more than {} lines are not read; part the file into several", line, Number(ROWS_MAX))]
            )
        if any(each.strip() for each in cells[len(names) :]):
            more = shown(next(each.strip() for each in cells[len(names) :] if each.strip()))
            faults.append(
                say(
                    "line {}: it has {} fields, and the first line {}: {} is of none",
                    line,
                    len(cells),
                    len(names),
                    repr(more),
                )
            )
        if len(faults) == FAULTS_MAX:
            break
        row = TableRow(line, {name: text for name, cell in zip(names, cells, strict=False) if (text := read(cell))})
        number_of_cells += len(row.cells)
        if number_of_cells > CELLS_MAX:
            raise NotUsable(
                [say("line {}: more than {} values are not read; part the file into several", line, Number(CELLS_MAX))]
            )
        yield row
    if faults:
        raise NotUsable(faults)
