"""Texts and times of another service, brought into the limits of this one."""

from __future__ import annotations

import re

from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS
from workhook.http.values import read_day_or_moment

NAMELESS = "(no name)"
_MARK = "…"  # where something was cut
_OBJECT_ID = re.compile(r"[0-9a-f]{24}")


def title_of(text: str, otherwise: str = NAMELESS, limit: int = TITLE_MAX_CHARS) -> str:
    """Trimmed, of at most `limit` characters, and never empty."""
    title = text.strip()
    if len(title) > limit:
        title = title[: limit - len(_MARK)].rstrip() + _MARK
    return title or otherwise


def is_cut(text: str, limit: int = TITLE_MAX_CHARS) -> bool:
    """Whether `title_of` leaves something out."""
    return len(text.strip()) > limit


def within(text: str, limit_bytes: int = TEXT_MAX_BYTES) -> str:
    """At most so many bytes of UTF-8, cut between characters."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    if limit_bytes < len(_MARK.encode()):
        return ""
    return data[: limit_bytes - len(_MARK.encode())].decode(errors="ignore") + _MARK


class Distinct:
    """Makes names unlike those it made before: `name`, `name (2)`, `name (3)` …"""

    def __init__(self, limit: int = TITLE_MAX_CHARS) -> None:
        self._limit = limit
        self._last: dict[str, int] = {}  # names that were given out, and the number that was last tried for each

    def __call__(self, name: str) -> str:
        found = name
        while found in self._last:
            self._last[name] += 1
            suffix = f" ({self._last[name]})"
            found = name[: self._limit - len(suffix)] + suffix
        self._last[found] = 1
        return found


def moment_of(text: str) -> int | None:
    """Milliseconds since the epoch; None for what is no time or day from 1970 to 9998."""
    try:
        return read_day_or_moment(text)
    except ValueError:
        return None


def moment_of_id(external_id: str) -> int | None:
    """Trello's ids begin with the second in which they were made, in eight hexadecimal digits."""
    return int(external_id[:8], 16) * 1000 if _OBJECT_ID.fullmatch(external_id) else None
