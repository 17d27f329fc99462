"""Time zones by their IANA names, and which day it is in one."""

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
    """Return the zone of an IANA name. Raises `ValueError`."""
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
    """Tell what the name of a zone has to be, or return None for a valid one. Of names without a place only UTC is
    valid: `localtime` or `EST5EDT` differ between servers."""
    if name == "UTC" or ("/" in name and is_known(name)):
        return None
    return "the name of a time zone, such as Europe/Vienna"


def stored_zone(name: str | None) -> tzinfo:
    """Return the zone of a stored name. UTC without one, and if this server does not know it, which is logged."""
    try:
        return zone_of(name or "UTC")
    except ValueError:
        _tell_unknown(name)
        return UTC


@lru_cache(maxsize=1000)
def _tell_unknown(name: str | None) -> None:
    """Once for each name."""
    log.warning("time_zone_unknown", timezone=name)


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """Return UTC and the places that the server knows, without aliases."""
    names = {each for each in zoneinfo.available_timezones() if "/" in each}
    apart = ("Etc/", "SystemV/", "US/", "Canada/", "Brazil/", "Chile/", "Mexico/", "posix/", "right/")
    return ("UTC", *sorted(each for each in names if not each.startswith(apart)))


def day_in(at_ms: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(at_ms // 1000, zone).date()


def written_day(at_ms: int, zone: tzinfo) -> date:
    """Return the day of a value that can be a day or a moment. A bare day is the same in every zone."""
    return day_in(at_ms, UTC if is_day(at_ms) else zone)


def is_day(at_ms: int) -> bool:
    """Tell whether a value that can be a day or a moment is a bare day."""
    return at_ms % DAY_MS == 0


def start_of(day: date, zone: tzinfo) -> int:
    """Return the beginning of the day in the zone, in milliseconds since the epoch."""
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * 1000


def end_of(at_ms: int, zone: tzinfo) -> int:
    """Return the end of a due time: of a moment itself, of a bare day its end in the zone."""
    return start_of(day_in(at_ms, UTC) + timedelta(days=1), zone) if is_day(at_ms) else at_ms


def has_passed(at_ms: int, now_ms: int, zone: tzinfo) -> bool:
    """Tell whether a due time has passed. A bare day lasts until its end in the zone."""
    return end_of(at_ms, zone) <= now_ms


def moved_to(day: date, at_ms: int, zone: tzinfo) -> int:
    """Move to another day: a bare day becomes that day, a moment keeps its time of day in the zone."""
    return midnight_of(day) if is_day(at_ms) else at_same_time(day, at_ms, zone)


def at_same_time(day: date, at_ms: int, zone: tzinfo) -> int:
    """Return the moment on the day at the time of day that a moment has in the zone."""
    local = datetime.fromtimestamp(at_ms // 1000, zone)
    moved = local.replace(year=day.year, month=day.month, day=day.day)
    return round(moved.timestamp()) * 1000 + at_ms % 1000


def midnight_of(day: date) -> int:
    """Return a bare day as stored: its midnight in UTC, in milliseconds."""
    return (day - _EPOCH).days * DAY_MS
