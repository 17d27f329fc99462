"""Timesheets: `/projects/{id}/timesheets` and `/timesheets`.

Owners and members of a project can change all of its timesheets, including those of others. Clients cannot see any.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from itertools import chain

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from workhook.core import json
from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Conflict, Fault, Invalid, NotFound, PreconditionFailed
from workhook.core.money import amount_of
from workhook.core.zones import day_in
from workhook.http import lists
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.lists import WHOLE_LIST_MAX, Key, Rows
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.storage import Reader
from workhook.work.kernel import csv_tables, questions
from workhook.work.kernel.access import Access, find_access
from workhook.work.kernel.csv_tables import Cell, write_rows
from workhook.work.kernel.day_bounds import find_zone, find_zones, is_bare, zone_named
from workhook.work.kernel.durations import amount_minor, hours_text
from workhook.work.kernel.lists import cursor_of, iterate_pages, read
from workhook.work.kernel.record_events import differences
from workhook.work.kernel.schemas import Done, given_rate, if_set
from workhook.work.kernel.scopes import Source, source_of_project
from workhook.work.time.rates import TimeTerms
from workhook.work.time.timesheets import queries, rules, timers
from workhook.work.time.timesheets.rules import Times
from workhook.work.time.timesheets.schemas import (
    Timesheet,
    TimesheetAnswer,
    TimesheetCreate,
    TimesheetEdit,
    TimesheetsAnswer,
    TimesheetsQuery,
    changed,
    given_times,
    timesheet_to_response,
)
from workhook.work.time.timesheets.timers import Settled, settle

# An ETag ends with the time counted when it was shown, so a repeated GET of a running timer is not answered with 304.
# `If-Match` compares only the part before it, so a running timer can be changed.
_COUNTED = "."

routes = Routes(WORK_API, "Timesheets")


@routes.get("/projects/{id}/timesheets", answers={200: TimesheetsAnswer}, other_media_types=(csv_tables.MEDIA_TYPE,))
async def list_timesheets(call: Call, project_id: str, query: TimesheetsQuery) -> Response:
    """List the timesheets of a project.

    With `Accept: text/csv`, the response is a CSV table of all matching timesheets or, with `per_page`, of one page.
    """
    after = cursor_of(query)
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    zone = zone_named(query.timezone)
    wants_table = csv_tables.wants_csv(call.header("accept"))
    if isinstance(query.timezone, UnsetType) and (wants_table or is_bare(query.from_) or is_bare(query.to)):
        zone = await find_zone(call.database, access.repository.id)
    name = f"{access.repository.name.replace('.', '-')}-timesheets"
    return await answer_list(call, source_of_project(access, zone), query, after, name, days=zone)


async def answer_list(
    call: Call, source: Source, query: TimesheetsQuery, after: Key | None, name: str, *, days: tzinfo | None
) -> Response:
    """Return a page of the list or, if the request accepts CSV, a file called `name`.

    `days` is the time zone of the days in the file; None means that of each project.
    """
    filters = queries.TIMESHEETS.to_filters(query, source)
    found = await read(call.database, queries.TIMESHEETS, source, filters, after=after, limit=query.limit + 1)
    timesheets, link = lists.page(call, found, query)
    if not csv_tables.wants_csv(call.header("accept")):
        now = now_ms()
        body = TimesheetsAnswer([timesheet_to_response(each, now) for each in timesheets])
        return Response(body, headers={**link, **csv_tables.VARY})
    headers = csv_tables.headers(name)
    if isinstance(query.per_page, UnsetType) and link:
        pages = whole_table(call.database, source, filters, found, days)
        return Response(pages, headers=headers, media_type=csv_tables.MEDIA_TYPE)
    table = await csv_table(call.database, source, timesheets, days)
    return Response(table, headers={**headers, **link}, media_type=csv_tables.MEDIA_TYPE)


@routes.post("/projects/{id}/timesheets", answers={200: TimesheetAnswer})
async def create_timesheet(write: Write, project_id: str, create: TimesheetCreate) -> Response:
    """Start a timer, or record time that was spent.

    With `duration` or `end_time`, the timesheet is finished. Otherwise a timer starts, and the caller's other timer is
    paused, whatever project it is in. `billable` and `billable_rate` default to the settings of the project, or else of
    the organization.
    """
    requested = given_times(create)
    runs = requested.duration_ms is None and requested.end is None
    access, task, terms = await queries.find_target(write.tx, write.actor, project_id, create.task_id, lock_user=runs)
    _require_writable(access)
    times = _times(task is not None, lambda: rules.created(requested, write.now))
    assert task is not None, "else there was a fault"
    timesheet = replace(
        timers.new_timesheet(access, task, terms, times, write.now),
        notes=if_set(create.notes),
        billable=if_set(create.billable, terms.billable),
    ).at_rate(given_rate(if_set(create.billable_rate), access.repository.currency, "billable_rate"), terms)
    if runs:
        if not await timers.may_run(write.tx, write.actor.user.id, access.repository.id):
            raise NotFound()  # the permission was lost while waiting for the user's lock
        running = await queries.lock_running(write.tx, write.actor, write.actor.user.id)
        await timers.pause(write, running)
    await queries.insert_timesheet(write.tx, timesheet)
    await timers.publish(write, timesheet, "started" if runs else "finished")
    if not runs:
        await Settled([timesheet], {timesheet.id: terms}).tell(write)
    return answer_of(timesheet, write.now)


@routes.get("/timesheets/{id}", answers={200: TimesheetAnswer})
async def get_timesheet(call: Call, timesheet_id: str) -> Response:
    """Get a timesheet.

    The `ETag` of a running timer changes as time passes. `If-Match` accepts every `ETag` since the last change of the
    timesheet.
    """
    timesheet, access = await queries.find_timesheet(call.database, actor_of(call), timesheet_id)
    access.require_not_client()
    return answer_of(timesheet, now_ms())


@routes.patch("/timesheets/{id}", answers={200: TimesheetAnswer})
async def edit_timesheet(write: Write, timesheet_id: str, edit: TimesheetEdit) -> Response:
    """Update a timesheet.

    A `duration` alone keeps the start and sets the end; `start_time` and `end_time` alone recompute the duration. A
    `duration` or an `end_time` finishes a timer. A `billable_rate` of null applies the current inherited rate. A
    timesheet on an invoice cannot be changed.
    """
    task_id = if_set(edit.task_id)
    before, access, wanted_task, terms = await queries.lock_to_edit(write.tx, write.actor, timesheet_id, task_id)
    _require_writable(access)
    _require_match(write, before)
    if _says_nothing_new(before, edit):
        return answer_of(before, write.now)
    if before.invoice_id is not None:
        raise await questions.find_invoiced_conflict(write.tx, before.invoice_id, "changed")
    if edit.end_time is None and before.times.finished:
        raise Conflict("The timesheet is finished and cannot be reopened.", code="finished")
    task = before.task if task_id is None or task_id == _task_id(before) else wanted_task
    requested = given_times(edit)
    times = _times(task_id is None or task is not None, lambda: rules.edited(before.times, requested, write.now))
    after = replace(
        changed(before, times, write.now),
        task=task,
        notes=if_set(edit.notes, before.notes),
        billable=if_set(edit.billable, before.billable),
    )
    after = _at_rate(before, after, given_rate(edit.billable_rate, access.repository.currency, "billable_rate"), terms)
    if after == changed(before, before.times, write.now):
        return answer_of(before, write.now)  # the inherited rate was requested, but there is none
    await queries.update_timesheets(write.tx, [after])
    action = "finished" if after.times.finished and not before.times.finished else "edited"
    changes = differences(timesheet_to_response(before, write.now), timesheet_to_response(after, write.now))
    await timers.publish(write, after, action, changes=changes)
    if after.times.finished:
        await Settled([after], {after.id: terms}).tell(write)
    return answer_of(after, write.now)


def _at_rate(before: Timesheet, after: Timesheet, billable_rate: int | UnsetType | None, terms: TimeTerms) -> Timesheet:
    """Return `after` with its own rate or the inherited one.

    Finished time keeps its rate unless the caller sets one, or requests (with null) the inherited rate where there was
    none.
    """
    own_minor = if_set(billable_rate, before.own_rate_minor)
    finishes = after.times.finished and not before.times.finished
    asks = billable_rate is None and before.rate_source is None
    return after.at_rate(own_minor, terms) if own_minor is not None or finishes or asks else after


@routes.delete("/timesheets/{id}")
async def delete_timesheet(write: Write, timesheet_id: str) -> Done:
    """Delete a timesheet."""
    timesheet, access = await queries.find_timesheet(write.tx, write.actor, timesheet_id, queries.locked)
    _require_writable(access)
    _require_match(write, timesheet)
    if timesheet.invoice_id is not None:
        raise await questions.find_invoiced_conflict(write.tx, timesheet.invoice_id, "deleted")
    await queries.delete_timesheet(write.tx, timesheet_id)
    await timers.publish(write, timesheet, "deleted")
    return Done()


@routes.post("/timesheets/{id}/pause", answers={200: TimesheetAnswer})
async def pause_timesheet(write: Write, timesheet_id: str) -> Response:
    """Pause a timer."""
    return await _stop(write, timesheet_id, rules.paused, "paused")


@routes.post("/timesheets/{id}/resume", answers={200: TimesheetAnswer})
async def resume_timesheet(write: Write, timesheet_id: str) -> Response:
    """Resume a timer. The user's other timer is paused.

    If the timer belongs to another user, and their running timer is in a project that you cannot write to, the request
    fails with 409 `timer_elsewhere` and nothing changes.
    """
    found, access = await queries.find_timesheet(write.tx, write.actor, timesheet_id, queries.user_locked)
    _require_writable(access)
    timers_of_user = await queries.lock_running(write.tx, write.actor, found.user.id, and_id=timesheet_id)
    before = next((each for each in timers_of_user if each.id == timesheet_id), None)
    if before is None:  # deleted while waiting for the lock
        raise NotFound()
    times = rules.resumed(before.times, write.now)
    if times != before.times:
        if not await timers.may_run(write.tx, found.user.id, before.repository.id):
            message = "The user of this timer can no longer write to the project, so the timer cannot be resumed."
            raise Conflict(message, code="not_in_project")
        await timers.pause(write, [each for each in timers_of_user if each.id != timesheet_id])
    return await _change_times(write, before, times, "resumed")


@routes.post("/timesheets/{id}/finish", answers={200: TimesheetAnswer})
async def finish_timesheet(write: Write, timesheet_id: str) -> Response:
    """Finish a timer."""
    return await _stop(write, timesheet_id, rules.finished, "finished")


async def _stop(write: Write, timesheet_id: str, rule: Callable[[Times, int], Times], action: str) -> Response:
    before, access = await queries.find_timesheet(write.tx, write.actor, timesheet_id, queries.locked)
    _require_writable(access)
    return await _change_times(write, before, rule(before.times, write.now), action)


async def _change_times(write: Write, before: Timesheet, times: Times, action: str) -> Response:
    """Change the times of a timesheet. Do nothing if it already has these times."""
    after = before
    if times != before.times:
        after = changed(before, times, write.now)
        settled = await settle(write.tx, [after]) if times.finished else Settled([after], {})
        [after] = settled.timesheets
        await queries.update_timesheets(write.tx, [after])
        await timers.publish(write, after, action)
        await settled.tell(write)
    return answer_of(after, write.now)


def _require_writable(access: Access) -> None:
    access.require_not_client()
    access.require_writable()


def _task_id(timesheet: Timesheet) -> str | None:
    return timesheet.task.id if timesheet.task else None


def _times(task_found: bool, times: Callable[[], Times]) -> Times:
    """Return the result of `times`. Raises `Invalid` with its faults, and with one if the task was not found."""
    faults = [] if task_found else [Fault(field="task_id", message="task_id must be a task of the project")]
    try:
        found = times()
    except Invalid as wrong:
        raise Invalid(faults=[*faults, *wrong.faults]) from None
    if faults:
        raise Invalid(faults=faults)
    return found


def _says_nothing_new(timesheet: Timesheet, edit: TimesheetEdit) -> bool:
    times, own = timesheet.times, timesheet.own_rate_minor
    asks = edit.billable_rate is None and timesheet.billable_rate_minor is None and timesheet.invoice_id is None
    current: dict[str, object] = {
        "task_id": _task_id(timesheet),
        "start_time": times.start,
        "end_time": times.end,
        "duration": times.counted_ms if times.finished else None,
        "notes": timesheet.notes,
        "billable": timesheet.billable,
        "billable_rate": None if own is None else amount_of(own, timesheet.repository.currency),
    }
    return not asks and all(getattr(edit, name) in (UNSET, value) for name, value in current.items())


def _steady_tag(timesheet: Timesheet) -> str:
    """Hash the GET response as of the timer's last start, so that the hash stays the same while the timer runs."""
    body = TimesheetAnswer(timesheet_to_response(timesheet, timesheet.times.running_since or 0))
    return hashlib.sha256(json.encode(body)).hexdigest()


def answer_of(timesheet: Timesheet, now: int) -> Response:
    counted = f"{_COUNTED}{rules.elapsed_ms(timesheet.times, now)}" if timesheet.times.is_active else ""
    headers = {"ETag": f'W/"{_steady_tag(timesheet)}{counted}"'}
    return Response(TimesheetAnswer(timesheet_to_response(timesheet, now)), headers=headers)


def _require_match(write: Write, timesheet: Timesheet) -> None:
    """Raise `PreconditionFailed` unless `If-Match` is absent, `*`, or lists an ETag of the current version."""
    condition = write.request.header("if-match") if write.request else None
    if condition is None or condition.strip() == "*":
        return
    tags = [each.strip().removeprefix("W/").strip('"').partition(_COUNTED)[0] for each in condition.split(",")]
    if _steady_tag(timesheet) not in tags:
        raise PreconditionFailed("This has changed since you read it. Fetch it again before changing it.")


# --- tables as CSV ----------------------------------------------------------------------------------------------------

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
    """Return the cells of a row in a table across projects, including the project and its currency."""
    id_, date, user, *rest, notes = _cells(timesheet, now, zone)
    place = timesheet.repository
    return id_, date, user, place.owner.login, place.title, *rest, place.currency, notes


async def csv_table(
    reader: Reader, source: Source, timesheets: Sequence[Timesheet], zone: tzinfo | None, *, head: bool = True
) -> bytes:
    """Return the rows as CSV, after a header if `head`. Days are in `zone` or, if None, in the zone of each project."""
    zones = {} if zone else await find_zones(reader, (each.repository.id for each in timesheets))
    now, one = now_ms(), source.place is not None
    columns, cells_of = (_COLUMNS, _cells) if one else (_ACROSS, _cells_across)
    cells = (cells_of(each, now, zone or zones.get(each.repository.id, UTC)) for each in timesheets)
    return await write_rows(chain([columns] if head else [], cells))


async def whole_table(
    reader: Reader, source: Source, filters: Mapping[str, object], first: Rows[Timesheet], zone: tzinfo | None
) -> AsyncIterator[bytes]:
    async def ask(after: Key | None) -> Rows[Timesheet]:
        return await read(reader, queries.TIMESHEETS, source, filters, after=after, limit=WHOLE_LIST_MAX)

    async for page in iterate_pages(ask, first):
        yield await csv_table(reader, source, page, zone, head=page is first)
