"""`/tasks`, `/timesheets`, `/timesheets/running`, `/invoices`, `/files` and `/comments`: what the caller sees in all
projects together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta, UnsetType

from workhook.core.clock import now_ms
from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.board.tasks.schemas import CursorInteger, TasksAnswer
from workhook.work.files.links import Links, links_of
from workhook.work.files.schemas import FilesAnswer, file_to_response
from workhook.work.history.across import comments, files, invoices, tasks, timesheets
from workhook.work.history.across.schemas import (
    AllCommentsQuery,
    AllFilesQuery,
    AllInvoicesQuery,
    AllTasksQuery,
    AllTimesheetsQuery,
    AnyComment,
    AnyCommentsAnswer,
    PlacedInvoice,
    PlacedInvoicesAnswer,
    RunningQuery,
)
from workhook.work.history.across.walks import AcrossPage
from workhook.work.kernel import csv_tables
from workhook.work.money.invoices.schemas import invoice_to_response
from workhook.work.time.timesheets.schemas import TimesheetsAnswer, timesheet_to_response

T = TypeVar("T")

_of_tasks = Routes(WORK_API, "Tasks", read="work.read", write="work.write")
_of_timesheets = Routes(WORK_API, "Timesheets", read="work.read", write="work.write")
_of_invoices = Routes(WORK_API, "Invoices", read="work.read", write="work.write")
_of_files = Routes(WORK_API, "Files", read="work.read", write="work.write")
_of_comments = Routes(WORK_API, "Task Comments", read="work.read", write="work.write")


def _page(call: Call, found: AcrossPage[T], query: ListQuery) -> tuple[list[T], Mapping[str, str]]:
    rows, headers = lists.page(call, found.rows, query, lambda pair: pair[1], cut=found.cut, last_seen=found.last_seen)
    return [row for row, _ in rows], headers


def tasks_cursor(query: AllTasksQuery) -> tuple[Any, ...] | None:
    """The key behind which the page starts. Raises `Invalid`."""
    sort = "id" if isinstance(query.sort, UnsetType) else query.sort
    if sort.removeprefix("-") in ("id", "title"):
        return lists.after(query, tuple[str, str])
    return lists.after(query, tuple[CursorInteger, str])


@_of_tasks.get("/tasks")
async def list_all_tasks(call: Call, query: AllTasksQuery) -> Listed[TasksAnswer]:
    """List, filter and search the tasks of every project that the caller sees.

    A page may be short, or empty, and not be the last: `Link` leads on.
    """
    found = await tasks.list_all_tasks(call.database, actor_of(call), query, after=tasks_cursor(query))
    rows, headers = _page(call, found, query)
    return Listed(TasksAnswer([to_response(task) for task in rows]), headers)


@_of_timesheets.get("/timesheets", answers={200: TimesheetsAnswer}, other_media_types=(csv_tables.MEDIA_TYPE,))
async def list_all_timesheets(call: Call, query: AllTimesheetsQuery) -> Answer:
    """List the timesheets of every project that the caller sees as an owner or a member.

    A page may be short, or empty, and not be the last: `Link` leads on. With `Accept: text/csv` you get a table: all
    timesheets that match or, with `per_page`, a page of them.
    """
    after, actor = lists.after(query, tuple[str]), actor_of(call)
    found = await timesheets.list_all_timesheets(call.database, actor, query, after=after)
    rows, link = _page(call, found, query)
    if not csv_tables.wants_csv(call.header("accept")):
        now = now_ms()
        body = TimesheetsAnswer([timesheet_to_response(each, now) for each in rows])
        return Answer(body, headers={**link, **csv_tables.VARY})
    headers = csv_tables.headers("timesheets")
    if isinstance(query.per_page, UnsetType) and link:
        table = timesheets.whole_table(call.database, actor, query, found)
        return Answer(table, headers=headers, media_type=csv_tables.MEDIA_TYPE)
    body_of_page = await timesheets.table(call.database, query, rows, head=True)
    return Answer(body_of_page, headers={**headers, **link}, media_type=csv_tables.MEDIA_TYPE)


@_of_timesheets.get("/timesheets/running")
async def list_running_timesheets(call: Call, query: RunningQuery) -> Listed[TimesheetsAnswer]:
    """List the timers that run in every project that the caller sees as an owner or a member, the longest first."""
    after = lists.after(query, tuple[CursorInteger, str])
    found = await timesheets.list_running(call.database, actor_of(call), query, after=after)
    rows, headers = _page(call, found, query)
    now = now_ms()
    return Listed(TimesheetsAnswer([timesheet_to_response(each, now) for each in rows]), headers)


@_of_invoices.get("/invoices")
async def list_all_invoices(call: Call, query: AllInvoicesQuery) -> Listed[PlacedInvoicesAnswer]:
    """List the invoices of every project that the caller sees.

    Clients do not see drafts. A page may be short, or empty, and not be the last: `Link` leads on.
    """
    after, now = lists.after(query, tuple[str]), now_ms()
    found = await invoices.list_all_invoices(call.database, actor_of(call), query, now=now, after=after)
    rows, headers = _page(call, found, query)
    return Listed(PlacedInvoicesAnswer([placed_to_response(each, now) for each in rows]), headers)


def placed_to_response(invoice: PlacedInvoice, now: int) -> Wire[PlacedInvoice]:
    """`invoice_to_response`, with the project."""
    return cast(Wire[PlacedInvoice], invoice_to_response(invoice, now))


@_of_files.get("/files")
async def list_all_files(call: Call, query: AllFilesQuery) -> Listed[FilesAnswer]:
    """List the files of every project that the caller sees.

    A page may be short, or empty, and not be the last: `Link` leads on.
    """
    found = await files.list_all_files(call.database, actor_of(call), query, after=lists.after(query, tuple[str]))
    rows, headers = _page(call, found, query)
    links = links_of(call)
    return Listed(FilesAnswer([file_to_response(each, links) for each in rows]), headers)


_Kind = Annotated[int, Meta(ge=0, lt=len(comments.KINDS))]


@_of_comments.get("/comments")
async def list_comments(call: Call, query: AllCommentsQuery) -> Listed[AnyCommentsAnswer]:
    """List the comments on tasks and files, and the replies, of every project that the caller sees, the newest last.

    A page may be short, or empty, and not be the last: `Link` leads on.
    """
    after = lists.after(query, tuple[CursorInteger, _Kind, CursorInteger])
    found = await comments.list_comments(call.database, actor_of(call), query, after=after)
    rows, headers = _page(call, found, query)
    links = links_of(call)
    return Listed(AnyCommentsAnswer([_linked(each, links) for each in rows]), headers)


def _linked(comment: AnyComment, links: Links) -> Wire[AnyComment]:
    if comment.file is None:
        return to_response(comment)
    file = msgspec.structs.replace(comment.file, link=links(comment.file.id))
    return to_response(msgspec.structs.replace(comment, file=file))


routes = (*_of_tasks, *_of_timesheets, *_of_invoices, *_of_files, *_of_comments)
