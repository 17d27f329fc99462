"""Parameters of task operations: content fields and filters."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import DAY_MS
from workhook.http.lists import ListQuery
from workhook.http.parameters import (
    ON_ONE_LINE,
    Converter,
    DayOrMoment,
    LongText,
    OfLimitedSize,
    Rule,
    Title,
    Transform,
    WebAddress,
)
from workhook.http.wire_types import WIRE_TYPE
from workhook.work.board.tasks import recurrence
from workhook.work.board.tasks.schemas import CONTENT, TERMS, Level
from workhook.work.kernel.day_bounds import Bound, TimeZone
from workhook.work.kernel.schemas import RATE_MAX, read_duration_up_to, read_rate

Priority = Annotated[
    Level,
    Meta(
        description="Case is ignored.",
        extra_json_schema={"enum": ["Low", "Medium", "High", "low", "medium", "high"]},
    ),
    Transform(str.lower),
]
Position = Annotated[
    int, Meta(ge=0, le=2**53 - 1, description="Zero-based position in the column; past the end means the end.")
]
KEYS_MAX = 100
Texts = Annotated[
    dict[str, str],
    Meta(max_length=KEYS_MAX, description="A JSON object with any keys, of at most 64 KiB."),
    OfLimitedSize,
]
Sections = Annotated[
    dict[str, Annotated[dict[str, str], Meta(max_length=KEYS_MAX, description="A JSON object with any keys.")]],
    Meta(max_length=KEYS_MAX, description="A JSON object: objects by name, of at most 64 KiB together."),
    OfLimitedSize,
]
Label = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S"), ON_ONE_LINE]
Labels = Annotated[list[Label], Meta(max_length=100)]
Usernames = Annotated[list[str], Meta(max_length=100, description="Usernames of people with access to the project.")]
ColumnId = Annotated[str, Meta(description="A column of the task's project.")]
ParentId = Annotated[str, Meta(max_length=64, description="ID of the parent task, in the same project.")]
BLOCKERS_MAX = 50
Blockers = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(max_length=BLOCKERS_MAX, description="IDs of tasks that block this one, in the same project."),
]
RepeatRule = Annotated[
    str,
    Meta(
        max_length=recurrence.TEXT_MAX,
        description=f"A recurrence rule of RFC 5545 for days, such as {recurrence.EXAMPLES}.",
    ),
    Transform(recurrence.canonical),
    Rule(recurrence.find_rule_error),
]
OfProject = Annotated[str, Meta(description="The project's ID; it must match the task.")]
TaskRate = Annotated[
    Decimal,
    Meta(
        extra_json_schema={WIRE_TYPE: ["number", "string"], "minimum": 0, "maximum": RATE_MAX},
        description="Hourly rate of the task, with at most the decimal places of the project's currency, as a "
        "number or text. Requires the admin role. Null: the project's rate.",
    ),
    Converter(read_rate, (int, float, str)),
]
Billable = Annotated[bool, Meta(description="Whether time on the task is billable. Null: the project's default.")]
ESTIMATE_MAX_MS = 3660 * DAY_MS
Estimate = Annotated[
    int,
    Meta(
        extra_json_schema={WIRE_TYPE: ["integer", "string"], "minimum": 0, "maximum": ESTIMATE_MAX_MS},
        description="Estimate: milliseconds, or text such as `1h 30m`, `90m`, `1.5h`, `1.5`, `1:30`, `:15`, "
        "`1:30:15` or `PT1H30M`, in whole seconds. Null: none.",
    ),
    Converter(read_duration_up_to(ESTIMATE_MAX_MS), (int, str)),
]


class TaskContent(msgspec.Struct):
    """The content of a task, without its column."""

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
"""Fields whose values are stored as given."""


class TaskCreate(TaskContent, kw_only=True):
    """Without `position`, the task is added at the end of its column."""

    title: Title


class TaskEdit(TaskContent):
    """Omitted fields are left unchanged. Without `position`, a task that changes columns is added at the end."""

    title: Title | UnsetType = UNSET
    column_id: ColumnId | UnsetType = UNSET


class OfProjectQuery(msgspec.Struct):
    project_id: OfProject | UnsetType = UNSET


Sort = Literal[
    "created_at", "-created_at", "updated_at", "-updated_at", "deadline", "-deadline", "title", "-title"
]  # fmt: skip


class TaskFilters(ListQuery):
    """Task filters. A task must match all that are given."""

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
        Annotated[
            TimeZone,
            Meta(description="Time zone (IANA name) that decides the day of deadlines with a time. Default: `UTC`."),
        ]
        | UnsetType
    ) = UNSET
    finished: Annotated[bool, Meta(description="Whether the task is completed.")] | UnsetType = UNSET
    parent_id: ParentId | UnsetType = UNSET
    blocked: Annotated[bool, Meta(description="Whether the task is blocked by an open task.")] | UnsetType = UNSET
    q: Annotated[str, Meta(max_length=255, description="Words in the title and the description.")] | UnsetType = UNSET


class ColumnTasksQuery(TaskFilters):
    """Filters for the tasks of a column. A task must match all that are given."""

    project_id: OfProject | UnsetType = UNSET


class TasksQuery(TaskFilters):
    """Filters for the tasks of a project. A task must match all that are given."""

    sort: (
        Annotated[Sort, Meta(description="`-` means descending. Tasks without a deadline come last. Default: by id.")]
        | UnsetType
    ) = UNSET
