"""The period of a report: a week or a month that has a name, or from one day to another."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta, tzinfo
from typing import NamedTuple

from workhook.core.errors import Fault, Invalid
from workhook.core.zones import start_of
from workhook.web.frame.texts import gettext, text
from workhook.web.time.days import DAYS, read_day

DAYS_MAX = 366
NAMES = {
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


def named(name: str, today: date) -> Period:
    """The period of a name of `NAMES`; of another one, this week."""
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
        elif (to - since).days >= DAYS_MAX:
            longest = gettext("A report spans at most %(days)d days") % {"days": DAYS_MAX}
            faults.append(Fault(field="to", message=longest))
        else:
            return Period(since, to)
    raise Invalid(faults=faults)


def name_of(period: Period, today: date) -> str:
    """The name under which the period is known today; empty if it has none."""
    return next((each for each in NAMES if named(each, today) == period), "")
