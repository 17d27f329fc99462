"""Days, months and spans of days in the reader's language."""

from __future__ import annotations

from datetime import date

from workhook.web.frame.texts import gettext


def span_name(first: date, last: date) -> str:
    """Both days, with the year of the last: `November 23 to November 29 2026`."""
    return gettext("%(first)s to %(last)s") % {"first": day_name(first), "last": f"{day_name(last)} {last.year}"}


def day_name(day: date) -> str:
    """The day and the month in the reader's language."""
    return gettext("%(month)s %(day)s") % {"month": month_names()[day.month - 1], "day": day.day}


def weekday_names() -> list[str]:
    return [
        gettext("Monday"),
        gettext("Tuesday"),
        gettext("Wednesday"),
        gettext("Thursday"),
        gettext("Friday"),
        gettext("Saturday"),
        gettext("Sunday"),
    ]


def month_names() -> list[str]:
    return [
        gettext("January"),
        gettext("February"),
        gettext("March"),
        gettext("April"),
        gettext("May"),
        gettext("June"),
        gettext("July"),
        gettext("August"),
        gettext("September"),
        gettext("October"),
        gettext("November"),
        gettext("December"),
    ]
