"""What the calendar shows: the days of a month or a week, and what is due on each. A deadline that is a
day is on that day for every reader, one with a time on the reader's day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import msgspec

from workhook.core.clock import now_ms
from workhook.core.zones import midnight_of, start_of
from workhook.identity.queries import key_of
from workhook.web.frame.dates import day_name, month_names, span_name, weekday_names
from workhook.web.frame.places import Visit
from workhook.web.frame.zones import reader_zone, shown_day, today
from workhook.web.listing.view import TaskRow, task_row
from workhook.work.board.tasks import assignees, listing
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import deadline_params

TASKS_MAX = 500
_FIRST, _LAST = date(1970, 2, 1), date(9998, 12, 1)


class Span(msgspec.Struct, frozen=True):
    """The days from `first` to `last`, whole weeks. `month`: the first day of the month that is shown; None: a week."""

    first: date
    last: date
    month: date | None
    before: str  # the query of the span before, after, and of the other kind
    after: str
    other: str
    title: str

    @property
    def day_before(self) -> date:
        return self.first - timedelta(days=1)

    @property
    def value(self) -> tuple[str, str]:
        """The query parameter that leads here."""
        return ("week", self.first.isoformat()) if self.month is None else ("month", f"{self.month:%Y-%m}")


class Day(msgspec.Struct, frozen=True):
    """A day. `is_other`: it is in another month than the one that is shown."""

    day: date
    name: str
    is_today: bool
    is_other: bool
    rows: Sequence[TaskRow]


class Calendar(msgspec.Struct, frozen=True):
    """`more`: there is more due than is shown."""

    weeks: Sequence[Sequence[Day]]
    count: int
    more: bool


def span_of(visit: Visit) -> Span:
    """What the address asks for; this month where it asks for nothing that is a month or a week."""
    if week := _read(visit.query("week")):
        return _week(week)
    month = _read(f"{visit.query('month')}-01") or today()
    return _month(month.replace(day=1))


def _read(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if _FIRST <= found <= _LAST else None


def _week(day: date) -> Span:
    first = day - timedelta(days=day.weekday())
    last = first + timedelta(days=6)
    seven = timedelta(days=7)
    return Span(
        first,
        last,
        None,
        f"week={first - seven}",
        f"week={first + seven}",
        f"month={day:%Y-%m}",
        span_name(first, last),
    )


def _month(first: date) -> Span:
    next_month = (first + timedelta(days=31)).replace(day=1)
    last = next_month - timedelta(days=1)
    now = today()
    week = now if (now.year, now.month) == (first.year, first.month) else first
    title = f"{month_names()[first.month - 1]} {first.year}"
    return Span(
        first - timedelta(days=first.weekday()),
        last + timedelta(days=6 - last.weekday()),
        first,
        f"month={first - timedelta(days=1):%Y-%m}",
        f"month={next_month:%Y-%m}",
        f"week={week}",
        title,
    )


async def read_calendar(visit: Visit, access: Access, span: Span) -> Calendar:
    """The tasks that are due in these days."""
    zone, after = reader_zone(), span.last + timedelta(days=1)
    start = min(midnight_of(span.first), start_of(span.first, zone))
    end = max(midnight_of(after), start_of(after, zone))
    filters: dict[str, object] = dict(deadline_params(before=after, after=span.day_before, zone=zone))
    if person := visit.query("assignee"):
        filters["assignee"] = key_of(person)
    found = await listing.list_tasks(
        visit.database, access, filters, sort="deadline", after=(start - 1, ""), limit=TASKS_MAX + 1
    )
    unseen = found.last_seen is not None and isinstance(found.last_seen[0], int) and found.last_seen[0] < end
    more = len(found.tasks) > TASKS_MAX or found.cut or unseen
    shown = await assignees.as_seen(visit.database, access, [task for task, _ in found.tasks[:TASKS_MAX]])
    now = now_ms()
    by_day: dict[date, list[TaskRow]] = {}
    for task in shown:
        by_day.setdefault(_day_of(task), []).append(task_row(access, task, now))
    days = [_day(each, span, by_day.get(each, [])) for each in _days(span)]
    return Calendar([days[at : at + 7] for at in range(0, len(days), 7)], len(shown), more)


def _days(span: Span) -> Iterator[date]:
    day = span.first
    while day <= span.last:
        yield day
        day += timedelta(days=1)


def _day(day: date, span: Span, rows: Sequence[TaskRow]) -> Day:
    is_other = span.month is not None and day.month != span.month.month
    return Day(day, f"{weekday_names()[day.weekday()]}, {day_name(day)}", day == today(), is_other, rows)


def _day_of(task: Task) -> date:
    assert task.deadline is not None, "the list has only tasks with a deadline"
    return shown_day(task.deadline)


def day_at(at_ms: int | None) -> str | None:
    """The name of the day of a deadline; None without one."""
    return None if at_ms is None else day_name(shown_day(at_ms))
