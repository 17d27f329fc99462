"""What an import makes: a project, its columns, their tasks and comments, and who is assigned. Every source gives this.

Every key is `KIND:ID` with the id of the other service: by it a later import knows what was made already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from workhook.core import json
from workhook.core.errors import Message
from workhook.work.board.projects.schemas import LabelColor
from workhook.work.board.tasks.schemas import Level, Stage, completes


class Person(msgspec.Struct, frozen=True):
    """Somebody of the other service. What is not known of them is empty."""

    id: str
    username: str
    full_name: str

    @property
    def known_as(self) -> str:
        """What tells them from others of the same name."""
        return self.username or self.id or self.full_name

    @property
    def display_name(self) -> str:
        """`Ada Lovelace (ada)`, as far as it is known."""
        names = list(dict.fromkeys(each for each in (self.full_name.strip(), self.username.strip()) if each))
        if len(names) == 2:
            return f"{names[0]} ({names[1]})"
        return names[0] if names else self.id or "somebody unknown"


class PlannedColumn(msgspec.Struct, frozen=True):
    key: str
    title: str
    stage: Stage | None = None
    finished: bool = False

    @property
    def completes(self) -> bool:
        """A task that is in such a column is finished."""
        return completes(self.stage, self.finished)


class PlannedComment(msgspec.Struct, frozen=True):
    """`created_at` None: nobody knows."""

    key: str
    text: str
    author: Person
    created_at: int | None


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """`finished_at`: when, as far as that is known, for a task that is `finished`. Comments are oldest first.
    `parent_key`: of the task that it is a subtask of, which stands before it in the plan. `blocked_by`: keys of the
    tasks that it waits for. `repeat`: the rule by which the next task is made."""

    key: str
    column_key: str
    title: str
    description: str | None
    deadline: int | None
    cover_url: str | None = None
    labels: list[str]
    fields: dict[str, str]
    sections: dict[str, dict[str, str]] = {}
    members: list[Person]
    finished: bool
    finished_at: int | None
    created_at: int | None
    comments: list[PlannedComment] = []
    priority: Level | None = None
    estimate_ms: int | None = None
    parent_key: str | None = None
    blocked_by: list[str] = []
    repeat: str | None = None
    billable: bool | None = None


class Lost(msgspec.Struct, frozen=True):
    """Things of the other service that have no place here. `what`: one of `losses.SENTENCES`. `names`: the first of
    them. `kept`: where their text is kept; None: nowhere."""

    what: str
    count: int
    names: list[str]
    kept: str | None = None


class PlannedField(msgspec.Struct, frozen=True):
    """What a field of a table becomes: one of `words.FIELDS`, or `field`, one of the task with the same name, or
    `nothing`, where no line has a value. `kept`: the first of its values that mean no such thing, and stay as text."""

    name: str
    becomes: str
    kept: list[str] = []


class ImportPlan(msgspec.Struct, frozen=True):
    """Columns in their order; tasks in the order of their columns, and in each in theirs, but for subtasks: they come
    behind the task above them. `fields`: those of a table, in its order. `label_colors`: of a project that is new."""

    source: str
    key: str
    title: str
    columns: list[PlannedColumn]
    tasks: list[PlannedTask]
    warnings: list[Message]
    lost: list[Lost] = []
    fields: list[PlannedField] = []
    label_colors: dict[str, LabelColor] = {}


_LATER: Mapping[str, object] = {
    "priority": None,
    "estimate_ms": None,
    "parent_key": None,
    "blocked_by": [],
    "repeat": None,
    "billable": None,
}
"""Fields that earlier fingerprints did not have: they are part of one only where they say something."""


def fingerprint(planned: PlannedColumn | PlannedTask | PlannedComment) -> str:
    """Tells two states of one thing of the other service apart. The comments of a task are not part of it."""
    names = [each for each in planned.__struct_fields__ if each not in ("comments", "finished_at")]
    values = {each: getattr(planned, each) for each in names}
    said = {name: value for name, value in values.items() if name not in _LATER or value != _LATER[name]}
    return hashlib.blake2b(json.encode(said), digest_size=12).hexdigest()
