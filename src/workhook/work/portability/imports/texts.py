"""Conversion of texts from other services, shared by all sources: titles, names, times, and size limits of tasks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from workhook.core.errors import Message, say, shown
from workhook.core.text import one_line
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS
from workhook.http.wire_types import read_day_or_moment
from workhook.work.board.tasks.inputs import KEYS_MAX
from workhook.work.board.tasks.schemas import Level
from workhook.work.portability.imports.words import has_meaning, level_of, plain_name, says_more

T = TypeVar("T")

KEY_MAX_CHARS = 1_000
LABELS_MAX = PEOPLE_MAX = 100  # as in `TaskContent`
PROPERTIES_MAX_BYTES = 256 * 1024  # for all fields and sections of a task, since every event of the task includes them

NAMELESS = "(no name)"
_MARK = "…"  # marks omitted text
_OBJECT_ID = re.compile(r"[0-9a-f]{24}")


def title_of(text: str, otherwise: str = NAMELESS, limit: int = TITLE_MAX_CHARS) -> str:
    """Return the text as one line of at most `limit` characters, which is never empty."""
    title = one_line(text)
    if len(title) > limit:
        title = title[: limit - len(_MARK)].rstrip() + _MARK
    return title or otherwise


def is_cut(text: str, limit: int = TITLE_MAX_CHARS) -> bool:
    """Return whether `title_of` would truncate the text."""
    return len(one_line(text)) > limit


def truncate_bytes(text: str, limit_bytes: int = TEXT_MAX_BYTES) -> str:
    """Truncate the text to `limit_bytes` of UTF-8, between characters."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    if limit_bytes < len(_MARK.encode()):
        return ""
    return data[: limit_bytes - len(_MARK.encode())].decode(errors="ignore") + _MARK


class UniqueNames:
    """A generator of distinct names: `name`, `name (2)`, `name (3)` …"""

    def __init__(self, limit: int = TITLE_MAX_CHARS) -> None:
        self._limit = limit
        self._last: dict[str, int] = {}  # names in use, each with the last number tried

    def __call__(self, name: str) -> str:
        found = name
        while found in self._last:
            self._last[name] += 1
            suffix = f" ({self._last[name]})"
            found = name[: self._limit - len(suffix)] + suffix
        self._last[found] = 1
        return found


def parse_moment(text: str) -> int | None:
    """Return milliseconds since the epoch, or None if the text is not a time or day from 1970 to 9998."""
    try:
        return read_day_or_moment(text)
    except ValueError:
        return None


def deadline_of(text: str, field: str, warn: ThingWarnings) -> int | None:
    """Return the due date, or None with a warning if it is invalid.

    `field` is the field of the task that keeps the text.
    """
    found = parse_moment(text)
    if text and found is None:
        warn(say("its due date “{}” is not a valid date or time and is kept in the field {}", shown(text), field))
    return found


def moment_of_id(external_id: str) -> int | None:
    """Return the time encoded in a Trello ID, whose first eight hexadecimal digits are seconds since the epoch."""
    return int(external_id[:8], 16) * 1000 if _OBJECT_ID.fullmatch(external_id) else None


def priority_in(fields: Sequence[tuple[str, str]]) -> tuple[Level | None, list[tuple[str, str]]]:
    """Return the level of the first priority field, and the other fields.

    The priority field itself is also returned if it contains more than its level.
    """
    for at, (name, text) in enumerate(fields):
        if has_meaning("priority", name) and (found := level_of(text)):
            return found, list(fields) if says_more(text) else [*fields[:at], *fields[at + 1 :]]
    return None, list(fields)


def unknown_names(done: Collection[str], names: Iterable[str], kind: str) -> list[Message]:
    """Return warnings about names in `done` that do not match any column."""
    plain = {plain_name(each) for each in names}
    return [say("unknown {} “{}”", kind, shown(each)) for each in done if plain_name(each) not in plain]


def described(kind: str, name: str, text: str, warn: ThingWarnings) -> str | None:
    """Return a task's description. It starts with the full name if the name is too long for a title."""
    if is_cut(name):
        warn(
            say(
                "its {} is shortened to {} characters; the full text is at the start of the description",
                kind,
                TITLE_MAX_CHARS,
            )
        )
        text = f"{name.strip()}\n\n{text}".rstrip()
    kept = truncate_bytes(text)
    if kept != text:
        warn(say("its description is shortened to {} KiB", TEXT_MAX_BYTES // 1024))
    return kept if kept.strip() else None


def first_of(things: list[T], most: int, message: Message, warn: ThingWarnings) -> list[T]:
    if len(things) > most:
        warn(say("only {} of its {} are kept", most, message))
    return things[:most]


class ThingWarnings:
    """Distinct warnings about one card or task. `kind` is the source's word for it."""

    def __init__(self, kind: str, name: str, warnings: list[Message]) -> None:
        self._kind, self._name = kind, shown(name.strip() or NAMELESS)
        self._warnings = warnings
        self._known: set[str] = set()

    def __call__(self, message: Message) -> None:
        if message not in self._known:
            self._known.add(message)
            self._warnings.append(say(f"{self._kind} “{{}}”: {{}}", self._name, message))


class PropertyBudget:
    """The remaining space for the fields and sections of one task."""

    def __init__(self, warn: ThingWarnings) -> None:
        self.warn = warn
        self._left_bytes = PROPERTIES_MAX_BYTES

    def take_whole(self, text: str) -> bool:
        size = len(text.encode())
        if size > self._left_bytes:
            return False
        self._left_bytes -= size
        return True

    def take(self, text: str, name: str) -> str:
        kept = truncate_bytes(text, min(TEXT_MAX_BYTES, self._left_bytes))
        self._left_bytes -= len(kept.encode())
        if kept != text:
            self.warn(say("the field “{}” is shortened", shown(name)))
        return kept

    def take_key(self, taken: int, most: int, message: Message) -> bool:
        if taken < most:
            return True
        self.warn(say("only {} of its {} are kept", most, message))
        return False

    def fields(self, named: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the fields of a task without empty ones."""
        found: dict[str, str] = {}
        name_of = UniqueNames()
        for name, text in named:
            # One key is reserved for people without an account.
            if text and self.take_key(len(found), KEYS_MAX - 1, say("fields")):
                found[name_of(name)] = self.take(text, name)
        return found
