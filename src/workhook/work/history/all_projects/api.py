"""Lists across all projects that the caller can see.

The paths are `/tasks`, `/timesheets`, `/timesheets/running`, `/invoices`, `/files` and `/comments`.
"""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import UnsetType

from workhook.core.clock import now_ms
from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.board.tasks import api as tasks
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.schemas import TasksAnswer
from workhook.work.files import api as files
from workhook.work.files.links import Links, links_of
from workhook.work.files.schemas import FilesAnswer
from workhook.work.history.all_projects import comments
from workhook.work.history.all_projects.schemas import (
    AllCommentsQuery,
    AllFilesQuery,
    AllInvoicesQuery,
    AllTasksQuery,
    AllTimesheetsQuery,
    AnyComment,
    AnyCommentsAnswer,
    PlacedInvoicesAnswer,
    RunningQuery,
)
from workhook.work.kernel import csv_tables
from workhook.work.kernel.day_bounds import zone_named
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_across_projects
from workhook.work.money.invoices.queries import INVOICES, filters_of
from workhook.work.money.invoices.schemas import PlacedInvoice, invoice_to_response
from workhook.work.time.timesheets import actions as timesheets
from workhook.work.time.timesheets.queries import RUNNING
from workhook.work.time.timesheets.schemas import TimesheetsAnswer, timesheet_to_response

_of_tasks = Routes(WORK_API, "Tasks", read="work.read", write="work.write")
_of_timesheets = Routes(WORK_API, "Timesheets", read="work.read", write="work.write")
_of_invoices = Routes(WORK_API, "Invoices", read="work.read", write="work.write")
_of_files = Routes(WORK_API, "Files", read="work.read", write="work.write")
_of_comments = Routes(WORK_API, "Task Comments", read="work.read", write="work.write")


@_of_tasks.get("/tasks")
async def list_all_tasks(call: Call, query: AllTasksQuery) -> Listed[TasksAnswer]:
    """List, filter and search the tasks of every project the caller can see.

    A page may be short or empty without being the last. Follow the `Link` header until it has no next page.
    """
    sort = listing.sort_of(query)
    return await tasks.list_page(
        call, source_across_projects(actor_of(call), query), query, sort, cursor_of(query, listing.ORDERS[sort])
    )


@_of_timesheets.get("/timesheets", answers={200: TimesheetsAnswer}, other_media_types=(csv_tables.MEDIA_TYPE,))
async def list_all_timesheets(call: Call, query: AllTimesheetsQuery) -> Response:
    """List the timesheets of every project where the caller is an owner or a member.

    A page may be short or empty without being the last. Follow the `Link` header until it has no next page. With
    `Accept: text/csv`, the response is a table of all matching timesheets or, with `per_page`, of one page of them.
    """
    zone = zone_named(query.timezone)
    source = source_across_projects(actor_of(call), query, team_only=True, zone=zone)
    days = None if isinstance(query.timezone, UnsetType) else zone
    return await timesheets.answer_list(call, source, query, cursor_of(query), "timesheets", days=days)


@_of_timesheets.get("/timesheets/running")
async def list_running_timesheets(call: Call, query: RunningQuery) -> Listed[TimesheetsAnswer]:
    """List the running timers of every project where the caller is an owner or member, longest running first."""
    source, after = source_across_projects(actor_of(call), query, team_only=True), cursor_of(query, RUNNING.order)
    rows, headers = await read_for(call, RUNNING, source, query, after, **RUNNING.to_filters(query, source))
    now = now_ms()
    return Listed(TimesheetsAnswer([timesheet_to_response(each, now) for each in rows]), headers)


@_of_invoices.get("/invoices")
async def list_all_invoices(call: Call, query: AllInvoicesQuery) -> Listed[PlacedInvoicesAnswer]:
    """List the invoices of every project the caller can see.

    Clients do not see drafts. A page may be short or empty without being the last. Follow the `Link` header until it
    has no next page.
    """
    after, source, now = cursor_of(query), source_across_projects(actor_of(call), query), now_ms()
    rows, headers = await read_for(call, INVOICES, source, query, after, **filters_of(query, source, now))
    placed = cast(list[Wire[PlacedInvoice]], [invoice_to_response(each, now) for each in rows])
    return Listed(PlacedInvoicesAnswer(placed), headers)


@_of_files.get("/files")
async def list_all_files(call: Call, query: AllFilesQuery) -> Listed[FilesAnswer]:
    """List the files of every project the caller can see.

    A page may be short or empty without being the last. Follow the `Link` header until it has no next page.
    """
    return await files.list_page(call, source_across_projects(actor_of(call), query), query)


@_of_comments.get("/comments")
async def list_comments(call: Call, query: AllCommentsQuery) -> Listed[AnyCommentsAnswer]:
    """List the comments and replies in every project the caller can see, oldest first.

    Covers comments on tasks and files. A page may be short or empty without being the last. Follow the `Link` header
    until it has no next page.
    """
    after = comments.cursor_of(query)
    rows, headers = lists.page(
        call, await comments.list_comments(call.database, actor_of(call), query, after=after), query
    )
    links = links_of(call)
    return Listed(AnyCommentsAnswer([_linked(each, links) for each in rows]), headers)


def _linked(comment: AnyComment, links: Links) -> Wire[AnyComment]:
    if comment.file is None:
        return to_response(comment)
    file = msgspec.structs.replace(comment.file, link=links(comment.file.id))
    return to_response(msgspec.structs.replace(comment, file=file))


routes = (*_of_tasks, *_of_timesheets, *_of_invoices, *_of_files, *_of_comments)
