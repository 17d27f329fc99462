"""Time zones by their IANA names, and which day it is in one."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache

from workhook.core.clock import DAY_MS

NAME_MAX_CHARS = 64
_EPOCH = date(1970, 1, 1)


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name. Raises `ValueError`."""
    if name == "UTC":  # also where no data of zones is installed
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error


def zone_fault(name: str) -> str | None:
    """What the name of a zone has to be, or None if it is that."""
    try:
        zone_of(name)
    except ValueError:
        return "the name of a time zone, such as Europe/Vienna"
    return None


def stored_zone(name: str | None) -> tzinfo:
    """Of a name that was checked when it was stored. UTC without one, and where this server does not know it."""
    try:
        return zone_of(name or "UTC")
    except ValueError:
        return UTC


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """Those to choose from: UTC, and the places that the server knows, without other names of the same kind."""
    names = {each for each in zoneinfo.available_timezones() if "/" in each}
    apart = ("Etc/", "SystemV/", "US/", "Canada/", "Brazil/", "Chile/", "Mexico/", "posix/", "right/")
    return ("UTC", *sorted(each for each in names if not each.startswith(apart)))


def day_in(at_ms: int, zone: tzinfo) -> date:
    """The day that it is then in the zone."""
    return datetime.fromtimestamp(at_ms // 1000, zone).date()


def written_day(at_ms: int, zone: tzinfo) -> date:
    """The day that is meant where a day can be given instead of a moment: a bare day is its midnight in UTC, and that
    day in every zone."""
    return day_in(at_ms, UTC if at_ms % DAY_MS == 0 else zone)


def midnight_of(day: date) -> int:
    """How a bare day is kept: its midnight in UTC, in milliseconds."""
    return (day - _EPOCH).days * DAY_MS
