"""What was sent and answered, as text that can be shown: JSON is indented and coloured, what cannot be seen is written
as an escape, and what is long is cut.

Receivers and publishers write these texts, so nothing in them may act: not as markup, and not on the direction in which
the page is read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from workhook.core import json

if TYPE_CHECKING:
    from markupsafe import Markup

SHOWN_MAX = 32 * 1024  # characters; the rest can be downloaded
INDENTED_MAX = 1024 * 1024  # bytes; more is cut before it is indented
DIFFERENCE_LINES_MAX = 400

_JOINER = "\u200d"  # holds emoji together
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(:?)|(true|false|null)|(-?\d[\d.eE+-]*)')
_PLAIN_SPACE = frozenset("\n\t\r")


class Shown(msgspec.Struct, frozen=True):
    """A text for a page. `size`: bytes of the whole, as it was sent; `cut`: this is only its beginning, the first
    `shown` of `all` characters; 0: they were not counted."""

    text: Markup
    size: int
    cut: bool = False
    shown: int = 0
    all: int = 0


@cache
def unseen() -> re.Pattern[str]:
    """Characters that are not seen, or that change how others are: controls, marks of direction, and the like."""
    found = [
        chr(code)
        for code in [*range(0x3100), *range(0xD800, 0xF900), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200)]
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs")
    ]
    return re.compile("[" + "".join(re.escape(each) for each in found if each not in (*_PLAIN_SPACE, _JOINER)) + "]")


def visible(text: str) -> str:
    """The text with what cannot be seen as escapes of JSON: in a string of JSON they mean the same."""
    return text if text.isascii() and text.isprintable() else unseen().sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def pretty(value: object) -> Shown:
    """JSON, indented and coloured."""
    encoded = json.encode(value)
    if len(encoded) > INDENTED_MAX:
        part = _plain(encoded[: SHOWN_MAX * 4].decode("utf-8", "ignore"), len(encoded))
        return msgspec.structs.replace(part, cut=True, shown=0, all=0)
    text = visible(msgspec.json.format(encoded, indent=2).decode())
    start = _beginning(text)
    return Shown(_coloured(start), len(encoded), len(start) < len(text), len(start), len(text))


def body_text(text: str) -> Shown:
    """What a receiver answered: JSON as `pretty` shows it, everything else as it came."""
    size = len(text.encode())
    if text.lstrip()[:1] in ("{", "["):
        try:
            value: Any = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return _plain(text, size)
        return msgspec.structs.replace(pretty(value), size=size)
    return _plain(text, size)


def _plain(text: str, size: int) -> Shown:
    from markupsafe import escape

    whole = visible(text)
    start = _beginning(whole)
    return Shown(escape(start), size, len(start) < len(whole), len(start), len(whole))


def _beginning(text: str) -> str:
    """So much of it as is shown, in whole lines where lines are short."""
    if len(text) <= SHOWN_MAX:
        return text
    end = text.rfind("\n", SHOWN_MAX // 2, SHOWN_MAX)
    return text[: end if end > 0 else SHOWN_MAX]


def _coloured(text: str) -> Markup:
    from markupsafe import Markup

    return Markup("").join(_pieces(text))


def _pieces(text: str) -> Iterator[Markup]:
    from markupsafe import Markup, escape

    at = 0
    for token in _TOKEN.finditer(text):
        yield escape(text[at : token.start()])
        kind = "key" if token[2] else "string" if token[1] else "word" if token[3] else "number"
        yield Markup('<span class="j-{}">{}</span>{}').format(kind, token[1] or token[0], token[2] or "")
        at = token.end()
    yield escape(text[at:])


class Line(msgspec.Struct, frozen=True):
    """A line of a difference."""

    kind: Literal["same", "first", "second"]
    text: str


def difference(first: str, second: str) -> list[Line]:
    """Both texts, line by line; the beginning of long ones."""
    old, new = (visible(_indented(each)).split("\n")[:DIFFERENCE_LINES_MAX] for each in (first, second))
    lines: list[Line] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [Line("same", each) for each in old[i:j]]
            continue
        lines += [Line("first", each) for each in old[i:j]]
        lines += [Line("second", each) for each in new[k:m]]
    return lines


def _indented(text: str) -> str:
    try:
        return msgspec.json.format(text[:SHOWN_MAX], indent=2)
    except msgspec.DecodeError:
        return text[:SHOWN_MAX]
