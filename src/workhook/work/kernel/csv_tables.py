"""Tables as `text/csv` (RFC 4180): negotiation, and the encoding of cells."""

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

_FORMULA = "=+\\-@\uff1d\uff0b\uff0d\uff20"  # the first characters of formulas, also wide ones
# What may precede a formula: white space and quotes, with separators in between. It is matched as a whole, so that a
# long text of nothing else is read once. An apostrophe there is guarded as well, to distinguish it from a guard. The
# pattern starts with a set of characters, which `re` finds ten times as fast as a lookbehind.
_BEFORE_FORMULA = re.compile(rf"""[\s";'](?<![\s";'].)[\s";']*+(?=[{_FORMULA}])""", re.DOTALL)
_FORMULA_FIRST = re.compile(rf"""[\s";']*+[{_FORMULA}]""")
_BREAKS_FIRST = re.compile(r"'*[\t\r\n]")
_GUARDED_SEPARATOR = re.compile(r"([;\t\r\n])'")
_SEPARATOR = re.compile(r"[;\t\r\n]")
_LINE_BREAK = re.compile("[\u0085\u2028\u2029]")


def wants_csv(accept: str | None) -> bool:
    """Tell whether the `Accept` header prefers CSV to JSON (RFC 9110, 12.5.1)."""
    ranges = weighted(accept)
    wanted = max((weight for name, weight in ranges if name == MEDIA_TYPE), default=0.0)
    json = max((weight for name, weight in ranges if name == "application/json"), default=0.0)
    other = max((weight for name, weight in ranges if name in ("*/*", "application/*")), default=0.0)
    return wanted > json and wanted >= other


async def write_rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Run `rows` in a thread: a page of long texts takes longer than other requests should wait."""
    return await asyncio.to_thread(rows, cells)


def rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Encode rows as lines that end in CRLF, with a `'` before texts that a spreadsheet would take for formulas.

    These are at the beginning of a cell, or after a possible separator of cells: `;`, a tab or a line break. A text
    that begins with a tab or a line break gets a `'`, too.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([_plain(each) for each in row] for row in cells)
    return out.getvalue().encode()


def _plain(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return str(cell)
    text = _LINE_BREAK.sub("\n", cell)
    # A `'` is added at every place before the formula where a cell could begin.
    guarded = _BEFORE_FORMULA.sub(lambda before: _SEPARATOR.sub(r"\g<0>'", before[0]), text)
    return f"'{guarded}" if _BREAKS_FIRST.match(text) or _FORMULA_FIRST.match(text) else guarded


def without_guards(text: str) -> str:
    """Return the text that `rows` has written as this cell."""
    begins = text.startswith("'") and (_FORMULA_FIRST.match(text) or _BREAKS_FIRST.match(text, 1))
    plain = _BEFORE_FORMULA.sub(lambda before: _GUARDED_SEPARATOR.sub(r"\1", before[0]), text)
    return plain[1:] if begins else plain


def without_guard(text: str) -> str:
    """Return a cell of any other program without a guard before a formula at its beginning."""
    return text[1:] if text.startswith("'") and _FORMULA_FIRST.match(text) else text


def headers(file_name: str) -> dict[str, str]:
    """Return the headers of a table, which a browser saves under that name (letters, digits, `-`)."""
    return {**disposition(f"{file_name}.csv"), **VARY}


VARY = {"Vary": "Accept"}
"""The header of every answer of an operation that can answer a table."""
