"""CSV responses (`text/csv`, RFC 4180): content negotiation and cell encoding."""

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

_FORMULA = "=+\\-@\uff1d\uff0b\uff0d\uff20"  # first characters of formulas, including fullwidth forms
# White space, quotes and separators may precede a formula. The whole run is matched at once, so that a long text
# consisting only of these is read once. Apostrophes in the run are guarded as well, to distinguish them from guards.
# The pattern starts with a character set, which `re` finds ten times faster than a lookbehind.
_BEFORE_FORMULA = re.compile(rf"""[\s";'](?<![\s";'].)[\s";']*+(?=[{_FORMULA}])""", re.DOTALL)
_FORMULA_FIRST = re.compile(rf"""[\s";']*+[{_FORMULA}]""")
_BREAKS_FIRST = re.compile(r"'*[\t\r\n]")
_GUARDED_SEPARATOR = re.compile(r"([;\t\r\n])'")
_SEPARATOR = re.compile(r"[;\t\r\n]")
_LINE_BREAK = re.compile("[\u0085\u2028\u2029]")


def wants_csv(accept: str | None) -> bool:
    """Return whether the `Accept` header prefers CSV to JSON (RFC 9110, section 12.5.1)."""
    ranges = weighted(accept)
    wanted = max((weight for name, weight in ranges if name == MEDIA_TYPE), default=0.0)
    json = max((weight for name, weight in ranges if name == "application/json"), default=0.0)
    other = max((weight for name, weight in ranges if name in ("*/*", "application/*")), default=0.0)
    return wanted > json and wanted >= other


async def write_rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Run `encode_rows` in a thread, because encoding a page of long texts would block the event loop."""
    return await asyncio.to_thread(encode_rows, cells)


def encode_rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Encode rows as lines that end in CRLF, with a `'` before text that a spreadsheet would treat as a formula.

    Guards are added at the start of a cell and after every character that a spreadsheet may take for a cell separator
    (`;`, tab or line break). Text starting with a tab or a line break is guarded too.
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
    # Guard every position before the formula where a cell could start.
    guarded = _BEFORE_FORMULA.sub(lambda before: _SEPARATOR.sub(r"\g<0>'", before[0]), text)
    return f"'{guarded}" if _BREAKS_FIRST.match(text) or _FORMULA_FIRST.match(text) else guarded


def decode_cell(text: str) -> str:
    """Decode the text of a cell written by `encode_rows`."""
    begins = text.startswith("'") and (_FORMULA_FIRST.match(text) or _BREAKS_FIRST.match(text, 1))
    plain = _BEFORE_FORMULA.sub(lambda before: _GUARDED_SEPARATOR.sub(r"\1", before[0]), text)
    return plain[1:] if begins else plain


def without_guard(text: str) -> str:
    """Remove the guard before a leading formula from a cell that another program wrote."""
    return text[1:] if text.startswith("'") and _FORMULA_FIRST.match(text) else text


def headers(file_name: str) -> dict[str, str]:
    """Return the headers of a CSV response. `file_name` may contain letters, digits and `-`."""
    return {**disposition(f"{file_name}.csv"), **VARY}


VARY = {"Vary": "Accept"}
"""Sent with every response of an operation that can return CSV."""
