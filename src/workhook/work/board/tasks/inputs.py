"""What a caller may say about a task, and how tasks are filtered."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.http.lists import ListQuery
from workhook.http.parameters import DayOrMoment, LongText, Title, WebAddress
from workhook.work.board.tasks.field_types import (
    Billable,
    Blockers,
    ColumnId,
    Estimate,
    Label,
    Labels,
    OfProject,
    ParentId,
    Position,
    Priority,
    RepeatRule,
    Sections,
    TaskRate,
    Texts,
    Usernames,
)
from workhook.work.board.tasks.schemas import CONTENT, TERMS
from workhook.work.kernel.day_bounds import Bound, TimeZone


class TaskContent(msgspec.Struct):
    """What a task says, whichever column it is in."""

    description: LongText | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    deadline: DayOrMoment | UnsetType | None = UNSET
    position: Position | UnsetType = UNSET
    cover_url: WebAddress | UnsetType | None = UNSET
    fields: Texts | UnsetType | None = UNSET
    sections: Sections | UnsetType | None = UNSET
    assignees: Usernames | UnsetType | None = UNSET
    labels: Labels | UnsetType | None = UNSET
    hourly_rate: TaskRate | UnsetType | None = UNSET
    billable: Billable | UnsetType | None = UNSET
    estimate: Estimate | UnsetType | None = UNSET
    parent_id: ParentId | UnsetType | None = UNSET
    blocked_by: Blockers | UnsetType | None = UNSET
    repeat: RepeatRule | UnsetType | None = UNSET
    project_id: OfProject | UnsetType = UNSET


PLAIN_FIELDS = [
    each
    for each in TaskContent.__struct_fields__
    if each in CONTENT and each not in {"fields", "sections", "labels", *TERMS}
]
"""Fields whose values are stored as a caller gives them."""


class TaskCreate(TaskContent, kw_only=True):
    """Without `position` the task comes last in its column."""

    title: Title


class TaskEdit(TaskContent):
    """Fields that are absent stay as they are. Without `position` a task that changes its column comes last there."""

    title: Title | UnsetType = UNSET
    column_id: ColumnId | UnsetType = UNSET


class OfProjectQuery(msgspec.Struct):
    project_id: OfProject | UnsetType = UNSET


Sort = Literal[
    "created_at", "-created_at", "updated_at", "-updated_at", "deadline", "-deadline", "title", "-title"
]  # fmt: skip


class TaskFilters(ListQuery):
    """Filters of tasks; each that is given narrows the list."""

    priority: Priority | UnsetType = UNSET
    assignee: Annotated[str, Meta(description="A username.")] | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    deadline_before: (
        Annotated[Bound, Meta(description="RFC 3339, or a date, which means before that day.")] | UnsetType
    ) = UNSET
    deadline_after: (
        Annotated[Bound, Meta(description="RFC 3339, or a date, which means after that day.")] | UnsetType
    ) = UNSET
    timezone: (
        Annotated[TimeZone, Meta(description="IANA name: on which day a deadline with a time is. Default: `UTC`.")]
        | UnsetType
    ) = UNSET
    finished: Annotated[bool, Meta(description="Whether the task is completed.")] | UnsetType = UNSET
    parent_id: ParentId | UnsetType = UNSET
    blocked: Annotated[bool, Meta(description="Whether the task waits for one that is not completed.")] | UnsetType = (
        UNSET
    )
    q: Annotated[str, Meta(max_length=255, description="Words in the title and the description.")] | UnsetType = UNSET


class ColumnTasksQuery(TaskFilters):
    """Filters of a column's tasks; each that is given narrows the list."""

    project_id: OfProject | UnsetType = UNSET


class TasksQuery(TaskFilters):
    """Filters of a project's tasks; each that is given narrows the list."""

    sort: (
        Annotated[Sort, Meta(description="`-` means descending. Tasks without a deadline come last. Default: by id.")]
        | UnsetType
    ) = UNSET
