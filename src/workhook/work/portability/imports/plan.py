"""The plan of an import: a project, its columns, tasks and comments, and their people. Every source returns plans.

Every key has the form `KIND:ID`, with the ID in the other service, so that later imports recognize existing records.
Data that cannot be imported is counted and named before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

import msgspec

from workhook.core import json
from workhook.core.errors import Message, Number, say, shown
from workhook.work.board.projects.schemas import LabelColor
from workhook.work.board.tasks.schemas import Level, Stage, completes


class Person(msgspec.Struct, frozen=True):
    """A person in the other service. Unknown names are empty."""

    id: str
    username: str
    full_name: str

    @property
    def known_as(self) -> str:
        return self.username or self.id or self.full_name

    @property
    def display_name(self) -> str:
        """Return the known names in the form `Ada Lovelace (ada)`."""
        names = list(dict.fromkeys(each for each in (self.full_name.strip(), self.username.strip()) if each))
        if len(names) == 2:
            return f"{names[0]} ({names[1]})"
        return names[0] if names else self.id or "somebody unknown"


class PlannedColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    title: str
    stage: Stage | None = None
    finished: bool = False

    @property
    def completes(self) -> bool:
        return completes(self.stage, self.finished)


class PlannedComment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A comment. `created_at` is None if unknown."""

    key: str
    text: str
    author: Person
    created_at: int | None


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task.

    `parent_key` is the parent, which precedes the task in the plan. `blocked_by` contains keys of tasks. Comments are
    sorted oldest first. Defaults are omitted from the JSON, so adding a field does not change any `fingerprint`; moving
    or renaming one does.
    """

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
    """Data of the other service that cannot be imported.

    `what` is a key of `SENTENCES`. `names` contains the first few names. `kept` is where the text of the data is kept,
    if anywhere.
    """

    what: str
    count: int
    names: list[str]
    kept: str | None = None


class PlannedField(msgspec.Struct, frozen=True):
    """The use of a table's column.

    `becomes` is one of `words.FIELDS`, `field` for a field of the task with the same name, or `nothing` for an empty
    column. `kept` contains the first few unrecognized values, which are kept as text.
    """

    name: str
    becomes: str
    kept: list[str] = []


class ImportPlan(msgspec.Struct, frozen=True):
    """A project to import.

    `tasks` are in the order of their columns, with subtasks after their parents. `fields` describes the columns of a
    table. `label_colors` applies only to a new project.
    """

    source: str
    key: str
    title: str
    columns: list[PlannedColumn]
    tasks: list[PlannedTask]
    warnings: list[Message]
    lost: list[Lost] = []
    fields: list[PlannedField] = []
    label_colors: dict[str, LabelColor] = {}


def fingerprint(planned: PlannedColumn | PlannedTask | PlannedComment) -> str:
    """Return a hash of a record's state in the other service. The comments of a task are not included."""
    if isinstance(planned, PlannedTask):
        planned = msgspec.structs.replace(planned, comments=[], finished_at=None)
    return hashlib.blake2b(json.encode(planned), digest_size=12).hexdigest()


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's options.

    `title` is the title of the project. `done` and `not_done` are names of columns whose tasks count as finished or
    unfinished, regardless of the column's usual meaning. `mapping` contains column names of a table by meaning
    (`words.FIELDS`).
    """

    title: str = ""
    done: Collection[str] = ()
    not_done: Collection[str] = ()
    mapping: Mapping[str, str] = {}


NAMES_SHOWN = 10

SENTENCES: Mapping[str, str] = {
    "project_description": "project description",
    "files": "contents of files",
    "cover_colors": "cover colors",
    "votes": "votes",
    "item_details": "dates and assignees of checklist items",
    "start_dates": "start dates",
    "history": "history entries",
    "stickers": "stickers",
    "followers": "followers",
    "reactions": "reactions",
    "milestones": "milestones",
    "deep_subtasks": "subtasks of subtasks",
    "more_subtasks": "subtasks beyond 100 per task",
    "dependencies": "dependencies on tasks that are not in the file",
    "circular_dependencies": "circular dependencies",
    "comments": "comments on tasks that are not in the file",
    "checklists": "checklists of tasks that are not in the file",
}
"""Descriptions of lost data by code."""


class Losses:
    """Counters of the data lost while a plan is created."""

    def __init__(self) -> None:
        self._found: dict[str, Lost] = {}

    def add(self, what: str, name: str = "", *, kept: str | None = None, count: int = 1) -> None:
        """Count lost data. `what` is a key of `SENTENCES`, and `kept` is where its text is kept."""
        if not count:
            return
        lost = self._found.get(what, Lost(what, 0, []))
        name = shown(name.strip())
        is_new = name and name not in lost.names and len(lost.names) < NAMES_SHOWN
        self._found[what] = Lost(what, lost.count + count, [*lost.names, name] if is_new else lost.names, kept)

    def found(self) -> list[Lost]:
        return list(self._found.values())


def describe_loss(lost: Lost) -> str:
    """Describe a loss, as in `colors of labels: 2 (Bug: red, Late: blue)`."""
    names = ", ".join(lost.names)
    more = ", …" if names and len(lost.names) < lost.count and len(lost.names) == NAMES_SHOWN else ""
    line = f"{SENTENCES[lost.what]}: {lost.count:,}" + (f" ({names}{more})" if names else "")
    return f"{line}, kept as text in {lost.kept}" if lost.kept else line


def name_some(names: Sequence[str]) -> str:
    """Return the first few names and the number of the others."""
    text = ", ".join(shown(each) for each in names[:NAMES_SHOWN])
    return say("{} and {} more", text, Number(len(names) - NAMES_SHOWN)) if len(names) > NAMES_SHOWN else text
