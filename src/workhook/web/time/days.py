"""Days, weeks and periods, and times of day as the visitor's clock has them.

A script tells the server the browser's time zone by a cookie. Without it days are those of UTC, and the page says so.
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
from workhook.work.kernel.durations import AmbiguousNumber, display, typed_duration_ms

DAYS = 7
_YEARS = range(1970, 9999)


def zone_name(visit: Visit) -> str:
    """The IANA name of the zone: of the address, of the form that was sent, or of the cookie; otherwise `UTC`."""
    named = (visit.query("timezone"), visit.fields.get("timezone"), cookies.read(visit.call, COOKIE))
    return next((each for each in named if each and is_known(each)), "UTC")


def read_day(text: str) -> date | None:
    """A day of an address; None for what is none."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.year in _YEARS else None


class Week(NamedTuple):
    """From Monday to Sunday."""

    monday: date
    zone: tzinfo

    @property
    def days(self) -> list[date]:
        return [self.monday + timedelta(days=number) for number in range(DAYS)]

    @property
    def title(self) -> str:
        return span_name(self.monday, self.days[-1])

    @property
    def before(self) -> date:
        return self.monday - timedelta(days=DAYS)

    @property
    def after(self) -> date:
        return self.monday + timedelta(days=DAYS)

    @property
    def since_ms(self) -> int:
        return start_of(self.monday, self.zone)

    @property
    def to_ms(self) -> int:
        return start_of(self.after, self.zone)


def week_of(day: date, zone: tzinfo) -> Week:
    return Week(day - timedelta(days=day.weekday()), zone)


# --- fields of forms --------------------------------------------------------------------------------------------------


def field_text(at_ms: int | None, zone: tzinfo) -> str:
    """What a field of the type `datetime-local` holds."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms // 1000, zone).strftime("%Y-%m-%dT%H:%M")


def moment_text(field: str, zone: tzinfo) -> str:
    """RFC 3339 of what such a field holds. Whatever is no time stays as it is, for the API to say so."""
    try:
        local = datetime.fromisoformat(field)
        return local.replace(tzinfo=zone).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return field


def span_ms(start: str, end: str, zone: tzinfo) -> int | None:
    """Return the milliseconds between two such fields, or None if one of them is not a time."""
    try:
        first, last = (datetime.fromisoformat(each).replace(tzinfo=zone) for each in (start, end))
        return round((last.timestamp() - first.timestamp()) * 1000)
    except (ValueError, OverflowError):
        return None


def read_duration(text: str) -> int:
    """Milliseconds of a duration as `durations` reads it. Raises `Invalid`, also for no time at all."""
    try:
        spent = typed_duration_ms(text)
    except AmbiguousNumber as ambiguous:
        message = gettext("Write %(clock)s for %(number)d minutes, or %(number)dh for hours.")
        number = ambiguous.number
        raise _no_duration(message % {"clock": display(number * MINUTE_MS), "number": number}) from None
    if spent is None:
        raise _no_duration(gettext("Write the duration as hours and minutes, such as 1:30, or as hours, such as 1.5"))
    if not spent:
        raise _no_duration(gettext("Write a duration of more than 0, such as 0:30 for half an hour."))
    return spent


def _no_duration(message: str) -> Invalid:
    return Invalid(faults=[Fault(field="duration", message=message)])


PERIOD_MAX_DAYS = 366
PERIODS = {
    "week": text("This week"),
    "last-week": text("Last week"),
    "month": text("This month"),
    "last-month": text("Last month"),
}


class Period(NamedTuple):
    """From the first day to the last one, which belongs to it."""

    first: date
    last: date

    @property
    def after(self) -> date:
        """The day behind it."""
        return self.last + timedelta(days=1)

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=number) for number in range((self.after - self.first).days)]

    def since_ms(self, zone: tzinfo) -> int:
        return start_of(self.first, zone)

    def to_ms(self, zone: tzinfo) -> int:
        return start_of(self.after, zone)


def period_named(name: str, today: date) -> Period:
    """The period of a name of `PERIODS`; of another one, this week."""
    monday = today - timedelta(days=today.weekday())
    if name == "last-week":
        return Period(monday - timedelta(days=DAYS), monday - timedelta(days=1))
    if name == "month":
        return _month_of(today)
    if name == "last-month":
        return _month_of(today.replace(day=1) - timedelta(days=1))
    return Period(monday, monday + timedelta(days=DAYS - 1))


def _month_of(day: date) -> Period:
    return Period(day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1]))


def read_period(first: str, last: str) -> Period:
    """The period of two fields. Raises `Invalid` with a fault for each field that is wrong."""
    days = {"from": read_day(first), "to": read_day(last)}
    message = gettext("Choose a day, such as 2026-01-31")
    faults = [Fault(field=name, message=message) for name, day in days.items() if day is None]
    since, to = days["from"], days["to"]
    if since is not None and to is not None:
        if to < since:
            faults.append(Fault(field="to", message=gettext("The last day must not be before the first one")))
        elif (to - since).days >= PERIOD_MAX_DAYS:
            longest = gettext("A report spans at most %(days)d days") % {"days": PERIOD_MAX_DAYS}
            faults.append(Fault(field="to", message=longest))
        else:
            return Period(since, to)
    raise Invalid(faults=faults)


def period_name(period: Period, today: date) -> str:
    """The name under which the period is known today; empty if it has none."""
    return next((each for each in PERIODS if period_named(each, today) == period), "")
