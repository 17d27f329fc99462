"""A few words of a text, from around what was searched for in it."""

from __future__ import annotations

import re
import unicodedata

EXCERPT_CHARS = 200
_BEFORE = 60  # characters that are shown of what comes before the word
_SPACES = re.compile(r"\s+")
_MORE = "…"


def excerpt(text: str | None, words: str) -> str | None:
    """At most `EXCERPT_CHARS` in one line, with `…` where something is left out. None for no text.

    It starts a little before the first of `words` (as `match.words_of` makes them) that is found, else with the text.
    """
    line = _SPACES.sub(" ", text or "").strip()
    if not line:
        return None
    start = _start(line, words)
    if start:
        start = line.find(" ", start) + 1 or start  # with a whole word
    room = EXCERPT_CHARS - (len(_MORE) if start else 0)
    part = line[start : start + room]
    if start + room < len(line):
        part = part[: room - len(_MORE)].rstrip() + _MORE
    return _MORE + part if start else part


def _start(line: str, words: str) -> int:
    folded = "".join(map(_fold, line))
    places = [at for word in words.split() if (at := folded.find("".join(map(_fold, word)))) >= 0]
    first = min(places, default=0)
    return first - _BEFORE if first > _BEFORE else 0


def _fold(character: str) -> str:
    """One character for one, so that places stay: in lower case, a Latin letter without its accent."""
    lower = character.lower()
    base = unicodedata.normalize("NFD", lower)[:1]
    return base if base.isascii() else lower[:1]
