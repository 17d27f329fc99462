"""Export timesheets as CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from itertools import chain

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.money import amount_of
from workhook.core.zones import day_in
from workhook.http.lists import WHOLE_LIST_MAX, Key, Rows
from workhook.storage import Reader
from workhook.work.kernel.csv_tables import Cell, write_rows
from workhook.work.kernel.day_bounds import find_zones
from workhook.work.kernel.durations import amount_minor, hours_text
from workhook.work.kernel.lists import iterate_pages, read
from workhook.work.kernel.scopes import Source
from workhook.work.time.timesheets import rules
from workhook.work.time.timesheets.queries import TIMESHEETS
from workhook.work.time.timesheets.schemas import Timesheet

_OF_TIME = ("start_time", "end_time", "duration_ms", "hours")
_COLUMNS = ("id", "date", "user", "task", *_OF_TIME, "billable", "billable_rate", "amount", "notes")


def _cells(timesheet: Timesheet, now: int, zone: tzinfo) -> tuple[Cell, ...]:
    """Return the cells for one project. `date` is the day of the start; `amount` requires a rate and billable time."""
    times, rate, currency = timesheet.times, timesheet.billable_rate_minor, timesheet.repository.currency
    duration = rules.elapsed_ms(times, now)
    amount = amount_minor(duration, rate) if timesheet.billable and rate is not None else None
    return (
        timesheet.id,
        day_in(times.start, zone).isoformat(),
        timesheet.user.username,
        timesheet.task.title if timesheet.task else None,
        to_millis_text(times.start),
        None if times.end is None else to_millis_text(times.end),
        duration,
        Decimal(hours_text(duration)),
        timesheet.billable,
        None if rate is None else amount_of(rate, currency),
        None if amount is None else amount_of(amount, currency),
        timesheet.notes,
    )


_ACROSS = ("id", "date", "user", "organization", "project", *_COLUMNS[3:-1], "currency", _COLUMNS[-1])


def _cells_across(timesheet: Timesheet, now: int, zone: tzinfo) -> tuple[Cell, ...]:
    """Return the cells of a table across projects, which include the project and its currency."""
    id_, date, user, *rest, notes = _cells(timesheet, now, zone)
    place = timesheet.repository
    return id_, date, user, place.owner.login, place.title, *rest, place.currency, notes


async def table(
    reader: Reader, source: Source, timesheets: Sequence[Timesheet], zone: tzinfo | None, *, head: bool = True
) -> bytes:
    """Return rows, with a header if `head`. Their days are in `zone` or, if it is None, in that of each project."""
    zones = {} if zone else await find_zones(reader, (each.repository.id for each in timesheets))
    now, one = now_ms(), source.place is not None
    columns, cells_of = (_COLUMNS, _cells) if one else (_ACROSS, _cells_across)
    cells = (cells_of(each, now, zone or zones.get(each.repository.id, UTC)) for each in timesheets)
    return await write_rows(chain([columns] if head else [], cells))


async def whole_table(
    reader: Reader, source: Source, filters: Mapping[str, object], first: Rows[Timesheet], zone: tzinfo | None
) -> AsyncIterator[bytes]:
    async def ask(after: Key | None) -> Rows[Timesheet]:
        return await read(reader, TIMESHEETS, source, filters, after=after, limit=WHOLE_LIST_MAX)

    async for page in iterate_pages(ask, first):
        yield await table(reader, source, page, zone, head=page is first)
