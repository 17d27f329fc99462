"""Bulk changes of tasks, which one transaction reads together and writes together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Invalid, NotFound, TooLarge, say
from workhook.core.records import Wire
from workhook.http.parameters import Title
from workhook.identity.context import Write
from workhook.work.board.tasks import actions, assignees, queries
from workhook.work.board.tasks.assignees import Assignable
from workhook.work.board.tasks.inputs import ColumnId, TaskContent
from workhook.work.board.tasks.queries import LockedColumn, PlacedTask, TaskChange
from workhook.work.board.tasks.schemas import Assignees, Task
from workhook.work.board.tasks.writer import TaskWriter
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zones
from workhook.work.kernel.list_statements import PAGE_CHARS
from workhook.work.kernel.schemas import if_set

OPERATIONS_MAX = 1000


class TaskOperation(TaskContent, kw_only=True):
    """One operation on a task.

    `create` takes the fields for creating a task, and `column_id`. `edit` takes the fields for updating one, and its
    `id`. `move` takes `id` with `column_id` or `position`. `delete` takes `id`.
    """

    action: Literal["create", "edit", "move", "delete"]
    id: Annotated[str, Meta(description="ID of the task to change.")] | UnsetType = UNSET
    column_id: ColumnId | UnsetType = UNSET
    title: Title | UnsetType = UNSET


class TasksBulk(msgspec.Struct):
    """Either all operations are applied or none."""

    operations: Annotated[list[TaskOperation], Meta(min_length=1, max_length=OPERATIONS_MAX)]


class TasksBulkAnswer(msgspec.Struct):
    """`tasks` contains one item per operation: the task after all operations, or null if it was deleted."""

    tasks: list[Wire[Task] | None]
    success: bool = True


_REQUIRED = {"create": ("column_id", "title"), "edit": ("id",), "move": ("id",), "delete": ("id",)}
_EVERYTHING = frozenset(TaskOperation.__struct_fields__) - {"action"}
_ALLOWED = {
    "create": _EVERYTHING - {"id"},
    "edit": _EVERYTHING,
    "move": frozenset({"id", "column_id", "position", "project_id"}),
    "delete": frozenset({"id", "project_id"}),
}


def _field(number: int, name: str) -> str:
    return f"operations[{number}].{name}"


def _parameter_faults(number: int, operation: TaskOperation) -> Iterator[Fault]:
    """Yield a fault for each parameter that is missing or that the operation's action does not accept."""
    names = {name for name in _EVERYTHING if getattr(operation, name) is not UNSET}
    for name in _REQUIRED[operation.action]:
        if name not in names:
            field = _field(number, name)
            yield Fault(field=field, code="missing", message=say("{} is required", field))
    if operation.action == "move" and not names & {"column_id", "position"}:
        field = _field(number, "column_id")
        yield Fault(field=field, code="missing", message=say("{} or {} is required", field, _field(number, "position")))
    for name in sorted(names - _ALLOWED[operation.action]):
        field = _field(number, name)
        yield Fault(
            field=field,
            code="unknown",
            message=say("{}: the operation {} does not accept this field", field, operation.action),
        )


def _not_found(number: int, name: str, sentence: str) -> Invalid:
    field = _field(number, name)
    return Invalid.at(field, say(sentence, field), code="not_found")


async def change_tasks(write: Write, operations: list[TaskOperation]) -> list[Task | None]:
    """Apply the operations and return their tasks in the same order, in their final state; None for deleted ones.

    Raises `Invalid` naming the operation at fault, `Forbidden`, `Conflict`, `Busy`, or `TooLarge` if the tasks have
    more text than a response can contain (`list_statements.PAGE_CHARS`).
    """
    if faults := [fault for number, each in enumerate(operations) for fault in _parameter_faults(number, each)]:
        raise Invalid(faults=faults)
    run = _Run(write)
    await run.read(operations)
    for number, operation in enumerate(operations):
        run.do(number, operation)
    await run.writer.write()
    return await run.answers()


class _Run:
    def __init__(self, change: Write) -> None:
        self.change = change
        self.columns: dict[str, tuple[Access, LockedColumn]] = {}
        self.found: dict[str, PlacedTask] = {}
        self.people: dict[int, Assignable] = {}  # by repository ID
        self.zones: Mapping[int, tzinfo] = {}  # by repository ID; filled only if a task repeats
        self.answered: list[TaskChange] = []  # one per operation

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, operations: Sequence[TaskOperation]) -> None:
        tx = self.change.tx
        task_ids = {each.id for each in operations if not isinstance(each.id, UnsetType)}
        column_ids = {each.column_id for each in operations if not isinstance(each.column_id, UnsetType)}
        weights = await queries.columns_of(tx, task_ids)
        column_ids |= weights.keys()
        self.columns = await queries.lock_columns(tx, self.change.actor, column_ids)
        if sum(weights.get(column_id, 0) for column_id in self.columns) > PAGE_CHARS:
            raise TooLarge("The tasks have too much text to be changed in one request; change fewer at once.")
        self.found = await queries.lock_tasks(tx, task_ids, column_ids, self.columns)
        await self._read_people(operations)
        if any(each.repeat for each in operations) or any(each.task.repeat for each in self.found.values()):
            projects = (access.repository.id for access, _ in self.columns.values())
            self.zones = await find_zones(tx, projects)
        self.writer = TaskWriter(self.change, self.zones)

    async def _read_people(self, operations: Sequence[TaskOperation]) -> None:
        names: dict[int, set[str]] = defaultdict(set)
        accesses: dict[int, Access] = {}
        for each in operations:
            column_id = each.column_id
            if each.action != "create":
                column_id = self.found[str(each.id)].task.column.id if each.id in self.found else UNSET
            if not isinstance(each.assignees, UnsetType) and (found := self.columns.get(str(column_id))) is not None:
                accesses[found[0].repository.id] = found[0]
                names[found[0].repository.id] |= set(each.assignees or [])
        assigned = [person for each in self.found.values() for person in each.task.assignees]
        for repository_id, access in accesses.items():
            people = await assignees.find_people(self.change.tx, access, names[repository_id], assigned)
            self.people[repository_id] = people

    # --- applying -----------------------------------------------------------------------------------------------------

    def do(self, number: int, operation: TaskOperation) -> None:
        try:
            if operation.action == "create":
                self._create(number, operation)
            else:
                self._change(number, operation)
        except Invalid as error:
            faults = [
                each
                if (each.field or "").startswith("operations[")
                else msgspec.structs.replace(each, field=_field(number, each.field or ""))
                for each in error.faults
            ]
            raise Invalid(faults=faults) from error

    def _create(self, number: int, operation: TaskOperation) -> None:
        access, target = self._column(number, operation)
        access.require_writable()
        people, zone = self._people(access, operation, ()), self.zones.get(access.repository.id, UTC)
        task = actions.build_task(access, target, str(operation.title), operation, people, self.change.now, zone)
        self._answer(number, self.writer.create(access, target, task, if_set(operation.position)))

    def _change(self, number: int, operation: TaskOperation) -> None:
        task_id = str(operation.id)
        found = self.found.get(task_id)
        if found is None or (change := self.writer.change(found)).deleted_name is not None:
            raise _not_found(number, "id", "{}: the task does not exist")
        access, source = found.access, self.columns[change.after.column.id][1]
        self._require_project(number, access, operation)
        actions.require_changeable(access, change.after)
        self._answer(number, change)
        if operation.action == "delete":
            self.writer.delete(change, source, f"operations[{number}]: the task")
            return
        people = self._people(access, operation, change.after.assignees)
        zone = self.zones.get(access.repository.id, UTC)
        title = if_set(operation.title, change.after.title)
        change.after = actions.apply_edit(access, change.after, title, operation, people, self.change.now, zone)
        if operation.column_id is not UNSET or operation.position is not UNSET:
            self.writer.move(change, source, self._target(number, operation, change), if_set(operation.position))

    def _answer(self, number: int, change: TaskChange) -> None:
        self.answered.append(change)
        change.named = partial(_field, number)

    def _target(self, number: int, operation: TaskOperation, change: TaskChange) -> LockedColumn:
        column_id = change.after.column.id
        if if_set(operation.column_id, column_id) == column_id:
            return self.columns[column_id][1]
        column, target = self._column(number, operation)
        if column.repository.id != change.access.repository.id:
            raise queries.no_such_column(_field(number, "column_id"))
        return target

    def _column(self, number: int, operation: TaskOperation) -> tuple[Access, LockedColumn]:
        found = self.columns.get(str(operation.column_id))
        if found is None:
            raise _not_found(number, "column_id", "{}: the column does not exist")
        self._require_project(number, found[0], operation)
        return found

    def _require_project(self, number: int, access: Access, operation: TaskOperation) -> None:
        try:
            actions.require_project(access, operation.project_id)
        except NotFound:
            raise _not_found(number, "project_id", "{}: the task belongs to another project") from None

    def _people(self, access: Access, operation: TaskOperation, before: Assignees) -> Assignees | UnsetType:
        if isinstance(operation.assignees, UnsetType):
            return operation.assignees
        return assignees.resolve_assignees(self.people[access.repository.id], operation.assignees or [], before)

    async def answers(self) -> list[Task | None]:
        """Return the tasks in the order of the operations, as the caller sees them; None for deleted ones."""
        by_project: dict[int, tuple[Access, list[Task]]] = {}
        for each in self.writer.changes.values():
            if each.deleted_name is None:
                by_project.setdefault(each.access.repository.id, (each.access, []))[1].append(each.after)
        seen: dict[str, Task] = {}
        for access, tasks in by_project.values():
            seen |= {each.id: each for each in await assignees.visible_tasks(self.change.tx, access, tasks)}
        return [seen.get(each.after.id) for each in self.answered]
