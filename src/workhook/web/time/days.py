"""Days, weeks, periods and times of day in the visitor's time zone.

A script stores the browser's time zone in a cookie. Without it, pages use UTC and say so.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple

from workhook.core.clock import MINUTE_MS
from workhook.core.errors import Fault, Invalid
from workhook.core.zones import is_known, start_of
from workhook.web.frame import cookies
from workhook.web.frame.formats import COOKIE, span_name
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext, text
from workhook.work.kernel.durations import AmbiguousNumber, format_duration, typed_duration_ms

DAYS = 7
_YEARS = range(1969, 9999)  # the first week of 1970 begins in 1969


def zone_name(visit: Visit) -> str:
    """Return the IANA name of the time zone from the query, the form or the cookie; otherwise `UTC`."""
    named = (visit.query("timezone"), visit.fields.get("timezone"), cookies.read(visit.call, COOKIE))
    return next((each for each in named if each and is_known(each)), "UTC")


def read_day(text: str) -> date | None:
    """Parse an ISO date, or return None if it is invalid."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.year in _YEARS else None


# --- fields of forms --------------------------------------------------------------------------------------------------


def field_text(at_ms: int | None, zone: tzinfo) -> str:
    return "" if at_ms is None else datetime.fromtimestamp(at_ms // 1000, zone).strftime("%Y-%m-%dT%H:%M")


def moment_text(field: str, zone: tzinfo) -> str:
    """Convert a `datetime-local` value to RFC 3339. Invalid text is returned unchanged, for the API to reject."""
    try:
        local = datetime.fromisoformat(field)
        return local.replace(tzinfo=zone).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return field


def span_ms(start: str, end: str, zone: tzinfo) -> int | None:
    """Return the milliseconds between two `datetime-local` values, or None if one of them is invalid."""
    try:
        first, last = (datetime.fromisoformat(each).replace(tzinfo=zone) for each in (start, end))
        return round((last.timestamp() - first.timestamp()) * 1000)
    except (ValueError, OverflowError):
        return None


def read_duration(text: str) -> int:
    """Parse a duration into milliseconds. Raises `Invalid`, also for zero."""
    try:
        spent = typed_duration_ms(text)
    except AmbiguousNumber as ambiguous:
        message = gettext("Enter %(clock)s for %(number)d minutes, or %(number)dh for hours.")
        number = ambiguous.number
        raise _no_duration(message % {"clock": format_duration(number * MINUTE_MS), "number": number}) from None
    if spent is None:
        raise _no_duration(gettext("Enter hours and minutes, such as 1:30, or hours, such as 1.5."))
    if not spent:
        raise _no_duration(gettext("Enter a duration longer than 0, such as 0:30 for half an hour."))
    return spent


def _no_duration(message: str) -> Invalid:
    return Invalid.at("duration", message)


PERIOD_MAX_DAYS = 366
PERIODS = {
    "week": text("This week"),
    "last-week": text("Last week"),
    "month": text("This month"),
    "last-month": text("Last month"),
}


class Period(NamedTuple):
    """The days from the first to the last, inclusive."""

    first: date
    last: date

    @property
    def after(self) -> date:
        return self.last + timedelta(days=1)

    @property
    def before(self) -> date:
        return self.first - timedelta(days=DAYS)

    @property
    def title(self) -> str:
        return span_name(self.first, self.last)

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=number) for number in range((self.after - self.first).days)]

    def since_ms(self, zone: tzinfo) -> int:
        return start_of(self.first, zone)

    def to_ms(self, zone: tzinfo) -> int:
        return start_of(self.after, zone)


def period_named(name: str, today: date) -> Period:
    """Return the period with a name of `PERIODS`, by default this week."""
    if name == "last-week":
        return week_of(today - timedelta(days=DAYS))
    if name == "month":
        return _month_of(today)
    if name == "last-month":
        return _month_of(today.replace(day=1) - timedelta(days=1))
    return week_of(today)


def week_of(day: date) -> Period:
    monday = day - timedelta(days=day.weekday())
    return Period(monday, monday + timedelta(days=DAYS - 1))


def _month_of(day: date) -> Period:
    return Period(day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1]))


def read_period(first: str, last: str) -> Period:
    """Parse the fields `from` and `to`. Raises `Invalid` with an error for each wrong field."""
    days = {"from": read_day(first), "to": read_day(last)}
    message = gettext("Enter a date such as 2026-01-31.")
    faults = [Fault(field=name, message=message) for name, day in days.items() if day is None]
    since, to = days["from"], days["to"]
    if since is not None and to is not None:
        if to < since:
            faults.append(Fault(field="to", message=gettext("The last day can’t be before the first day.")))
        elif (to - since).days >= PERIOD_MAX_DAYS:
            longest = gettext("A report can cover at most %(days)d days.", days=PERIOD_MAX_DAYS)
            faults.append(Fault(field="to", message=longest))
        else:
            return Period(since, to)
    raise Invalid(faults=faults)


def period_name(period: Period, today: date) -> str:
    """Return the name in `PERIODS` that matches the period today, or an empty string."""
    return next((each for each in PERIODS if period_named(each, today) == period), "")
