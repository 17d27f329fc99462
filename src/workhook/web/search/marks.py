"""Where the searched words stand in a text."""

from __future__ import annotations

import re

from workhook.work.history.search.match import MARK, PART_MIN
from workhook.work.history.search.schemas import fold, folded

_EMPHASIS = re.compile(r"(\*\*|\*|`|~~)(?=\S)(.+?)(?<=\S)\1")
_LINE_SIGNS = re.compile(r"(?<!\S)(?:#{1,6}|>|\||:?-{3,}:?|[-*] \[[ x]\])(?!\S)")

Part = tuple[str, bool]
"""A piece of a text, and whether it is one of the words."""


def marked(text: str, words: str, *, inside: bool = False) -> list[Part]:
    """The text in pieces, all of it. `words` is what was searched for, as `match.words_of` made it. `inside`: words are
    found inside of others, too."""
    wanted = sorted({folded(word.removeprefix(MARK)) for word in words.split()}, key=len, reverse=True)
    if not wanted or not text:
        return [(text, False)]
    parts: list[Part] = []
    at = 0
    whole = fold(text)
    # Short words are found where words begin, others also inside.
    each = (("" if len(word) >= PART_MIN and inside else r"(?<!\w)") + re.escape(word) for word in wanted)
    for found in re.finditer("|".join(each), whole.letters):
        start, end = whole.places[found.start()], whole.places[found.end() - 1] + 1
        if start < at:  # the second letter of one that is spelled with two
            continue
        parts += [(text[at:start], False), (text[start:end], True)]
        at = end
    return [part for part in [*parts, (text[at:], False)] if part[0]]


def without_signs(text: str) -> str:
    """The words of Markdown on one line, without the signs of emphasis, headings, checklists and tables."""
    plain = _EMPHASIS.sub(r"\2", text)
    return " ".join(_LINE_SIGNS.sub(" ", plain).split())
