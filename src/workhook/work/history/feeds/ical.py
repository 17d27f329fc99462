"""iCalendar (RFC 5545): tasks that are due, as the lines of a calendar that other programs read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from workhook.core.clock import DAY_MS
from workhook.work.history.feeds.feeds import DueTask

MEDIA_TYPE = "text/calendar; charset=utf-8"
LINE_BYTES = 75
REFRESH = "PT1H"
"""The refresh interval in the calendar."""

_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar_bytes(name: str, tasks: Iterable[DueTask], *, base: str) -> bytes:
    """Return a calendar with an event for each task. `base`: the start of addresses of pages."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Workhook//Workhook//EN", "CALSCALE:GREGORIAN"]
    lines += [f"NAME:{escaped(name)}", f"X-WR-CALNAME:{escaped(name)}"]
    lines += [f"REFRESH-INTERVAL;VALUE=DURATION:{REFRESH}", f"X-PUBLISHED-TTL:{REFRESH}"]
    for task in tasks:
        lines += _event(task, base)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line)).encode()


def _event(task: DueTask, base: str) -> Iterator[str]:
    """Yield the lines of an event. Without METHOD, DTSTAMP is its last change (3.8.7.2)."""
    yield "BEGIN:VEVENT"
    yield f"UID:{task.id}@workhook"
    yield f"DTSTAMP:{_moment(task.updated_at)}"
    yield f"LAST-MODIFIED:{_moment(task.updated_at)}"
    yield _start(task.deadline)
    yield f"SUMMARY:{escaped(task.title)}"
    yield f"DESCRIPTION:{escaped(f'{task.project} · {task.column}')}"
    yield f"URL:{base}{task.path}"
    yield "TRANSP:TRANSPARENT"  # a deadline keeps nobody busy
    yield "END:VEVENT"


def _start(deadline: int) -> str:
    """Return an all-day start for a deadline without a time."""
    if deadline % DAY_MS == 0:
        return f"DTSTART;VALUE=DATE:{_at(deadline):%Y%m%d}"
    return f"DTSTART:{_moment(deadline)}"


def _moment(at_ms: int) -> str:
    return f"{_at(at_ms):%Y%m%dT%H%M%SZ}"


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def escaped(text: str) -> str:
    """Escape a value of type TEXT (3.3.11), without control characters and line breaks."""
    return _CONTROLS.sub("", _LINE_BREAK.sub("\n", text)).translate(_ESCAPES)


def _folded(line: str) -> Iterator[str]:
    """Split a line into parts of at most `LINE_BYTES` between characters; a space begins all but the first (3.1)."""
    part, size = "", 0
    for each in line:
        length = len(each.encode())
        if size + length > LINE_BYTES:
            yield part
            part, size = " ", 1
        part += each
        size += length
    yield part
