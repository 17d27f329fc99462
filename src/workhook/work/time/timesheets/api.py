"""`/projects/{id}/timesheets` and `/timesheets`.

Whoever sees the project as an owner or a member may do everything with its timesheets, also with others'. A timesheet
is made for the caller. Clients see none.
"""

from __future__ import annotations

from msgspec import UnsetType

from workhook.core.clock import now_ms
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import find_access
from workhook.work.kernel.day_bounds import find_zone, is_bare, zone_named
from workhook.work.time.timesheets import actions, export, queries
from workhook.work.time.timesheets.schemas import (
    TimesheetAnswer,
    TimesheetsAnswer,
    TimesheetsQuery,
    timesheet_to_response,
)

routes = Routes(WORK_API, "Timesheets", read="work.read", write="work.write")


@routes.get("/projects/{id}/timesheets", answers={200: TimesheetsAnswer}, other_media_types=(csv_tables.MEDIA_TYPE,))
async def list_timesheets(call: Call, project_id: str, query: TimesheetsQuery) -> Answer:
    """List the timesheets of a project.

    With `Accept: text/csv` you get a table: all timesheets that match or, with `per_page`, a page of them.
    """
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    access.hide_from_clients()
    is_table = csv_tables.wants_csv(call.header("accept"))
    zone = zone_named(query.timezone)
    if isinstance(query.timezone, UnsetType) and (is_table or is_bare(query.from_) or is_bare(query.to)):
        zone = await find_zone(call.database, access.repository.id)
    filters, after = queries.filters_of(query, zone=zone), key[0] if key else None
    found = await queries.list_timesheets(call.database, access, filters, after=after, limit=query.limit + 1)
    last_seen = None if found.last_seen is None else (found.last_seen,)
    timesheets, link = lists.page(call, found.timesheets, query, lambda each: (each.id,), last_seen=last_seen)
    now = now_ms()
    if not is_table:
        body = TimesheetsAnswer([timesheet_to_response(each, now) for each in timesheets])
        return Answer(body, headers={**link, **csv_tables.VARY})
    headers = csv_tables.headers(f"{access.repository.name.replace('.', '-')}-timesheets")
    if isinstance(query.per_page, UnsetType) and link:
        pages = export.whole_table(call.database, access, filters, found, zone)
        return Answer(pages, headers=headers, media_type=csv_tables.MEDIA_TYPE)
    table = await export.table(timesheets, zone)
    return Answer(table, headers={**headers, **link}, media_type=csv_tables.MEDIA_TYPE)


routes.post("/projects/{id}/timesheets", answers={200: TimesheetAnswer})(actions.create_timesheet)


@routes.get("/timesheets/{id}", answers={200: TimesheetAnswer})
async def get_timesheet(call: Call, timesheet_id: str) -> Answer:
    """Get a timesheet.

    While a timer runs, its `ETag` changes with it. `If-Match` accepts every `ETag` since the timesheet was last
    changed.
    """
    timesheet, access = await queries.find_timesheet(call.database, actor_of(call), timesheet_id)
    access.hide_from_clients()
    return actions.answer_of(timesheet, now_ms())


routes.patch("/timesheets/{id}", answers={200: TimesheetAnswer})(actions.edit_timesheet)
routes.delete("/timesheets/{id}")(actions.delete_timesheet)
routes.post("/timesheets/{id}/pause", answers={200: TimesheetAnswer})(actions.pause_timesheet)
routes.post("/timesheets/{id}/resume", answers={200: TimesheetAnswer})(actions.resume_timesheet)
routes.post("/timesheets/{id}/finish", answers={200: TimesheetAnswer})(actions.finish_timesheet)


# --- `ETag` and `If-Match`. While a timer runs its `duration` grows with every millisecond. Its tag ends in what was
# counted when it was shown: a GET that is repeated is never answered 304 by an older state, yet for `If-Match` only the
# rest counts, so that whoever reads a running timer can change it.
