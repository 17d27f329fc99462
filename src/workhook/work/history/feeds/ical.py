"""iCalendar (RFC 5545) output of due tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from workhook.core.clock import DAY_MS
from workhook.work.history.feeds.feeds import DueTask

MEDIA_TYPE = "text/calendar; charset=utf-8"
LINE_BYTES = 75
REFRESH = "PT1H"
"""The refresh interval suggested to clients."""

_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar_bytes(name: str, tasks: Iterable[DueTask], *, base: str) -> bytes:
    """Return a calendar with one event per task. `base` is prepended to the paths of pages."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Workhook//Workhook//EN", "CALSCALE:GREGORIAN"]
    lines += [f"NAME:{escape_text(name)}", f"X-WR-CALNAME:{escape_text(name)}"]
    lines += [f"REFRESH-INTERVAL;VALUE=DURATION:{REFRESH}", f"X-PUBLISHED-TTL:{REFRESH}"]
    for task in tasks:
        lines += _event(task, base)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line)).encode()


def _event(task: DueTask, base: str) -> Iterator[str]:
    """Yield the lines of an event. Without METHOD, DTSTAMP is the time of the last change (3.8.7.2)."""
    yield "BEGIN:VEVENT"
    yield f"UID:{task.id}@workhook"
    yield f"DTSTAMP:{_moment(task.updated_at)}"
    yield f"LAST-MODIFIED:{_moment(task.updated_at)}"
    yield _start(task.deadline)
    yield f"SUMMARY:{escape_text(task.title)}"
    yield f"DESCRIPTION:{escape_text(f'{task.project} · {task.column}')}"
    yield f"URL:{base}{task.page_path}"
    yield "TRANSP:TRANSPARENT"  # due dates do not mark the person as busy
    yield "END:VEVENT"


def _start(deadline: int) -> str:
    """Return the start of an event. A due date without a time becomes an all-day event."""
    if deadline % DAY_MS == 0:
        return f"DTSTART;VALUE=DATE:{_at(deadline):%Y%m%d}"
    return f"DTSTART:{_moment(deadline)}"


def _moment(at_ms: int) -> str:
    return f"{_at(at_ms):%Y%m%dT%H%M%SZ}"


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def escape_text(text: str) -> str:
    """Escape a TEXT value (3.3.11), and remove control characters."""
    return _CONTROLS.sub("", _LINE_BREAK.sub("\n", text)).translate(_ESCAPES)


def _folded(line: str) -> Iterator[str]:
    """Split a line between characters into parts of at most `LINE_BYTES`.

    Continuation parts begin with a space (3.1).
    """
    part, size = "", 0
    for each in line:
        length = len(each.encode())
        if size + length > LINE_BYTES:
            yield part
            part, size = " ", 1
        part += each
        size += length
    yield part
