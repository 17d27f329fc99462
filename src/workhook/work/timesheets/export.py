"""Tables as `text/csv` (RFC 4180), and who asks for one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal

MEDIA_TYPE = "text/csv"

Cell = str | int | Decimal | bool | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # also as wide characters


def wants_csv(accept: str | None) -> bool:
    """Whether the `Accept` header names CSV, and JSON not before it (RFC 9110, 12.5.1)."""
    ranges = [_range(each) for each in (accept or "").split(",")]
    wanted = max((weight for name, weight in ranges if name == MEDIA_TYPE), default=0.0)
    json = max((weight for name, weight in ranges if name == "application/json"), default=0.0)
    other = max((weight for name, weight in ranges if name in ("*/*", "application/*")), default=0.0)
    return wanted > json and wanted >= other


def _range(text: str) -> tuple[str, float]:
    """Its weight is 1 unless `q` says something else; 0 if that is no number."""
    name, *parameters = (each.strip().lower() for each in text.split(";"))
    weight = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
    digits = weight.replace(".", "", 1)
    return name, min(float(weight), 1.0) if digits.isascii() and digits.isdigit() else 0.0


def rows(cells: Iterable[Sequence[Cell]]) -> bytes:
    """Lines that end in CRLF. A text that a spreadsheet would take for a formula gets a leading `'`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([_plain(each) for each in row] for row in cells)
    return out.getvalue().encode()


def _plain(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(_FORMULA) else cell
    return str(cell)


def headers(file_name: str) -> dict[str, str]:
    """Of an answer that is a table: a browser saves it under that name (letters, digits, `-`)."""
    return {"Content-Disposition": f'attachment; filename="{file_name}.csv"', **VARY}


VARY = {"Vary": "Accept"}
"""Of every answer of an operation that could have been a table."""
