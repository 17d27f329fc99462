"""Lists across all projects that the caller can see: tasks, timesheets, invoices, files, comments and people.

Comments on deleted tasks and files are omitted. Clients see neither private comments nor comments on anything private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, cast

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import now_ms
from workhook.core.records import EventSchema, Record, Timestamp, Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery, Rows
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader, Row
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks import api as tasks_api
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.inputs import TasksQuery
from workhook.work.board.tasks.schemas import CursorInteger, TasksAnswer, tasks
from workhook.work.discussion.schemas import CommentedFile, CommentedTask, file_comments
from workhook.work.files import api as files_api
from workhook.work.files.links import links_of
from workhook.work.files.schemas import FileQuery, FilesAnswer, files
from workhook.work.history.search import SCOPES, SearchScope
from workhook.work.kernel import csv_tables
from workhook.work.kernel import lists as scans
from workhook.work.kernel.day_bounds import TimeZone, find_zone_by_project, is_bare, zone_named
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import Condition, Order, Scan, created_by, cursor_of, read_for
from workhook.work.kernel.people import ADDRESS_HIDDEN, PersonShape, membership_of, person_columns, person_of_row
from workhook.work.kernel.schemas import RecordPlace, if_set
from workhook.work.kernel.scopes import (
    CALLER,
    OrganizationLogin,
    ProjectIds,
    ProjectRef,
    Scope,
    Source,
    place_columns,
    source_across_projects,
    visible_projects,
)
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.queries import INVOICES, filters_of
from workhook.work.money.invoices.schemas import InvoiceList, PlacedInvoice, invoice_to_response
from workhook.work.time.timesheets import actions as timesheets
from workhook.work.time.timesheets.queries import RUNNING
from workhook.work.time.timesheets.schemas import TimesheetsAnswer, TimesheetsQuery, timesheet_to_response

_Maker = Annotated[str, Meta(description="Username of the author, or `me`.")]
_Assignee = Annotated[str, Meta(description="A username, or `me`.")]
_Worker = Annotated[str, Meta(description="Username, or `me`.")]
_Words = Annotated[str, Meta(max_length=255, description="Words in the number, the buyer's name, or the address.")]


class AllTasksQuery(TasksQuery):
    """Filters of tasks. Multiple filters are combined with AND."""

    assignee: _Assignee | UnsetType = UNSET
    organization: OrganizationLogin | UnsetType = UNSET
    project_id: ProjectIds | UnsetType = UNSET


class AllTimesheetsQuery(TimesheetsQuery):
    """Parameters of a list of timesheets.

    `from` is inclusive, `to` is exclusive. A table has its days in `timezone`, or by default in the time zone of each
    project.
    """

    user: _Worker | UnsetType = UNSET
    organization: OrganizationLogin | UnsetType = UNSET
    project_id: ProjectIds | UnsetType = UNSET
    timezone: (
        Annotated[TimeZone, Meta(description="IANA name. Default: that of a single `project_id`, or `UTC`.")]
        | UnsetType
    ) = UNSET


class RunningQuery(ListQuery):
    """Filters of running timers."""

    user: _Worker | UnsetType = UNSET
    organization: OrganizationLogin | UnsetType = UNSET
    project_id: ProjectIds | UnsetType = UNSET


class AllInvoicesQuery(InvoiceList):
    """Filters of invoices."""

    q: _Words | UnsetType = UNSET
    user: _Maker | UnsetType = UNSET
    organization: OrganizationLogin | UnsetType = UNSET
    project_id: ProjectIds | UnsetType = UNSET


class AllFilesQuery(FileQuery):
    """Filters of files."""

    user: _Maker | UnsetType = UNSET
    organization: OrganizationLogin | UnsetType = UNSET
    project_id: ProjectIds | UnsetType = UNSET


class AllCommentsQuery(ListQuery):
    """Filters of comments and replies."""

    user: _Maker | UnsetType = UNSET
    organization: OrganizationLogin | UnsetType = UNSET
    project_id: ProjectIds | UnsetType = UNSET


class PlacedInvoicesAnswer(msgspec.Struct):
    invoices: list[Wire[PlacedInvoice]]
    success: bool = True


CommentKind = Literal["task_comment", "file_comment", "reply"]


class AnyComment(Record, frozen=True):
    """A comment on a task or file, or a reply to a comment on a file, with its subject.

    An `id` is unique only within its `kind`. The `text` of a reply is its body without markup. `file_comment_id` is the
    comment that a reply answers.
    """

    kind: CommentKind
    id: int
    text: str
    private: bool
    user: PersonShape
    task: Annotated[CommentedTask | None, EventSchema()]
    file: Annotated[CommentedFile | None, EventSchema()]
    file_comment_id: int | None
    project: RecordPlace
    created_at: Timestamp
    updated_at: Timestamp


class AnyCommentsAnswer(msgspec.Struct):
    comments: list[Wire[AnyComment]]
    success: bool = True


# --- comments and replies, in order of creation -----------------------------------------------------------------------

_KEY = ("created_at", "kind", "id")
KINDS: Sequence[CommentKind] = ("task_comment", "file_comment", "reply")
_CURSOR = tuple[CursorInteger, Annotated[int, Meta(ge=0, lt=len(KINDS))], CursorInteger]
_authors = accounts.alias("authors")
_SOURCES: Mapping[CommentKind, SearchScope] = {
    "task_comment": SCOPES["task_comment"],
    "file_comment": SCOPES["file_comment"],
    "reply": SCOPES["file_comment_reply"],
}
_PARENTS: Mapping[CommentKind, tuple[sa.FromClause, str]] = {
    "task_comment": (tasks, "task_id"),
    "file_comment": (files, "file_id"),
    "reply": (file_comments.join(files, files.c.id == file_comments.c.file_id), "file_comment_id"),
}
"""The parent of a comment or reply, and the column that refers to it."""


def _kind(kind: CommentKind) -> sa.ColumnElement[int]:
    return sa.literal_column(str(KINDS.index(kind)), sa.BigInteger)


def _order(kind: CommentKind) -> Order:
    return Order(
        lambda row: {"created_at": row.c.created_at, "kind": _kind(kind), "id": row.c.id}, _CURSOR, constant=["kind"]
    )


def _walk(kind: CommentKind, names: frozenset[str], *, continues: bool) -> Scan:
    source, order = _SOURCES[kind], _order(kind)
    above, column = _PARENTS[kind]

    def lives(row: sa.FromClause) -> Condition:
        """Return the condition under which the caller sees the row's parent.

        Looks it up by the row's key, because a join could degrade into a cross join.
        """
        private = [row.c.private, *(each for each in source.private if each.table is not source.table)]
        live = (
            sa.select(source.owner.c.id)
            .select_from(above)
            .where(
                (file_comments if kind == "reply" else source.owner).c.id == row.c[column],
                source.owner.c.deleted_at.is_(None),
                sa.or_(row.c.insider == 1, sa.and_(*(each.is_(sa.false()) for each in private))),
            )
        )
        return live.correlate(row).scalar_subquery().is_not(None)

    by_user = [created_by] if "user" in names else []
    return Scan(
        source.table,
        order,
        narrow=[lambda row: order.after_cursor(order.key(row))] if continues else [],
        reads=(column, "private", "user_id"),
        fits=[lives, *by_user],
        filtered=bool(by_user),
    )


def _select_full_rows(kind: CommentKind, sized: sa.CTE) -> sa.Select[Any]:
    source = _SOURCES[kind]
    table = source.table
    return sa.select(
        table.c.id.label("comment_id"),
        source.text.label("text"),
        table.c.private.label("private"),
        source.owner.c.id.label("owner_id"),
        source.owner.c.title.label("owner_title"),
        source.comment_id.label("file_comment_id"),
        table.c.created_at.label("created_at"),
        table.c.updated_at.label("updated_at"),
        *person_columns(membership_of(table.c.repository_id, _authors), _authors),
        *place_columns,
        *scans.page_columns(sized, _KEY),
    ).select_from(
        source.joined.join(sized, sa.and_(sized.c.kind == _kind(kind), sized.c.id == table.c.id))
        .join(_authors, _authors.c.id == table.c.user_id)
        .join(projects, projects.c.repository_id == sized.c.repository_id)
    )


@lru_cache(maxsize=64)
def _statement(scope: Scope, names: frozenset[str], continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        order, visible = _order(KINDS[0]), visible_projects(scope)
        each = [scans.select_scanned(_walk(kind, names, continues=continues), visible, dialect) for kind in KINDS]
        page = scans.page_of(sa.union_all(*each), order, _KEY)
        weighed = (
            scans.size_of(page, each.table, length(each.text)).where(page.c.kind == _kind(kind))
            for kind, each in _SOURCES.items()
        )
        sized = scans.cut_to_size(sa.union_all(*weighed), order, _KEY)
        found = sa.union_all(*(_select_full_rows(kind, sized) for kind in KINDS)).subquery("found")
        return sa.select(found).order_by(*(found.c[f"page_{name}"] for name in _KEY))

    return PerDialect.made_by(make)


async def find_comments(reader: Reader, actor: Actor, query: AllCommentsQuery) -> Rows[AnyComment]:
    """Return a page plus one further row. The caller adds the links of files."""
    after = scans.cursor_of(query, _order(KINDS[0]))
    source, limit = source_across_projects(actor, query), query.limit + 1
    filters = {} if isinstance(query.user, UnsetType) else {"user": source.key_of(query.user)}
    most = scans.MAX_SCANNED_ROWS // len(KINDS)
    params = {**source.params, **filters, "limit": limit, "most": most, **scans.after_params(_KEY, after)}
    statement = _statement(source.scope, frozenset(filters), after is not None)
    return scans.read_page(await reader.fetch_all(statement, params), _KEY, source, _comment_of, limit)


def _comment_of(row: Row, place: ProjectRef, _: Source) -> AnyComment:
    kind = KINDS[row["page_kind"]]
    owner_id, title = row["owner_id"], row["owner_title"]
    on_task = kind == "task_comment"
    return AnyComment(
        kind=kind,
        id=row["comment_id"],
        text=row["text"],
        private=bool(row["private"]),
        user=person_of_row(row),
        task=CommentedTask(owner_id, title) if on_task else None,
        file=None if on_task else CommentedFile(owner_id, title, ""),
        file_comment_id=row["file_comment_id"],
        project=RecordPlace(place.id, place.title),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


# --- people, as choices for filters -----------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _people_statement(scope: Scope) -> sa.Select[Any]:
    """Select the team of each project, and its clients if the caller is on the team."""
    place = visible_projects(scope).each
    owned = (
        sa.select(projects.c.account_id, projects.c.private)
        .join(place, place.c.repository_id == projects.c.repository_id)
        .distinct()
        .cte("owned")
    )
    seen_by = sa.or_(memberships.c.role == "owner", owned.c.private.is_(sa.false()))
    ids = sa.union(
        sa.select(CALLER.label("id")),
        sa.select(owned.c.account_id),
        sa.select(memberships.c.user_id)
        .join(owned, owned.c.account_id == memberships.c.organization_id)
        .where(seen_by),
        sa.select(collaborators.c.user_id).join(place, place.c.repository_id == collaborators.c.repository_id),
        sa.select(clients.c.user_id)
        .join(place, place.c.repository_id == clients.c.repository_id)
        .where(place.c.insider == 1),
    ).subquery("ids")
    return (
        sa.select(*person_columns(ADDRESS_HIDDEN))
        .where(accounts.c.id.in_(sa.select(ids.c.id)), accounts.c.kind == "user")
        .order_by(accounts.c.id)
        .limit(bigint_param("limit"))
    )


async def list_all_people(reader: Reader, actor: Actor, query: Any, *, archived: bool, limit: int) -> list[PersonShape]:
    """Return up to `limit` people to whom the tasks matching `query` can be assigned, oldest accounts first."""
    source = source_across_projects(actor, query, archived=archived)
    rows = await reader.fetch_all(_people_statement(source.scope), {**source.params, "limit": limit})
    return [person_of_row(row) for row in rows]


# --- the API ----------------------------------------------------------------------------------------------------------

routes = Routes(WORK_API)


@routes.get("/tasks", tag="Tasks")
async def list_all_tasks(call: Call, query: AllTasksQuery) -> Listed[TasksAnswer]:
    """List, filter and search the tasks of every project the caller can see.

    A page may be short or empty without being the last. Follow the `Link` header until it has no next page.
    """
    sort = listing.sort_of(query)
    return await tasks_api.list_page(
        call, source_across_projects(actor_of(call), query), query, sort, cursor_of(query, listing.ORDERS[sort])
    )


@routes.get(
    "/timesheets", tag="Timesheets", answers={200: TimesheetsAnswer}, other_media_types=(csv_tables.MEDIA_TYPE,)
)
async def list_all_timesheets(call: Call, query: AllTimesheetsQuery) -> Response:
    """List the timesheets of every project where the caller is an owner or a member.

    A page may be short or empty without being the last. Follow the `Link` header until it has no next page. With
    `Accept: text/csv`, the response is a table of all matching timesheets or, with `per_page`, of one page of them.
    """
    zone, ids = zone_named(query.timezone), (if_set(query.project_id) or "").split(",")
    is_unnamed = isinstance(query.timezone, UnsetType)
    if is_unnamed and len(ids) == 1 and (is_bare(query.from_) or is_bare(query.to)):
        zone = await find_zone_by_project(call.database, ids[0])
    source = source_across_projects(actor_of(call), query, team_only=True, zone=zone)
    days = None if is_unnamed else zone
    return await timesheets.answer_list(call, source, query, cursor_of(query), "timesheets", days=days)


@routes.get("/timesheets/running", tag="Timesheets")
async def list_running_timesheets(call: Call, query: RunningQuery) -> Listed[TimesheetsAnswer]:
    """List the running timers of every project where the caller is an owner or member, longest running first."""
    source, after = source_across_projects(actor_of(call), query, team_only=True), cursor_of(query, RUNNING.order)
    rows, headers = await read_for(call, RUNNING, source, query, after, **RUNNING.to_filters(query, source))
    now = now_ms()
    return Listed(TimesheetsAnswer([timesheet_to_response(each, now) for each in rows]), headers)


@routes.get("/invoices", tag="Invoices")
async def list_all_invoices(call: Call, query: AllInvoicesQuery) -> Listed[PlacedInvoicesAnswer]:
    """List the invoices of every project the caller can see.

    Clients do not see drafts. A page may be short or empty without being the last. Follow the `Link` header until it
    has no next page.
    """
    after, source, now = cursor_of(query), source_across_projects(actor_of(call), query), now_ms()
    rows, headers = await read_for(call, INVOICES, source, query, after, **filters_of(query, source, now))
    placed = cast(list[Wire[PlacedInvoice]], [invoice_to_response(each, now) for each in rows])
    return Listed(PlacedInvoicesAnswer(placed), headers)


@routes.get("/files", tag="Files")
async def list_all_files(call: Call, query: AllFilesQuery) -> Listed[FilesAnswer]:
    """List the files of every project the caller can see.

    A page may be short or empty without being the last. Follow the `Link` header until it has no next page.
    """
    return await files_api.list_page(call, source_across_projects(actor_of(call), query), query)


@routes.get("/comments", tag="Task Comments")
async def list_comments(call: Call, query: AllCommentsQuery) -> Listed[AnyCommentsAnswer]:
    """List the comments and replies in every project the caller can see, oldest first.

    Covers comments on tasks and files. A page may be short or empty without being the last. Follow the `Link` header
    until it has no next page.
    """
    rows, headers = lists.page(call, await find_comments(call.database, actor_of(call), query), query)
    links = links_of(call)
    files = [each.file and msgspec.structs.replace(each.file, link=links(each.file.id)) for each in rows]
    linked = [msgspec.structs.replace(each, file=file) for each, file in zip(rows, files, strict=True)]
    return Listed(AnyCommentsAnswer([to_response(each) for each in linked]), headers)
