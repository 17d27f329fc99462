"""Timesheets: `/projects/{id}/timesheets` and `/timesheets`.

Owners and members of a project can change all of its timesheets, including those of others. Clients cannot see any.
"""

from __future__ import annotations

from datetime import tzinfo

from msgspec import UnsetType

from workhook.core.clock import now_ms
from workhook.http import lists
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.lists import Key
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.kernel import csv_tables
from workhook.work.kernel.access import find_access
from workhook.work.kernel.day_bounds import find_zone, is_bare, zone_named
from workhook.work.kernel.lists import cursor_of, read
from workhook.work.kernel.scopes import Source, source_of_project
from workhook.work.time.timesheets import actions, export, queries
from workhook.work.time.timesheets.schemas import (
    TimesheetAnswer,
    TimesheetsAnswer,
    TimesheetsQuery,
    timesheet_to_response,
)

routes = Routes(WORK_API, "Timesheets", read="work.read", write="work.write")


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
    """Return a page of the list, or a table for a file called `name`.

    `days` is the time zone of the days in the table; None means that of each project.
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
        pages = export.whole_table(call.database, source, filters, found, days)
        return Response(pages, headers=headers, media_type=csv_tables.MEDIA_TYPE)
    table = await export.table(call.database, source, timesheets, days)
    return Response(table, headers={**headers, **link}, media_type=csv_tables.MEDIA_TYPE)


routes.post("/projects/{id}/timesheets", answers={200: TimesheetAnswer})(actions.create_timesheet)


@routes.get("/timesheets/{id}", answers={200: TimesheetAnswer})
async def get_timesheet(call: Call, timesheet_id: str) -> Response:
    """Get a timesheet.

    The `ETag` of a running timer changes as time passes. `If-Match` accepts every `ETag` since the last change of the
    timesheet.
    """
    timesheet, access = await queries.find_timesheet(call.database, actor_of(call), timesheet_id)
    access.require_not_client()
    return actions.answer_of(timesheet, now_ms())


routes.patch("/timesheets/{id}", answers={200: TimesheetAnswer})(actions.edit_timesheet)
routes.delete("/timesheets/{id}")(actions.delete_timesheet)
routes.post("/timesheets/{id}/pause", answers={200: TimesheetAnswer})(actions.pause_timesheet)
routes.post("/timesheets/{id}/resume", answers={200: TimesheetAnswer})(actions.resume_timesheet)
routes.post("/timesheets/{id}/finish", answers={200: TimesheetAnswer})(actions.finish_timesheet)
