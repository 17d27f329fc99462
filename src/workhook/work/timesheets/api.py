"""`/projects/{id}/timesheets` and `/timesheets`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import UnsetType

from workhook.core.clock import now_ms
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.access import Access
from workhook.work.schemas import Done
from workhook.work.timesheets import actions, conditions, export, queries
from workhook.work.timesheets.schemas import (
    Timesheet,
    TimesheetAnswer,
    TimesheetCreate,
    TimesheetEdit,
    TimesheetsAnswer,
    TimesheetsQuery,
    timesheet_shape,
)
from workhook.work.timesheets.table import table, whole_table

routes = Routes(WORK_API, "Timesheets", read="work.read", write="work.write")


@routes.get("/projects/{id}/timesheets", answers={200: TimesheetsAnswer}, other_media_types=(export.MEDIA_TYPE,))
async def list_timesheets(call: Call, project_id: str, query: TimesheetsQuery) -> Answer:
    """List the timesheets of a project.

    With `Accept: text/csv` a table: all that fits, or with `per_page` a page of it.
    """
    key = lists.after(query, tuple[str])
    access = await actions.see_timesheets(call.database, actor_of(call), project_id)
    found = await queries.list_timesheets(
        call.database, access, queries.filters_of(query), after=key[0] if key else None, limit=query.limit + 1
    )
    if export.wants_csv(call.header("accept")):
        return _table(call, access, query, found)
    timesheets, headers = _page(call, query, found)
    now = now_ms()
    body = TimesheetsAnswer([timesheet_shape(each, now) for each in timesheets])
    return Answer(body, headers={**headers, **export.VARY})


def _page(call: Call, query: TimesheetsQuery, found: queries.Listed) -> tuple[Sequence[Timesheet], Mapping[str, str]]:
    last = None if found.last_seen is None else (found.last_seen,)
    return lists.page(call, found.timesheets, query, lambda each: (each.id,), last_seen=last)


def _table(call: Call, access: Access, query: TimesheetsQuery, found: queries.Listed) -> Answer:
    """A page if the caller asks for one by `per_page`, else everything."""
    headers = export.headers(f"{access.repository.name.replace('.', '-')}-timesheets")
    timesheets, link = _page(call, query, found)
    if isinstance(query.per_page, UnsetType) and link:
        body = whole_table(call.database, access, queries.filters_of(query), found)
        return Answer(body, headers=headers, media_type=export.MEDIA_TYPE)
    return Answer(table(timesheets), headers={**headers, **link}, media_type=export.MEDIA_TYPE)


@routes.post("/projects/{id}/timesheets", answers={200: TimesheetAnswer})
async def create_timesheet(write: Write, project_id: str, create: TimesheetCreate) -> Answer:
    """Start a timer, or note time that was spent.

    With `duration` or `end_time` it is finished. Otherwise a timer starts, and the caller's other one is paused, in
    whatever project it runs.
    """
    made = await actions.create_timesheet(write, project_id, create)
    return conditions.answer(made, write.now)


@routes.get("/timesheets/{id}", answers={200: TimesheetAnswer})
async def get_timesheet(call: Call, timesheet_id: str) -> Answer:
    """Get a timesheet.

    While a timer runs, its `ETag` grows with it; `If-Match` takes every one since it was last changed.
    """
    found = await actions.get_timesheet(call.database, actor_of(call), timesheet_id)
    return conditions.answer(found, now_ms())


@routes.patch("/timesheets/{id}", answers={200: TimesheetAnswer})
async def edit_timesheet(write: Write, timesheet_id: str, edit: TimesheetEdit) -> Answer:
    """Correct a timesheet.

    A `duration` alone keeps the start and sets the end; `start_time` and `end_time` alone recompute the duration. A
    `duration` or an `end_time` finishes a timer. What is on an invoice cannot be changed.
    """
    edited = await actions.edit_timesheet(write, timesheet_id, edit, partial(conditions.require_match, write.call))
    return conditions.answer(edited, write.now)


@routes.delete("/timesheets/{id}")
async def delete_timesheet(write: Write, timesheet_id: str) -> Done:
    """Delete a timesheet."""
    await actions.delete_timesheet(write, timesheet_id, partial(conditions.require_match, write.call))
    return Done()


@routes.post("/timesheets/{id}/pause", answers={200: TimesheetAnswer})
async def pause_timesheet(write: Write, timesheet_id: str) -> Answer:
    """Pause a timer."""
    turned = await actions.pause_timesheet(write, timesheet_id)
    return conditions.answer(turned, write.now)


@routes.post("/timesheets/{id}/resume", answers={200: TimesheetAnswer})
async def resume_timesheet(write: Write, timesheet_id: str) -> Answer:
    """Let a timer run on; the other one of its user is paused.

    If the timer is somebody else's and their other one runs where you cannot write, that one runs on and the answer is
    409 `timer_elsewhere`.
    """
    turned = await actions.resume_timesheet(write, timesheet_id)
    return conditions.answer(turned, write.now)


@routes.post("/timesheets/{id}/finish", answers={200: TimesheetAnswer})
async def finish_timesheet(write: Write, timesheet_id: str) -> Answer:
    """Finish a timer."""
    turned = await actions.finish_timesheet(write, timesheet_id)
    return conditions.answer(turned, write.now)
