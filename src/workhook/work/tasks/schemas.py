"""A task on the wire, and what a caller may say about one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.records import COMPUTED, HIDDEN, LINK, JsonForm, Millis, Record, Wire, resource_id
from workhook.http.lists import ListQuery
from workhook.http.parameters import DayOrMoment, LongText, Prepared, Title, WebAddress
from workhook.work.people import PersonShape

Level = Literal["low", "medium", "high"]
Priority = Annotated[
    Level,
    Meta(
        description="In any case.",
        extra_json_schema={"enum": ["Low", "Medium", "High", "low", "medium", "high"]},
    ),
    Prepared(str.lower),
]
Position = Annotated[int, Meta(ge=0, le=2**53 - 1, description="0-based, in its column; past the end it is the end.")]
KEYS_MAX = 100
Texts = Annotated[dict[str, str], Meta(max_length=KEYS_MAX, description="Free keys; an object in JSON.")]
Sections = Annotated[dict[str, Texts], Meta(max_length=KEYS_MAX, description="Objects by name; an object in JSON.")]
# In a list `Prepared` does not apply: `actions` trims those.
Label = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S"), Prepared(str.strip)]
Labels = Annotated[list[Label], Meta(max_length=100)]
Usernames = Annotated[list[str], Meta(max_length=100, description="Usernames of people who see the project.")]
ColumnId = Annotated[str, Meta(description="A column of the task's project.")]
OfProject = Annotated[str, Meta(description="The project's id: it must be that of the task.")]


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
    project_id: OfProject | UnsetType = UNSET


class TaskCreate(TaskContent, kw_only=True):
    """Without `position` the task comes last in its column."""

    title: Title


class TaskEdit(TaskContent):
    """What is absent stays. Without `position` a task that changes its column comes last there."""

    title: Title | UnsetType = UNSET
    column_id: ColumnId | UnsetType = UNSET


class OfProjectQuery(msgspec.Struct):
    project_id: OfProject | UnsetType = UNSET


class ColumnTasksQuery(ListQuery):
    project_id: OfProject | UnsetType = UNSET


Sort = Literal[
    "created_at", "-created_at", "updated_at", "-updated_at", "deadline", "-deadline", "title", "-title"
]  # fmt: skip


class TasksQuery(ListQuery):
    """Filters of a project's tasks; each that is given narrows the list."""

    priority: Priority | UnsetType = UNSET
    assignee: Annotated[str, Meta(description="A username.")] | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    deadline_before: DayOrMoment | UnsetType = UNSET
    deadline_after: DayOrMoment | UnsetType = UNSET
    finished: Annotated[bool, Meta(description="Whether the task is completed.")] | UnsetType = UNSET
    q: Annotated[str, Meta(max_length=255, description="Words of title and description.")] | UnsetType = UNSET
    sort: (
        Annotated[Sort, Meta(description="`-` for descending; without a deadline comes last. By id without it.")]
        | UnsetType
    ) = UNSET


class TaskProjectShape(msgspec.Struct):
    id: Annotated[str, resource_id("prj")]
    title: str


class TaskColumnShape(msgspec.Struct):
    id: Annotated[str, resource_id("col")]
    title: str


class Task(Record, frozen=True):
    """`position` is 0-based in the task's column."""

    id: Annotated[str, resource_id("tsk")]
    title: str
    description: str | None
    cover_url: Annotated[str | None, LINK]
    priority: Level | None
    deadline: Millis | None
    position: Annotated[int, COMPUTED]
    fields: Annotated[str, JsonForm(dict[str, str], json.decode)]
    sections: Annotated[str, JsonForm(dict[str, dict[str, str]], json.decode)]
    project: TaskProjectShape
    column: TaskColumnShape
    assignees: tuple[PersonShape, ...]
    labels: Annotated[str, JsonForm(list[str], json.decode)]
    completed_at: Millis | None
    created_at: Millis
    updated_at: Millis
    user_id: Annotated[int, HIDDEN]  # who made it


class TaskAnswer(msgspec.Struct):
    task: Wire[Task]
    success: bool = True


class TasksAnswer(msgspec.Struct):
    tasks: Sequence[Wire[Task]]
    success: bool = True
