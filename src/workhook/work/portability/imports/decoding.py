"""The text of a table, whatever wrote it: UTF-8, UTF-16 with a byte order mark, or Windows-1252 where that is clear."""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from workhook.core.errors import Message, say, shown
from workhook.work.portability.imports.json_file import NotUsable, clean

# Letters of western Europe and the signs that stand in texts: euro, ellipsis, quotation marks, bullet, dashes, ™, œ.
# What else is there would rather be of another code page: an umlaut of a Macintosh reads as `Š`, one of DOS as a sign
# within a word, and Cyrillic as runs of letters.
# Icelandic is not told from Turkish and Lithuanian: their code pages have other letters at the places of `ð` and `þ`.
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


class Decoded(NamedTuple):
    """`remarks`: what there is to say of how it was read."""

    text: str
    remarks: list[Message]


def decoded(data: bytes) -> Decoded:
    """Raises `NotUsable` for what is neither, and for a NUL, which stands in no text."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    remarks = []
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        found = _western(data) if encoding == "utf-8-sig" else None
        if found is None:
            line = data.count(b"\n", 0, error.start) + 1
            raise NotUsable([say("line {}: it is not UTF-8; save the file as CSV in UTF-8", line)]) from None
        text = found
        remarks.append(say("it is not UTF-8 and was read as Windows-1252: {}", _example(text)))
    if (at := text.find("\0")) >= 0:
        line, column = place_in(text, at)
        raise NotUsable(
            [say("line {}, column {}: it has a NUL character; save the file as CSV in UTF-8", line, column)]
        )
    return Decoded(clean(text), remarks)


def _western(data: bytes) -> str | None:
    if _UTF_8.search(data):  # a part of it is UTF-8: the file is damaged, or a mixture
        return None
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    opened, closed = text.count("\u201e"), text.count("\u201c") + text.count("\u201d")
    in_pairs = opened <= closed and (opened + closed) % 2 == 0
    is_hungarian = _TILDED.search(text) and _DOTTED.search(text)  # its `ő` stands where the other has `õ`
    is_clear = (
        in_pairs
        and not is_hungarian
        and _PLAIN.fullmatch(text)
        and _ACCENT.search(text)
        and not _OF_OTHERS.search(text)
    )
    return text if is_clear else None


def _example(text: str) -> str:
    """Words that another code page would have made others of."""
    words = (found[0] for found in _WORD.finditer(text) if not found[0].isascii())
    first = list(dict.fromkeys(islice(words, 3)))
    return ", ".join(map(shown, first))


def place_in(text: str, at: int) -> tuple[int, int]:
    """The line and the column of a character, both from 1."""
    before = _BREAK.split(text[:at])
    return len(before), len(before[-1]) + 1
