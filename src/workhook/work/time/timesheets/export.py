"""Timesheets as a table: all that fits the filters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from itertools import chain

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.money import amount_of
from workhook.core.zones import day_in
from workhook.http.lists import WHOLE_LIST_MAX
from workhook.storage import Reader
from workhook.work.kernel.access import Access
from workhook.work.kernel.csv_tables import Cell, write_rows
from workhook.work.kernel.day_bounds import find_zones
from workhook.work.kernel.durations import amount_minor, hours_text
from workhook.work.time.timesheets import queries, rules
from workhook.work.time.timesheets.queries import TimesheetPage
from workhook.work.time.timesheets.schemas import Timesheet

_OF_TIME = ("start_time", "end_time", "duration_ms", "hours")
_COLUMNS = ("id", "date", "user", "task", *_OF_TIME, "billable", "billable_rate", "amount", "notes")


def _cells(timesheet: Timesheet, now: int, zone: tzinfo) -> tuple[Cell, ...]:
    """`date` is the day in the zone on which it started; `amount` is empty for what is not billable or has no rate."""
    times, rate, currency = timesheet.times, timesheet.billable_rate_minor, timesheet.repository.currency
    duration = rules.elapsed_ms(times, now)
    amount = amount_minor(duration, rate) if timesheet.billable and rate is not None else None
    start = to_millis_text(times.start)
    return (
        timesheet.id,
        day_in(times.start, zone).isoformat(),
        timesheet.user.username,
        timesheet.task.title if timesheet.task else None,
        start,
        None if times.end is None else to_millis_text(times.end),
        duration,
        Decimal(hours_text(duration)),
        timesheet.billable,
        _decimal(rate, currency),
        _decimal(amount, currency),
        timesheet.notes,
    )


_ACROSS = ("id", "date", "user", "organization", "project", *_COLUMNS[3:-1], "currency", _COLUMNS[-1])


def _cells_across(timesheet: Timesheet, now: int, zone: tzinfo) -> tuple[Cell, ...]:
    """`_cells`, with the place and its currency: rows of several projects stand in one table."""
    id_, date, user, *rest, notes = _cells(timesheet, now, zone)
    place = timesheet.repository
    return id_, date, user, place.owner.login, place.title, *rest, place.currency, notes


async def table_across(
    reader: Reader, timesheets: Sequence[Timesheet], *, head: bool, zone: tzinfo | None = None
) -> bytes:
    """Timesheets of several projects; `head`: below the line of the columns' names. `zone`: of their days; None: that
    of each project."""
    zones = {} if zone else await find_zones(reader, (each.repository.id for each in timesheets))
    now = now_ms()
    cells = (_cells_across(each, now, zone or zones.get(each.repository.id, UTC)) for each in timesheets)
    return await write_rows(chain([_ACROSS] if head else [], cells))


async def table(timesheets: Sequence[Timesheet], zone: tzinfo) -> bytes:
    """The timesheets, below the line of the columns' names. `zone`: of the project."""
    now = now_ms()
    return await write_rows(chain([_COLUMNS], (_cells(each, now, zone) for each in timesheets)))


async def whole_table(
    reader: Reader, access: Access, filters: Mapping[str, object], first: TimesheetPage, zone: tzinfo
) -> AsyncIterator[bytes]:
    """`table` of `first` and of all timesheets behind it, in parts of a page each."""
    yield await table(first.timesheets, zone)
    behind = _end(first)
    while behind is not None:
        page = await queries.list_timesheets(reader, access, filters, after=behind, limit=WHOLE_LIST_MAX)
        behind = _end(page)
        now = now_ms()
        yield await write_rows([_cells(each, now, zone) for each in page.timesheets])


def _end(page: TimesheetPage) -> str | None:
    """Behind which there may be more."""
    return page.last_seen or (page.timesheets[-1].id if page.timesheets else None)


def _decimal(minor: int | None, currency: str) -> Decimal | None:
    return None if minor is None else amount_of(minor, currency)
