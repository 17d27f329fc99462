"""The times and states of timesheets, as pure functions.

Times are in milliseconds since the epoch. Durations are in milliseconds but always whole seconds. A fraction of a
second never counts, so the same number is shown, summed and billed. See docs/integrators/behavior.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from workhook.core.clock import DAY_MS, MINUTE_MS, parse_rfc3339, to_millis_text
from workhook.core.errors import Conflict, Invalid, say
from workhook.core.records import Record, Stored
from workhook.work.kernel.durations import whole_seconds

DURATION_MAX_MS = 3660 * DAY_MS
"""Ten years, which keeps amounts and their sums within 64 bits."""
GIVEN_DURATION_MAX_MS = 31 * DAY_MS
"""The longest duration that a caller can give. A longer one is a mistake, mostly in the unit."""
AHEAD_MAX_MS = DAY_MS
"""The maximum by which a time may be ahead of the server's clock, because clocks and time zones differ."""

_LATEST = parse_rfc3339("9999-01-01T00:00:00Z")  # later times are not valid parameters


class Times(Record, frozen=True):
    """The times of a timesheet.

    Running: `is_active`, not `finished`. Paused: neither. Finished: `finished`, with an `end`. While it runs,
    `counted_ms` is the time before `running_since`.
    """

    start: Annotated[int, Stored("start_time")]
    end: Annotated[int | None, Stored("end_time")] = None
    running_since: int | None = None
    counted_ms: Annotated[int, Stored("duration_ms")] = 0
    is_active: bool = False
    finished: bool = False


class RequestedTimes(msgspec.Struct, frozen=True):
    """The times in a request; None if absent."""

    start: int | None = None
    end: int | None = None
    duration_ms: int | None = None

    def names(self) -> Sequence[str]:
        wanted = {"start_time": self.start, "end_time": self.end, "duration": self.duration_ms}
        return [name for name, value in wanted.items() if value is not None]


def elapsed_ms(times: Times, now: int) -> int:
    """Return the time counted until `now`, in whole seconds. Setting the clock back does not reduce it."""
    if times.running_since is None:
        return whole_seconds(times.counted_ms)
    return whole_seconds(times.counted_ms + max(0, now - times.running_since))


def started(at: int) -> Times:
    return Times(start=at, running_since=at, is_active=True)


def created(requested: RequestedTimes, now: int) -> Times:
    """Return the times of a new timesheet: finished if a duration or an end is given, otherwise a running timer.

    A duration alone is time that ended just now. Raises `Invalid`.
    """
    if requested.duration_ms is None and requested.end is None:
        begun = now if requested.start is None else requested.start
        _require_past(begun, now)
        return started(begun)
    if requested.duration_ms is None and requested.start is None:
        message = "start_time or duration is required with end_time"
        raise Invalid.at("start_time", message, code="missing")
    start, end = requested.start, requested.end
    if start is None:
        end = now if end is None else end
        start = end - (requested.duration_ms or 0)
    _require_near(requested, now)
    return _finished(start, end, requested.duration_ms, requested)


def paused(times: Times, now: int) -> Times:
    """Pause a timer, or return `times` itself if it is already paused. Raises `Conflict` if it is finished."""
    _require_unfinished(times)
    if not times.is_active:
        return times
    return Times(start=times.start, counted_ms=elapsed_ms(times, now))


def resumed(times: Times, now: int) -> Times:
    """Resume a timer, or return `times` itself if it is already running. Raises `Conflict` if it is finished."""
    _require_unfinished(times)
    if times.is_active:
        return times
    return Times(start=times.start, running_since=now, counted_ms=times.counted_ms, is_active=True)


def finished(times: Times, now: int) -> Times:
    """Finish a timer, or return `times` itself if it is already finished."""
    if times.finished:
        return times
    counted = elapsed_ms(times, now)
    return Times(start=times.start, end=max(now, times.start + counted), counted_ms=counted, finished=True)


def edited(times: Times, requested: RequestedTimes, now: int) -> Times:
    """Apply the given times, or return `times` itself if they change nothing. Raises `Invalid`.

    A duration or an end finishes a timer. A duration alone keeps the start and sets the end; a start or end alone
    recomputes the duration. Moving the start of a timer changes its counted time.
    """
    if _says_nothing_new(times, requested, now):
        return times
    _require_near(requested, now)
    start = times.start if requested.start is None else requested.start
    if requested.duration_ms is not None:
        return _finished(start, requested.end, requested.duration_ms, requested)
    if requested.end is not None or times.finished:
        return _finished(start, times.end if requested.end is None else requested.end, None, requested)
    _require_past(start, now)
    counted = whole_seconds(max(0, elapsed_ms(times, now) + times.start - start))
    since = now if times.is_active else None
    return Times(start=start, running_since=since, counted_ms=counted, is_active=times.is_active)


def _says_nothing_new(times: Times, requested: RequestedTimes, now: int) -> bool:
    return (
        requested.start in (None, times.start)
        and requested.end in (None, times.end)
        and (
            requested.duration_ms is None
            or (times.finished and whole_seconds(requested.duration_ms) == times.counted_ms)
        )
    )


def _finished(start: int, end: int | None, duration_ms: int | None, requested: RequestedTimes) -> Times:
    """Return finished times.

    Without an end, the duration determines it; without a duration, all the time between counts. Raises `Invalid`,
    naming a field that was given and so can be corrected by the caller.
    """
    if end is None:
        assert duration_ms is not None, "something finishes it"
        end = start + duration_ms
    if duration_ms is None:
        duration_ms = end - start
    names = requested.names()
    if end < start:
        raise _wrong("end_time" if requested.end is not None else names[0], "end_time must not be before start_time")
    if end - start > DURATION_MAX_MS:
        raise _wrong(names[0], say("a timesheet can span at most {} days", DURATION_MAX_MS // DAY_MS))
    if start < 0 or end >= _LATEST:
        raise _wrong(names[-1], "start_time and end_time must be from 1970 to 9998")
    if duration_ms > end - start:
        raise _wrong("duration", "duration must not be more than the time from start_time to end_time")
    return Times(start=start, end=end, counted_ms=whole_seconds(duration_ms), finished=True)


def _wrong(field: str, message: str) -> Invalid:
    return Invalid.at(field, message)


def _require_past(start: int, now: int) -> None:
    """Check the start of an unfinished timer. Because clocks differ, up to a minute ahead counts as now."""
    if start > now + MINUTE_MS:
        raise _wrong("start_time", "start_time of a timer that is not finished must not be in the future")
    if now - start > DURATION_MAX_MS:
        raise _wrong("start_time", say("a timesheet can span at most {} days", DURATION_MAX_MS // DAY_MS))


def _require_near(requested: RequestedTimes, now: int) -> None:
    for name, value in (("start_time", requested.start), ("end_time", requested.end)):
        if value is not None and value > now + AHEAD_MAX_MS:
            latest = to_millis_text(now + AHEAD_MAX_MS)
            raise _wrong(name, f"{name} must be at most a day ahead of the server's clock: until {latest}")


def _require_unfinished(times: Times) -> None:
    if times.finished:
        raise Conflict("The timesheet is finished and cannot be reopened.", code="finished")
