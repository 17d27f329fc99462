"""Parsing of tables: CSV separated by commas, semicolons or tabs. Faults state their line.

The encoding may be UTF-8, UTF-16 with a byte order mark, or, if that is unambiguous, Windows-1252.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from workhook.core.errors import Message, Number, say, shown
from workhook.work.board.tasks.export import CELLS
from workhook.work.kernel.csv_tables import decode_cell, without_guard
from workhook.work.portability.imports.json_file import ENTRIES_MAX, FAULTS_MAX, InvalidFile, clean
from workhook.work.portability.imports.mapping import UniqueNames

# Western European letters and common punctuation: euro, ellipsis, quotation marks, bullet, dashes, ™, œ. Other
# characters indicate another code page: a Mac OS umlaut reads as `Š`, a DOS umlaut as a symbol inside a word, and
# Cyrillic as runs of letters. `ð` and `þ` are excluded because Turkish and Lithuanian code pages have other letters in
# their place.
_LETTERS = r"A-Za-zÀ-ÏÑ-ÖØ-Üß-ïñ-öø-üÿœŒ"
_PLAIN = re.compile(
    rf"[\t\r\n\x20-\x7e{_LETTERS}\u20ac\u2026\u2018\u2019\u201c\u201d\u201e\u2022\u2013\u2014™\xa0-\xbf]*"
)
_OF_OTHERS = re.compile(
    rf"[À-ÖØ-öø-ÿ]{{3}}|[{_LETTERS}][^\x00-\x7f\u2019\xad{_LETTERS}][{_LETTERS}]|\u201d[{_LETTERS}]|[{_LETTERS}]\u201e"
)
_TILDED, _DOTTED = re.compile("[õÕ]"), re.compile("[öÖüÜ]")
_UTF_8 = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")
_BREAK = re.compile(r"\r\n|\r|\n")
_WORD = re.compile(rf"[{_LETTERS}]+")
_ACCENT = re.compile(r"[À-ÖØ-öø-ÿ]")


def _decoded(data: bytes) -> tuple[str, list[Message]]:
    """Return the text, and remarks on its encoding. Raises `InvalidFile` for other encodings and for NUL."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    remarks = []
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        found = _western(data) if encoding == "utf-8-sig" else None
        if found is None:
            line = data.count(b"\n", 0, error.start) + 1
            raise InvalidFile([say("line {}: this is not valid UTF-8; save the file as CSV (UTF-8)", line)]) from None
        text = found
        # Words that other code pages would decode differently.
        accented = (each[0] for each in _WORD.finditer(text) if not each[0].isascii())
        words = dict.fromkeys(islice(accented, 3))
        remarks.append(say("the file is not UTF-8 and was read as Windows-1252: {}", ", ".join(map(shown, words))))
    if (at := text.find("\0")) >= 0:
        line, column = place_in(text, at)
        raise InvalidFile([say("line {}, column {}: NUL character; save the file as CSV in UTF-8", line, column)])
    return clean(text), remarks


def _western(data: bytes) -> str | None:
    if _UTF_8.search(data):  # partly UTF-8: the file is damaged or mixed
        return None
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    opened, closed = text.count("\u201e"), text.count("\u201c") + text.count("\u201d")
    in_pairs = opened <= closed and (opened + closed) % 2 == 0
    is_hungarian = _TILDED.search(text) and _DOTTED.search(text)  # has `ő` in the place of `õ`
    is_clear = (
        in_pairs
        and not is_hungarian
        and _PLAIN.fullmatch(text)
        and _ACCENT.search(text)
        and not _OF_OTHERS.search(text)
    )
    return text if is_clear else None


def place_in(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of a character, both counted from 1."""
    before = _BREAK.split(text[:at])
    return len(before), len(before[-1]) + 1


DELIMITERS = (",", ";", "\t")
FIELDS_MAX = 500
ROWS_MAX = ENTRIES_MAX
CELLS_MAX = 1_000_000
"""The maximum number of non-empty cells in a table."""


class TableRow(NamedTuple):
    """A row that starts at `line`, counted from 1. `cells` contains the non-empty cells by column name."""

    line: int
    cells: dict[str, str]


class Table(NamedTuple):
    """A table, with `remarks` on how it was decoded.

    `is_own` marks Workhook's own export, whose cells are not trimmed.
    """

    names: list[str]
    rows: list[TableRow]
    remarks: list[Message]
    is_own: bool = False


def read_table(data: bytes) -> Table:
    """Parse a table. The first line names the columns, and empty lines are skipped. Raises `InvalidFile`."""
    text, remarks = _decoded(data)
    first = next((each for each in text.splitlines() if each.strip()), "")
    outside_of_quotes = "".join(first.split('"')[::2])
    delimiter = max(DELIMITERS, key=outside_of_quotes.count)  # the one that splits the first line into the most fields
    lines = _records(text, delimiter)
    try:
        header = next(lines, None)
        if header is None:
            raise InvalidFile(["the file is empty; its first line must contain the field names"])
        if len(header[1]) > FIELDS_MAX:
            raise InvalidFile([f"line 1: it has {len(header[1]):,} fields; the maximum is {FIELDS_MAX}"])
        name_of = UniqueNames()
        names = [name_of(each.strip() or f"field {at}") for at, each in enumerate(header[1], 1)]
        is_own = set(CELLS) <= set(names)
        read = decode_cell if is_own else lambda cell: without_guard(cell.strip())
        return Table(names, list(_rows(names, lines, read)), remarks, is_own)
    except csv.Error as error:
        raise InvalidFile([_in_words(text, delimiter, int(error.args[1]))]) from None


def _in_words(text: str, delimiter: str, line: int) -> str:
    """Describe the fault in the record that begins on this line, because the `csv` module reports no position."""
    most = csv.field_size_limit()
    at, fault = _fault_of_record(text, delimiter, sum(map(len, islice(io.StringIO(text, newline=""), line - 1))), most)
    line, column = place_in(text, at)
    match fault:
        case "not closed":
            return say("line {}, column {}: the quotation mark that opens here is never closed", line, column)
        case "behind":
            found = shown(text[at])
            return say(
                "line {}, column {}: “{}” follows a closing quotation mark; double each quotation mark inside a field",
                line,
                column,
                found,
            )
        case "too long":
            return say(
                "line {}, column {}: the field that starts here has more than {} characters", line, column, Number(most)
            )
        case "too long in quotes":
            return say(
                "line {}, column {}: the field that starts here has more than {} characters; a closing quotation "
                "mark may be missing",
                line,
                column,
                Number(most),
            )
    return say("line {}: not valid CSV", line)


_QUOTED = re.compile(r'"(?:[^"]|"")*+(?P<closed>"?)')


def _fault_of_record(text: str, delimiter: str, start: int, most: int) -> tuple[int, str]:
    """Return the position and the kind of the fault in the record that begins at `start`, or an empty kind."""
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


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield non-empty records with their line numbers. Raises `csv.Error` with the fault and the line number."""
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


def _rows(
    names: Sequence[str], lines: Iterator[tuple[int, list[str]]], read: Callable[[str], str]
) -> Iterator[TableRow]:
    faults: list[str] = []
    number_of_cells = 0
    for number, (line, cells) in enumerate(lines, 1):
        if number > ROWS_MAX:
            raise InvalidFile(
                [say("line {}: a file can have at most {} lines; split it into several files", line, Number(ROWS_MAX))]
            )
        if any(each.strip() for each in cells[len(names) :]):
            more = shown(next(each.strip() for each in cells[len(names) :] if each.strip()))
            faults.append(
                say(
                    "line {}: {} fields, but the first line has {}; “{}” does not belong to any field",
                    line,
                    len(cells),
                    len(names),
                    more,
                )
            )
        if len(faults) == FAULTS_MAX:
            break
        row = TableRow(line, {name: text for name, cell in zip(names, cells, strict=False) if (text := read(cell))})
        number_of_cells += len(row.cells)
        if number_of_cells > CELLS_MAX:
            most = Number(CELLS_MAX)
            fault = say("line {}: a file can have at most {} values; split it into several files", line, most)
            raise InvalidFile([fault])
        yield row
    if faults:
        raise InvalidFile(faults)
