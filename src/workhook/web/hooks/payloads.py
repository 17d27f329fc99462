"""Payloads and responses as text for a page.

JSON is indented and colored, invisible characters are escaped, and long texts are truncated.

Receivers and publishers write these texts, so nothing in them may act as markup or change the direction of the page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal

import msgspec
from markupsafe import Markup, escape

from workhook.core import json

SHOWN_MAX = 32 * 1024  # characters; the rest can be downloaded
INDENTED_MAX = 1024 * 1024  # bytes; more is cut before it is indented
DIFFERENCE_LINES_MAX = 400

_JOINER = "\u200d"  # holds emoji together
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(:?)|(true|false|null)|(-?\d[\d.eE+-]*)')
_PLAIN_SPACE = frozenset("\n\t\r")


class Shown(msgspec.Struct, frozen=True):
    """A text for a page.

    `size`: bytes of the original. `cut`: only the first `shown` of `all` characters are shown; both are 0 if they were
    not counted.
    """

    text: Markup
    size: int
    cut: bool = False
    shown: int = 0
    all: int = 0


@cache
def unseen() -> re.Pattern[str]:
    """Match characters that are invisible or affect how others are shown, such as controls and direction marks."""
    found = [
        chr(code)
        for code in [*range(0x3100), *range(0xD800, 0xF900), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200)]
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs")
    ]
    return re.compile("[" + "".join(re.escape(each) for each in found if each not in (*_PLAIN_SPACE, _JOINER)) + "]")


def visible(text: str) -> str:
    """Replace invisible characters with JSON escapes."""
    return text if text.isascii() and text.isprintable() else unseen().sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def pretty(value: object) -> Shown:
    """Return a value as indented and colored JSON."""
    return _pretty(json.encode(value))


def _pretty(encoded: bytes) -> Shown:
    if len(encoded) > INDENTED_MAX:
        part = _plain(encoded[: SHOWN_MAX * 4].decode("utf-8", "ignore"), len(encoded))
        return msgspec.structs.replace(part, cut=True, shown=0, all=0)
    found = json.indented(encoded)
    if found is None:
        return _plain(encoded.decode("utf-8", "replace"), len(encoded))
    text = visible(found)
    start = _beginning(text)
    return Shown(Markup("").join(_pieces(start)), len(encoded), len(start) < len(text), len(start), len(text))


def body_text(text: str) -> Shown:
    """Return a response body: JSON in the format of `pretty`, anything else unchanged."""
    size = len(text.encode())
    if text.lstrip()[:1] in ("{", "["):
        return msgspec.structs.replace(_pretty(text.encode()), size=size)
    return _plain(text, size)


def _plain(text: str, size: int) -> Shown:
    whole = visible(text)
    start = _beginning(whole)
    return Shown(escape(start), size, len(start) < len(whole), len(start), len(whole))


def _beginning(whole: str) -> str:
    """Truncate the text to `SHOWN_MAX`, at the end of a line if lines are short."""
    if len(whole) <= SHOWN_MAX:
        return whole
    end = whole.rfind("\n", SHOWN_MAX // 2, SHOWN_MAX)
    return whole[: end if end > 0 else SHOWN_MAX]


def _pieces(json_text: str) -> Iterator[Markup]:
    at = 0
    for token in _TOKEN.finditer(json_text):
        yield escape(json_text[at : token.start()])
        kind = "key" if token[2] else "string" if token[1] else "word" if token[3] else "number"
        yield Markup('<span class="j-{}">{}</span>{}').format(kind, token[1] or token[0], token[2] or "")
        at = token.end()
    yield escape(json_text[at:])


class Line(msgspec.Struct, frozen=True):
    kind: Literal["same", "first", "second"]
    text: str


def difference(first: str, second: str) -> list[Line]:
    """Compare both texts, truncated, line by line. Takes `DIFFERENCE_LINES_MAX` squared steps: call it in a thread."""
    old, new = (_lines(each[:SHOWN_MAX]) for each in (first, second))
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if start is None:
        start = min(len(old), len(new))
    same = [Line("same", each) for each in old[:start]]
    return [*same, *_merged(old[start:], new[start:])]


def _merged(old: list[str], new: list[str]) -> Iterator[Line]:
    """Merge the lines of both along their longest common subsequence. Lines of the first come first."""
    lengths = _common_lengths(old, new)
    i = j = 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            yield Line("same", old[i])
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            yield Line("first", old[i])
            i += 1
        else:
            yield Line("second", new[j])
            j += 1
    yield from (Line("first", each) for each in old[i:])
    yield from (Line("second", each) for each in new[j:])


def _common_lengths(old: list[str], new: list[str]) -> list[list[int]]:
    """Return the length of the longest common subsequence after each pair of positions."""
    lengths = [[0] * (len(new) + 1)]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(old + new))}
    right = [numbers[each] for each in reversed(new)]
    for line in reversed(old):
        left, below, row, last = numbers[line], lengths[-1], [0], 0
        diagonal = 0
        for at, each in enumerate(right, 1):
            over = below[at]
            last = diagonal + 1 if each == left else max(over, last)
            row.append(last)
            diagonal = over
        lengths.append(row)
    # Rows and columns are counted from the end.
    return [row[::-1] for row in reversed(lengths)]


def _lines(start: str) -> list[str]:
    indented = json.indented(start.encode("utf-8", "replace")) or start
    return visible(indented).split("\n")[:DIFFERENCE_LINES_MAX]
