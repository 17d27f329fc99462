"""Plans of projects from Asana exports ("Export", "JSON"). Pure functions.

Asana's API returns the same format for `GET /tasks?project=…`. docs/team/import.md documents the mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec

from workhook.core.errors import phrase, say
from workhook.work.portability.imports.json_file import Derived, InvalidFile, Key, Node, name_of, parse_json
from workhook.work.portability.imports.mapping import (
    LABELS_MAX,
    PlanMaker,
    PropertyBudget,
    ThingWarnings,
    deadline_of,
    described,
    first_of,
    is_cut,
    parse_moment,
    priority_in,
    title_of,
)
from workhook.work.portability.imports.plan import Choices, ImportPlan, Person, PlannedColumn, PlannedTask

SOURCE = "asana"
NO_SECTION = "No section"
URL, START, DUE, LIKES, KIND, MINUTES = (
    "asana_url", "asana_start", "asana_due", "asana_likes", "asana_type", "asana_actual_minutes",
)  # fmt: skip

_ID = Key("gid", "id", by=Node.scalar)  # numeric in older files


class AsanaName(msgspec.Struct, frozen=True):
    """A project, section, tag or person."""

    id: Annotated[str, _ID]
    name: str


class TaskMembership(msgspec.Struct, frozen=True):
    project: AsanaName
    section: AsanaName


class AsanaField(msgspec.Struct, frozen=True):
    """A custom field of a task, with its value as displayed by Asana."""

    value: Annotated[str, Derived(_value_of)]
    name: str


class AsanaTask(msgspec.Struct, frozen=True):
    """A task. `parent_id` is the ID of the enclosing task or of the parent it names."""

    likes: Annotated[
        int, Derived(lambda task: max(task.count("num_likes"), task.count("num_hearts"), task.length("likes")))
    ]
    id: Annotated[str, _ID]
    parent_id: Annotated[str, Key("parent.gid", "parent.id", by=Node.scalar)]
    due: Annotated[str, Key("due_at", "due_on")]
    start: Annotated[str, Key("start_at", "start_on")]
    minutes: Annotated[str, Key("actual_time_minutes", by=Node.scalar)]
    assignee: AsanaName
    followers: list[AsanaName]
    tags: list[AsanaName]
    attachments: list[AsanaName]
    memberships: list[TaskMembership]
    dependencies: list[AsanaName]
    fields: Annotated[list[AsanaField], Key("custom_fields")]
    name: str
    notes: str
    completed: bool
    completed_at: str
    created_at: str
    modified_at: str
    url: Annotated[str, Key("permalink_url")]
    kind: Annotated[str, Key("resource_subtype")]


def is_export(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("data"), list)


def read_project(data: bytes) -> list[AsanaTask]:
    """Return the tasks of a file, each before its subtasks. Raises `InvalidFile`."""
    found = parse_json(data)
    if not isinstance(found, dict):
        raise InvalidFile([f"this is not an Asana export: it contains {name_of(found)}, not an object"])
    if "data" not in found:
        raise InvalidFile(["this is not an Asana export: it has no list of tasks called data"])
    top = Node(found, "")
    tasks = list(_tasks(top))
    if top.faults:
        raise InvalidFile(top.faults)
    by_id: dict[str | int, AsanaTask] = {}
    for at, each in enumerate(tasks):  # a subtask may be listed in a section as well as under its parent
        before = by_id.setdefault(each.id or at, each)
        if each.parent_id and not before.parent_id:
            by_id[each.id] = msgspec.structs.replace(before, parent_id=each.parent_id)
    return list(by_id.values())


def _tasks(top: Node) -> Iterator[AsanaTask]:
    """Read tasks iteratively, because a file can be nested very deeply."""
    left = [(each, "") for each in reversed(list(top.nodes("data")))]
    while left:
        node, parent_id = left.pop()
        task = node.read(AsanaTask, **({"parent_id": parent_id} if parent_id else {}))
        yield task
        left += [(each, task.id) for each in reversed(list(node.nodes("subtasks")))]


def _value_of(node: Node) -> str:
    """Return `display_value`, or the value of the field's type if it is missing."""
    value = node.text("display_value") or node.scalar("text_value") or node.scalar("number_value")
    value = value or node.node("enum_value").text("name")
    for key in ("multi_enum_values", "people_value"):
        value = value or ", ".join(each.text("name") for each in node.nodes(key))
    day = node.node("date_value")
    return value or day.text("date_time") or day.text("date")


def plan_of_project(tasks: list[AsanaTask], stem: str, choices: Choices) -> ImportPlan:
    """Plan a project. `stem` is the file name without its extension. `choices.title` overrides the project's name."""
    counts = Counter(each.project for task in tasks for each in task.memberships if each.project.id)
    project = counts.most_common(1)[0][0] if counts else AsanaName("", "")
    name = choices.title or project.name or stem
    project_id = project.id or title_of(name)
    made = PlanMaker(SOURCE, project_id, choices, NO_SECTION)
    mapper = _TaskMapper(project_id, tasks, made)
    planned = [mapper.task(each) for each in tasks]
    if is_cut(name):
        made.warnings.append(phrase("the project's name is shortened to 255 characters"))
    return made.plan(name, planned, "section")


class _TaskMapper:
    def __init__(self, project_id: str, tasks: list[AsanaTask], made: PlanMaker) -> None:
        self._project_id, self._made = project_id, made
        self._by_id = {each.id: each for each in tasks if each.id}

    def task(self, task: AsanaTask) -> PlannedTask:
        warn = ThingWarnings("task", task.name, self._made.warnings)
        column = self._column(task)
        deadline = deadline_of(task.due, DUE, warn)
        priority, fields = priority_in([(each.name, each.value) for each in task.fields])
        self._note_lost(task)
        finished = task.completed or column.completes
        person = Person(task.assignee.id, "", task.assignee.name)
        labels = list(dict.fromkeys(title_of(each.name) for each in task.tags if each.name.strip()))
        return PlannedTask(
            # Without a gid, a task is identified by its name.
            key=self._made.key_of(self._key(task.id or title_of(task.name))),
            column_key=column.key,
            title=title_of(task.name),
            description=described("name", task.name, task.notes, warn),
            deadline=deadline,
            labels=first_of(labels, LABELS_MAX, say("tags"), warn),
            fields=self._fields(task, fields, task.due if deadline is None else "", PropertyBudget(warn)),
            members=[person] if person.id or person.full_name else [],
            finished=finished,
            finished_at=parse_moment(task.completed_at or task.modified_at) if finished else None,
            created_at=parse_moment(task.created_at),
            priority=priority,
            parent_key=self._key(task.parent_id) if task.parent_id else None,
            blocked_by=[self._key(each.id) for each in task.dependencies if each.id],
        )

    def _key(self, task_id: str) -> str:
        """Return a key that includes the project, because an Asana task can be in several projects."""
        return f"task:{self._project_id}/{task_id}"

    def _column(self, task: AsanaTask) -> PlannedColumn:
        """Return the column of the task's section. A subtask without a section is in its parent's column."""
        at: AsanaTask | None = task
        seen = set[str]()
        while at is not None and at.id not in seen:
            for each in at.memberships:
                if each.project.id == self._project_id:
                    return self._made.column(each.section.name, each.section.id)
            seen.add(at.id)
            at = self._by_id.get(at.parent_id)
        return self._made.column("")

    def _fields(
        self, task: AsanaTask, custom: list[tuple[str, str]], due: str, budget: PropertyBudget
    ) -> dict[str, str]:
        own = {
            URL: task.url,
            START: task.start,
            DUE: due,
            LIKES: str(task.likes or ""),
            KIND: "" if task.kind == "default_task" else task.kind,
            MINUTES: task.minutes,
        }
        return budget.fields((*own.items(), *((title_of(name, "custom field"), text) for name, text in custom)))

    def _note_lost(self, task: AsanaTask) -> None:
        self._made.losses.add("votes", task.name, kept=f"the field {LIKES}", count=task.likes)
        self._made.losses.add("start_dates", task.name, kept=f"the field {START}", count=bool(task.start))
        for each in task.attachments:
            self._made.losses.add("files", each.name)
        for each in task.followers:
            if each.id != task.assignee.id:
                self._made.losses.add("followers", each.name)
