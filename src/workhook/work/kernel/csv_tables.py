"""Tables as `text/csv` (RFC 4180): who asks for one, and how their cells are written."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from workhook.http.messages import disposition
from workhook.http.negotiation import weighted

MEDIA_TYPE = "text/csv"

Cell = str | int | Decimal | bool | None

_FORMULA = "=+\\-@\uff1d\uff0b\uff0d\uff20"  # what a formula begins with, also as wide characters
# What may stand before it: white space and quotes, with separators in between. It is read in one piece, so that a long
# text of nothing else is read once. An apostrophe there is guarded as well: else it could not be told from a guard. The
# pattern starts with a set of characters, which `re` searches for ten times as fast as for a look behind.
_BEFORE_FORMULA = re.compile(rf"""[\s";'](?<![\s";'].)[\s";']*+(?=[{_FORMULA}])""", re.DOTALL)
_FORMULA_FIRST = re.compile(rf"""[\s";']*+[{_FORMULA}]""")
_BREAKS_FIRST = re.compile(r"'*[\t\r\n]")
_GUARDED_SEPARATOR = re.compile(r"([;\t\r\n])'")
_SEPARATOR = re.compile(r"[;\t\r\n]")
_LINE_BREAK = re.compile("[\u0085\u2028\u2029]")


def wants_csv(accept: str | None) -> bool:
    """Whether the `Accept` header names CSV, and JSON not before it (RFC 9110, 12.5.1)."""
    ranges = weighted(accept)
    wanted = max((weight for name, weight in ranges if name == MEDIA_TYPE), default=0.0)
    json = max((weight for name, weight in ranges if name == "application/json"), default=0.0)
    other = max((weight for name, weight in ranges if name in ("*/*", "application/*")), default=0.0)
    return wanted > json and wanted >= other


async def write_rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Return `rows`, made in a thread: a page of long texts takes longer than other requests should wait."""
    return await asyncio.to_thread(rows, cells)


def rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Lines that end in CRLF. Where a spreadsheet would take a text for a formula, a `'` stands before it.

    That is at the beginning of a cell, and after what a spreadsheet can be told to split lines by: `;`, a tab and a
    line break. A text that begins with a tab or a line break gets one, too.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([_plain(each) for each in row] for row in cells)
    return out.getvalue().encode()


def _plain(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return _without_formulas(_LINE_BREAK.sub("\n", cell)) if isinstance(cell, str) else str(cell)


def _without_formulas(text: str) -> str:
    # A `'` stands at every place where a cell could begin, all of which come to the formula.
    guarded = _BEFORE_FORMULA.sub(lambda before: _SEPARATOR.sub(r"\g<0>'", before[0]), text)
    return f"'{guarded}" if _BREAKS_FIRST.match(text) or _begins_formula(text) else guarded


def _begins_formula(text: str) -> bool:
    return _FORMULA_FIRST.match(text) is not None


def without_guards(text: str) -> str:
    """The text that `rows` has written as this cell."""
    begins = text.startswith("'") and (_begins_formula(text) or _BREAKS_FIRST.match(text, 1) is not None)
    plain = _BEFORE_FORMULA.sub(lambda before: _GUARDED_SEPARATOR.sub(r"\1", before[0]), text)
    return plain[1:] if begins else plain


def without_guard(text: str) -> str:
    """A cell of any other program, without a guard before a formula at its beginning."""
    return text[1:] if text.startswith("'") and _begins_formula(text) else text


def headers(file_name: str) -> dict[str, str]:
    """Of an answer that is a table: a browser saves it under that name (letters, digits, `-`)."""
    return {**disposition(f"{file_name}.csv"), **VARY}


VARY = {"Vary": "Accept"}
"""Of every answer of an operation that could have been a table."""
