"""Where the searched words stand in a text."""

from __future__ import annotations

import re

from workhook.work.search.schemas import folded

_EMPHASIS = re.compile(r"(\*\*|\*|`|~~)(?=\S)(.+?)(?<=\S)\1")
_LINE_SIGNS = re.compile(r"(?<!\S)(?:#{1,6}|>|\||:?-{3,}:?|[-*] \[[ x]\])(?!\S)")

Part = tuple[str, bool]
"""A piece of a text, and whether it is one of the words."""


def marked(text: str, words: str) -> list[Part]:
    """The text in pieces, all of it. `words` is what was searched for, as `match.words_of` made it."""
    wanted = sorted({folded(word) for word in words.split()}, key=len, reverse=True)
    if not wanted or not text:
        return [(text, False)]
    parts: list[Part] = []
    at = 0
    for found in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, wanted))})", folded(text)):
        parts += [(text[at : found.start()], False), (text[found.start() : found.end()], True)]
        at = found.end()
    return [part for part in [*parts, (text[at:], False)] if part[0]]


def without_signs(text: str) -> str:
    """The words of Markdown on one line, without the signs of emphasis, headings, checklists and tables."""
    plain = _EMPHASIS.sub(r"\2", text)
    return " ".join(_LINE_SIGNS.sub(" ", plain).split())
