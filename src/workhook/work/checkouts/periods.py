"""The calendar of subscriptions, in UTC: pure functions over milliseconds since the epoch.

The ends of periods are counted from an anchor, so that they do not drift: a monthly subscription of 31 January ends
its periods on 28 February, 31 March, 30 April.
"""

from __future__ import annotations

import calendar
from datetime import UTC, datetime

from workhook.core.clock import DAY_MS
from workhook.work.services.rules import Interval

_MONTHS: dict[Interval, int] = {"month": 1, "year": 12}


def add_months(at: int, months: int) -> int:
    """The same day and time of day so many months later, or the last day of a month that is shorter."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    moved = moment.replace(year=year, month=month + 1, day=day)
    return int(moved.timestamp()) * 1000 + at % 1000


def period_end(anchor: int, interval: Interval, number: int) -> int | None:
    """When the period of this number (from 1) after the anchor ends; None for what is paid once."""
    if interval == "one_time":
        return None
    if interval == "week":
        return anchor + number * 7 * DAY_MS
    return add_months(anchor, number * _MONTHS[interval])


def months_between(start: int, end: int) -> int:
    """Whole months from `start` to `end`; 0 if `end` is not behind `start`."""
    first, last = datetime.fromtimestamp(start // 1000, UTC), datetime.fromtimestamp(end // 1000, UTC)
    months = (last.year - first.year) * 12 + last.month - first.month
    return max(0, months if add_months(start, months) <= end else months - 1)


def days_left(now: int, end: int) -> int:
    """Days until `end`, of which one that has begun counts; 0 when it is over."""
    return max(0, -((now - end) // DAY_MS))
