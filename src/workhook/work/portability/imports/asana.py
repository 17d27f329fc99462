"""From the export of an Asana project ("Export", "JSON") to the plan of a project. Pure.

The answer of Asana's API to `GET /tasks?project=…` has the same form. docs/how-to/import.md says what becomes what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

from workhook.core.errors import Message, part, say, shown
from workhook.work.portability.imports.board import ColumnNames, in_families
from workhook.work.portability.imports.dependencies import without_circles
from workhook.work.portability.imports.json_file import Node, NotUsable, name_of, parse_json
from workhook.work.portability.imports.losses import Losses
from workhook.work.portability.imports.plan import ImportPlan, Person, PlannedColumn, PlannedTask
from workhook.work.portability.imports.texts import (
    KEY_MAX_CHARS,
    LABELS_MAX,
    Distinct,
    PropertyBudget,
    ThingWarnings,
    described,
    first_of,
    is_cut,
    moment_of,
    priority_in,
    title_of,
    unknown_names,
)
from workhook.work.portability.imports.words import StageNames

SOURCE = "asana"
NO_SECTION = "No section"
URL, START, DUE, LIKES, KIND, MINUTES = (
    "asana_url", "asana_start", "asana_due", "asana_likes", "asana_type", "asana_actual_minutes",
)  # fmt: skip


class AsanaName(msgspec.Struct, frozen=True):
    """A project, section, tag or person."""

    id: str = msgspec.field(name="gid")
    name: str


class TaskMembership(msgspec.Struct, frozen=True):
    project: AsanaName
    section: AsanaName


class AsanaField(msgspec.Struct, frozen=True):
    """A custom field of a task, with its value as Asana shows it."""

    name: str
    value: str


class AsanaTask(msgspec.Struct, frozen=True):
    """`parent_id`: of the task that it stands in, or that it names."""

    id: str
    parent_id: str
    name: str
    notes: str
    completed: bool
    completed_at: str
    created_at: str
    modified_at: str
    due: str
    start: str
    url: str = msgspec.field(name="permalink_url")
    kind: str = msgspec.field(name="resource_subtype")
    minutes: str
    likes: int
    assignee: AsanaName
    followers: list[AsanaName]
    tags: list[AsanaName]
    attachments: list[AsanaName]
    memberships: list[TaskMembership]
    dependencies: list[AsanaName]
    fields: list[AsanaField]


def is_export(found: object) -> bool:
    """Whether JSON looks like a file of Asana."""
    return isinstance(found, dict) and isinstance(found.get("data"), list)


def read_project(data: bytes) -> list[AsanaTask]:
    """The tasks of a file, each before its subtasks. Raises `NotUsable`."""
    found = parse_json(data)
    if not isinstance(found, dict):
        raise NotUsable([f"it is no export of Asana: it holds {name_of(found)}, not an object"])
    if "data" not in found:
        raise NotUsable(["it is no export of Asana: it has no list of tasks called data"])
    top = Node(found, "")
    tasks = list(_tasks(top))
    if top.faults:
        raise NotUsable(top.faults)
    return _without_repeats(tasks)


def _tasks(top: Node) -> Iterator[AsanaTask]:
    """A stack of what is left, and not a call for each level, which a file may have very many of."""
    left = [(each, "") for each in reversed(list(top.nodes("data")))]
    while left:
        node, parent_id = left.pop()
        task = _task(node, parent_id)
        yield task
        left += [(each, task.id) for each in reversed(list(node.nodes("subtasks")))]


def _without_repeats(tasks: list[AsanaTask]) -> list[AsanaTask]:
    """A subtask that is in a section of its own is in some files twice: there, and in its task."""
    found: dict[str | int, AsanaTask] = {}
    for at, each in enumerate(tasks):
        before = found.get(each.id or at)
        if before is None:
            found[each.id or at] = each
        elif each.parent_id and not before.parent_id:
            found[each.id] = msgspec.structs.replace(before, parent_id=each.parent_id)
    return list(found.values())


def _task(node: Node, parent_id: str) -> AsanaTask:
    likes = max(_count(node, "num_likes"), _count(node, "num_hearts"))
    return node.read(
        AsanaTask,
        id=_id(node),
        parent_id=parent_id or _id(node.node("parent")),
        due=node.text("due_at") or node.text("due_on"),
        start=node.text("start_at") or node.text("start_on"),
        minutes=node.scalar("actual_time_minutes"),
        likes=max(likes, len(list(node.nodes("likes")))),
        assignee=_named(node.node("assignee")),
        followers=[_named(each) for each in node.nodes("followers")],
        tags=[_named(each) for each in node.nodes("tags")],
        attachments=[_named(each) for each in node.nodes("attachments")],
        memberships=[
            TaskMembership(_named(each.node("project")), _named(each.node("section")))
            for each in node.nodes("memberships")
        ],
        dependencies=[_named(each) for each in node.nodes("dependencies")],
        fields=[_field(each) for each in node.nodes("custom_fields")],
    )


def _named(node: Node) -> AsanaName:
    return AsanaName(_id(node), node.text("name"))


def _id(node: Node) -> str:
    """Older files have numbers."""
    return node.scalar("gid") or node.scalar("id")


def _count(node: Node, key: str) -> int:
    found = node.number(key)  # what is missing is infinite
    return int(found) if 0 <= found < 1_000_000 else 0


def _field(node: Node) -> AsanaField:
    """`display_value` is there for every type; without it the value is that of the field's type."""
    value = node.text("display_value") or node.scalar("text_value") or node.scalar("number_value")
    value = value or node.node("enum_value").text("name")
    for key in ("multi_enum_values", "people_value"):
        value = value or ", ".join(each.text("name") for each in node.nodes(key))
    day = node.node("date_value")
    return AsanaField(node.text("name"), value or day.text("date_time") or day.text("date"))


def plan_of_project(
    tasks: list[AsanaTask],
    stem: str,
    *,
    title: str = "",
    done: Collection[str] = (),
    not_done: Collection[str] = (),
) -> ImportPlan:
    """`stem`: the name of the file. `title`: of the project, if it is to have another than in Asana. `done` and
    `not_done`: names of sections, as `StageNames` has them."""
    counts = Counter(each.project for task in tasks for each in task.memberships if each.project.id)
    project = counts.most_common(1)[0][0] if counts else AsanaName("", "")
    name = title or project.name or stem
    made = _TaskMapper(project.id or title_of(name), tasks, StageNames(done, not_done))
    planned = [made.task(each) for each in tasks]
    planned = without_circles(in_families(planned, made.losses), made.losses)
    warnings = [*unknown_names(done, (each.title for each in made.columns.columns), "section"), *made.warnings]
    if is_cut(name):
        warnings.append(part("the project's name is cut to 255 characters"))
    columns = made.columns
    return ImportPlan(
        SOURCE, made.project_key, title_of(name), columns.columns, planned, [*warnings, *columns.warnings],
        made.losses.found(),
    )  # fmt: skip


class _TaskMapper:
    """Maps tasks one by one."""

    def __init__(self, project_id: str, tasks: list[AsanaTask], stages: StageNames) -> None:
        self.project_key = f"project:{project_id}"
        self.columns = ColumnNames(self.project_key, stages, NO_SECTION)
        self.losses = Losses()
        self.warnings: list[Message] = []
        self._project_id = project_id
        self._key_of = Distinct(KEY_MAX_CHARS)
        self._by_id = {each.id: each for each in tasks if each.id}

    def task(self, task: AsanaTask) -> PlannedTask:
        warn = ThingWarnings("task", task.name, self.warnings)
        column = self._column(task)
        deadline = moment_of(task.due)
        if task.due and deadline is None:
            warn(say("its due date {} is no time; the field {} keeps it", repr(shown(task.due)), DUE))
        priority, fields = priority_in([(each.name, each.value) for each in task.fields])
        self._note_lost(task)
        finished = task.completed or column.completes
        person = Person(task.assignee.id, "", task.assignee.name)
        labels = list(dict.fromkeys(title_of(each.name) for each in task.tags if each.name.strip()))
        return PlannedTask(
            # Without a gid it is the same in every export that has it under the same name.
            key=self._key_of(self._key(task.id or title_of(task.name))),
            column_key=column.key,
            title=title_of(task.name),
            description=described("name", task.name, task.notes, warn),
            deadline=deadline,
            labels=first_of(labels, LABELS_MAX, say("tags"), warn),
            fields=self._fields(task, fields, task.due if deadline is None else "", PropertyBudget(warn)),
            members=[person] if person.id or person.full_name else [],
            finished=finished,
            finished_at=moment_of(task.completed_at or task.modified_at) if finished else None,
            created_at=moment_of(task.created_at),
            priority=priority,
            parent_key=self._key(task.parent_id) if task.parent_id else None,
            blocked_by=[self._key(each.id) for each in task.dependencies if each.id],
        )

    def _key(self, task_id: str) -> str:
        """Of a task of this project: in Asana it can be in several, and is then in each of them here."""
        return f"task:{self._project_id}/{task_id}"

    def _column(self, task: AsanaTask) -> PlannedColumn:
        """That of its section; a subtask without one stands in the column of the task above it."""
        at: AsanaTask | None = task
        seen = set[str]()
        while at is not None and at.id not in seen:
            for each in at.memberships:
                if each.project.id == self._project_id:
                    return self.columns.column(each.section.name, each.section.id)
            seen.add(at.id)
            at = self._by_id.get(at.parent_id)
        return self.columns.column("")

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
        self.losses.add("votes", task.name, kept=f"the field {LIKES}", count=task.likes)
        self.losses.add("start_dates", task.name, kept=f"the field {START}", count=bool(task.start))
        for each in task.attachments:
            self.losses.add("files", each.name)
        for each in task.followers:
            if each.id != task.assignee.id:
                self.losses.add("followers", each.name)
