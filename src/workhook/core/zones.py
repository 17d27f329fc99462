"""Time zones by IANA name, and calendar days in a time zone."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

import structlog

from workhook.core.clock import DAY_MS

NAME_MAX_CHARS = 64
_EPOCH = date(1970, 1, 1)

log = structlog.get_logger(__name__)


def zone_of(name: str) -> tzinfo:
    """Return the time zone with an IANA name. Raises `ValueError`."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error


def is_known(name: str) -> bool:
    try:
        zone_of(name)
    except ValueError:
        return False
    return True


def zone_fault(name: str) -> str | None:
    """Return the accepted values for a time zone name, or None if `name` is valid.

    UTC is the only valid name without a place, because others, such as `EST5EDT`, differ between servers.
    """
    if name == "UTC" or ("/" in name and is_known(name)):
        return None
    return "the name of a time zone, such as Europe/Vienna"


def zone_or_utc(name: str | None) -> tzinfo:
    """Return the time zone of a stored name, or UTC if it is None or, with a warning, unknown on this server."""
    try:
        return zone_of(name or "UTC")
    except ValueError:
        _warn_unknown(name)
        return UTC


@lru_cache(maxsize=1000)
def _warn_unknown(name: str | None) -> None:
    log.warning("time_zone_unknown", timezone=name)


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """Return UTC and the named places that the server knows, without aliases."""
    names = {each for each in zoneinfo.available_timezones() if "/" in each}
    apart = ("Etc/", "SystemV/", "US/", "Canada/", "Brazil/", "Chile/", "Mexico/", "posix/", "right/")
    return ("UTC", *sorted(each for each in names if not each.startswith(apart)))


def day_in(at_ms: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(at_ms // 1000, zone).date()


def calendar_day(at_ms: int, zone: tzinfo) -> date:
    """Return the day of a value that may be a day or a moment. A bare day is the same in every time zone."""
    return day_in(at_ms, UTC if is_day(at_ms) else zone)


def is_day(at_ms: int) -> bool:
    """Return whether a value that may be a day or a moment is a bare day."""
    return at_ms % DAY_MS == 0


def start_of(day: date, zone: tzinfo) -> int:
    """Return the start of the day in the time zone, in milliseconds since the epoch."""
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * 1000


def end_of(at_ms: int, zone: tzinfo) -> int:
    """Return when a due time ends: a moment at that moment, a bare day at the end of the day in the time zone."""
    return start_of(day_in(at_ms, UTC) + timedelta(days=1), zone) if is_day(at_ms) else at_ms


def moved_to(day: date, at_ms: int, zone: tzinfo) -> int:
    """Move to another day: a bare day becomes that day, and a moment keeps its time of day in the time zone."""
    return midnight_of(day) if is_day(at_ms) else at_same_time(day, at_ms, zone)


def at_same_time(day: date, at_ms: int, zone: tzinfo) -> int:
    """Return the moment on `day` with the time of day that `at_ms` has in the time zone."""
    local = datetime.fromtimestamp(at_ms // 1000, zone)
    moved = local.replace(year=day.year, month=day.month, day=day.day)
    return round(moved.timestamp()) * 1000 + at_ms % 1000


def midnight_of(day: date) -> int:
    """Return a bare day as stored: its midnight in UTC, in milliseconds."""
    return (day - _EPOCH).days * DAY_MS
