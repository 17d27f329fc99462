"""The format of an account's invoice numbers: text with `{number}` and perhaps `{year}`. Pure.

It is users' text, so it is read by this parser, and never by Python's formatting.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from workhook.http.parameters import Checked, Prepared

DEFAULT_FORMAT = "INV-{number:05}"
FORMAT_MAX_CHARS = 40

_FIELD = re.compile(r"\{(?:year|number(?::0([1-9]))?)\}")
_YEAR = "{year}"


class NumberFormat(msgspec.Struct, frozen=True):
    """A format that `format_fault` has nothing against."""

    text: str = DEFAULT_FORMAT

    @property
    def is_yearly(self) -> bool:
        """Numbers start anew each year."""
        return _YEAR in self.text

    def number_text(self, number: int, year: int) -> str:
        """`INV-00001`."""

        def filled(found: re.Match[str]) -> str:
            return str(year) if found[0] == _YEAR else str(number).zfill(int(found[1] or 1))

        return _FIELD.sub(filled, self.text)


def format_fault(text: str) -> str | None:
    """What a format has to be, or None if it is that."""
    fields = [found[0] for found in _FIELD.finditer(text)]
    rest = _FIELD.sub("", text)
    numbers = len(fields) - fields.count(_YEAR)
    if numbers != 1 or fields.count(_YEAR) > 1 or "{" in rest or "}" in rest or not text.isprintable():
        return (
            "text with {number} once (or {number:05} for at least five digits, at most {number:09}), and at most once "
            "{year}, such as INV-{number:05} or {year}-{number:04}; no other braces"
        )
    return None


NumberFormatText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=FORMAT_MAX_CHARS,
        description="With `{number}` or `{number:05}`; with `{year}`, numbers start anew each year (of `timezone`).",
    ),
    Prepared(str.strip),
    Checked(format_fault),
]
