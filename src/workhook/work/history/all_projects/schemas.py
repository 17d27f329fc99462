"""Parameters and responses of lists across projects, where they differ from the lists of one project."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import EventSchema, Record, Timestamp, Wire
from workhook.http.lists import ListQuery
from workhook.work.board.tasks.inputs import TasksQuery
from workhook.work.discussion.schemas import CommentedFile, CommentedTask
from workhook.work.files.schemas import FileQuery
from workhook.work.kernel.day_bounds import TimeZone
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.schemas import RecordPlace
from workhook.work.kernel.scopes import OrganizationLogin, ProjectIds
from workhook.work.money.invoices.schemas import InvoiceList, PlacedInvoice
from workhook.work.time.timesheets.schemas import TimesheetsQuery

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
    timezone: Annotated[TimeZone, Meta(description="IANA name. Default: `UTC`.")] | UnsetType = UNSET


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
