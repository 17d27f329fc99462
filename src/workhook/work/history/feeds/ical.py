"""iCalendar (RFC 5545): tasks that are due, as the lines of a calendar that other programs read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from workhook.core.clock import DAY_MS
from workhook.work.history.feeds.queries import DueTask

MEDIA_TYPE = "text/calendar; charset=utf-8"
LINE_BYTES = 75
REFRESH = "PT1H"
"""How often a program may ask again, as the calendar says."""

_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar_bytes(name: str, tasks: Iterable[DueTask], *, base: str) -> bytes:
    """A calendar with an event for each task. `base`: what addresses of pages begin with."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Workhook//Workhook//EN", "CALSCALE:GREGORIAN"]
    lines += [f"NAME:{escaped(name)}", f"X-WR-CALNAME:{escaped(name)}"]
    lines += [f"REFRESH-INTERVAL;VALUE=DURATION:{REFRESH}", f"X-PUBLISHED-TTL:{REFRESH}"]
    for task in tasks:
        lines += _event(task, base)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line)).encode()


def _event(task: DueTask, base: str) -> Iterator[str]:
    """The id of a task is random and stays, so it is one of a kind in the world. Without METHOD, DTSTAMP is when the
    event was last changed (3.8.7.2): it stays the same until then."""
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
    """A deadline at the beginning of a day (of UTC) has no time: it is the whole day. Others last no time at all."""
    if deadline % DAY_MS == 0:
        return f"DTSTART;VALUE=DATE:{_at(deadline):%Y%m%d}"
    return f"DTSTART:{_moment(deadline)}"


def _moment(at_ms: int) -> str:
    return f"{_at(at_ms):%Y%m%dT%H%M%SZ}"


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def escaped(text: str) -> str:
    """A value of type TEXT (3.3.11). Control characters have no place in one, nor has a line break of any kind: a
    program that splits the calendar at it would take the rest for a line of its own."""
    return _CONTROLS.sub("", _LINE_BREAK.sub("\n", text)).translate(_ESCAPES)


def _folded(line: str) -> Iterator[str]:
    """Parts of at most `LINE_BYTES`, without the end of the line; each but the first begins with a space (3.1). No
    character is cut."""
    part, size = "", 0
    for each in line:
        length = len(each.encode())
        if size + length > LINE_BYTES:
            yield part
            part, size = " ", 1
        part += each
        size += length
    yield part
