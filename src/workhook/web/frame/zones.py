"""The reader's time zone. A script tells it to the server by a cookie; without one it is UTC."""

from __future__ import annotations

from datetime import UTC, date, tzinfo

from workhook.core.clock import now_ms
from workhook.core.zones import day_in, is_known, written_day, zone_of
from workhook.http.calls import current
from workhook.web.frame import cookies

COOKIE = "workhook_timezone"


def reader_zone() -> tzinfo:
    """The zone of the reader whose request is being answered. UTC outside a request."""
    call = current()
    name = cookies.read(call, COOKIE) if call is not None else None
    return zone_of(name) if name and is_known(name) else UTC


def today() -> date:
    """The reader's day now."""
    return day_in(now_ms(), reader_zone())


def shown_day(at_ms: int) -> date:
    """The day to show for a value that may be a bare day: that day for every reader, otherwise the reader's day of the
    moment."""
    return written_day(at_ms, reader_zone())
