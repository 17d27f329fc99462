"""Many changes of tasks in one transaction: read at once, done in memory, written at once; an event for each task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Invalid, NotFound, TooLarge, say
from workhook.core.records import Wire, to_response
from workhook.http.parameters import Title
from workhook.identity.context import Write
from workhook.work.board.tasks import actions, assignees, bulk_queries, queries, relations
from workhook.work.board.tasks.assignees import Assignable, tell_all_assigned
from workhook.work.board.tasks.bulk_queries import RankedTask, TaskChange
from workhook.work.board.tasks.column_order import ColumnOrder, ranks_in
from workhook.work.board.tasks.field_types import ColumnId
from workhook.work.board.tasks.inputs import TaskContent, TaskCreate, TaskEdit
from workhook.work.board.tasks.next_task import make_next, with_next
from workhook.work.board.tasks.numbers import take_numbers
from workhook.work.board.tasks.queries import LockedColumn
from workhook.work.board.tasks.relations import RelationChange
from workhook.work.board.tasks.schemas import Assignees, Task
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zones
from workhook.work.kernel.pages import PAGE_CHARS
from workhook.work.kernel.record_events import RecordEvent, publish_events
from workhook.work.kernel.schemas import if_set

OPERATIONS_MAX = 1000


class TaskOperation(TaskContent, kw_only=True):
    """`create` takes the fields for creating a task, and `column_id`. `edit` takes the fields for changing one, and its
    `id`. `move` takes `id` with `column_id` or `position`. `delete` takes `id`."""

    action: Literal["create", "edit", "move", "delete"]
    id: Annotated[str, Meta(description="Id of the task that is changed.")] | UnsetType = UNSET
    column_id: ColumnId | UnsetType = UNSET
    title: Title | UnsetType = UNSET

    @property
    def moves(self) -> bool:
        """Whether it names a column or a position."""
        return self.column_id is not UNSET or self.position is not UNSET


class TasksBulk(msgspec.Struct):
    """Either everything is done, or nothing."""

    operations: Annotated[list[TaskOperation], Meta(min_length=1, max_length=OPERATIONS_MAX)]


class TasksBulkAnswer(msgspec.Struct):
    """`tasks`: one for each operation, as it is after all of them; null for a deleted one."""

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
_CONTENT = TaskContent.__struct_fields__


def _field(number: int, name: str) -> str:
    return f"operations[{number}].{name}"


def _parameter_faults(number: int, operation: TaskOperation) -> Iterator[Fault]:
    """What an operation of its kind lacks or does not take."""
    given = {name for name in _EVERYTHING if getattr(operation, name) is not UNSET}
    for name in _REQUIRED[operation.action]:
        if name not in given:
            field = _field(number, name)
            yield Fault(field=field, code="missing", message=say("{} is required", field))
    if operation.action == "move" and not given & {"column_id", "position"}:
        field = _field(number, "column_id")
        yield Fault(field=field, code="missing", message=f"{field} or {_field(number, 'position')} is required")
    for name in sorted(given - _ALLOWED[operation.action]):
        field = _field(number, name)
        yield Fault(field=field, code="unknown", message=f"{field}: {operation.action} does not take it")


def _not_found(number: int, name: str, message: str) -> Invalid:
    field = _field(number, name)
    return Invalid(faults=[Fault(field=field, code="not_found", message=f"{field}: {message}")])


async def change_tasks(write: Write, operations: list[TaskOperation]) -> list[Task | None]:
    """The tasks as they are after all of it, in the order of the operations; None for what was deleted.

    Raises `Invalid` naming the operation at fault, `Forbidden`, `Conflict`, `Busy`, and `TooLarge` where the tasks that
    are changed hold more text than one answer may (`pages.PAGE_CHARS`).
    """
    if faults := [fault for number, each in enumerate(operations) for fault in _parameter_faults(number, each)]:
        raise Invalid(faults=faults)
    run = _Run(write)
    await run.read(operations)
    for number, operation in enumerate(operations):
        run.do(number, operation)
    await run.require_deletable()
    await run.settle_relations()
    await run.write()
    return await run.answers()


class _Run:
    def __init__(self, change: Write) -> None:
        self.change = change
        self.columns: dict[str, tuple[Access, LockedColumn]] = {}
        self.before: dict[str, RankedTask] = {}
        self.orders: dict[str, ColumnOrder] = {}  # by the id of their columns
        self.people: dict[int, Assignable] = {}  # by the id of their repository
        self.zones: Mapping[int, tzinfo] = {}  # by the id of their repository, where a task repeats
        self.current: dict[str, Task] = {}
        self.moved: set[str] = set()  # tasks whose place was changed on purpose
        self.entered: dict[str, str] = {}  # the column that a task came to last
        self.deleted: dict[str, str] = {}  # tasks, and what messages call them
        self.answered: list[str] = []  # the task of each operation

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, operations: Sequence[TaskOperation]) -> None:
        tx = self.change.tx
        task_ids = {each.id for each in operations if not isinstance(each.id, UnsetType)}
        column_ids = {each.column_id for each in operations if not isinstance(each.column_id, UnsetType)}
        weights = await bulk_queries.columns_of(tx, task_ids)
        column_ids |= weights.keys()
        self.columns = await bulk_queries.lock_columns(tx, self.change.actor, column_ids)
        if sum(weights.get(column_id, 0) for column_id in self.columns) > PAGE_CHARS:
            raise TooLarge("The tasks have too much text to be changed in one request; change fewer at once.")
        self.before = await bulk_queries.lock_tasks(tx, task_ids, column_ids, self.columns)
        self.current = {task_id: each.task for task_id, each in self.before.items()}
        await self._read_people(operations)
        await self._read_zones(operations)
        await self._read_orders(operations)

    async def _read_people(self, operations: Sequence[TaskOperation]) -> None:
        names: dict[int, set[str]] = defaultdict(set)
        accesses: dict[int, Access] = {}
        for each in operations:
            column_id = each.column_id
            if each.action != "create":
                column_id = self.current[str(each.id)].column.id if each.id in self.current else UNSET
            if not isinstance(each.assignees, UnsetType) and (found := self.columns.get(str(column_id))) is not None:
                accesses[found[0].repository.id] = found[0]
                names[found[0].repository.id] |= set(each.assignees or [])
        assigned = [person for task in self.current.values() for person in task.assignees]
        for repository_id, access in accesses.items():
            people = await assignees.find_people(self.change.tx, access, names[repository_id], assigned)
            self.people[repository_id] = people

    async def _read_zones(self, operations: Sequence[TaskOperation]) -> None:
        """The zones in which rules are counted, where a task has one."""
        if any(each.repeat for each in operations) or any(task.repeat for task in self.current.values()):
            projects = (access.repository.id for access, _ in self.columns.values())
            self.zones = await find_zones(self.change.tx, projects)

    async def _read_orders(self, operations: Sequence[TaskOperation]) -> None:
        """Where tasks only come to the end, the last bucket is enough."""
        touched: set[str] = set()
        whole: set[str] = set()
        at = {task_id: task.column.id for task_id, task in self.current.items()}
        for each in operations:
            if each.action == "edit" and not each.moves:
                continue
            source = at.get(str(each.id), "")
            target = if_set(each.column_id, source)
            touched |= {source, target}
            whole |= {source} if isinstance(each.position, UnsetType) else {source, target}
            at[str(each.id)] = target
        wanted = {
            column_id: column.buckets if column_id in whole else column.buckets[-1:]
            for column_id, (_, column) in self.columns.items()
            if column_id in touched
        }
        ranks = await ranks_in(self.change.tx, {each.id for buckets in wanted.values() for each in buckets})
        for column_id, buckets in wanted.items():
            there = {task_id: rank for bucket in buckets for task_id, rank in ranks[bucket.id].items()}
            self.orders[column_id] = ColumnOrder(self.columns[column_id][1].buckets, there)

    # --- doing --------------------------------------------------------------------------------------------------------

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
        content = {name: getattr(operation, name) for name in _CONTENT}
        create = TaskCreate(title=str(operation.title), **content)
        people, zone = self._people(access, operation, ()), self._zone(access)
        task = actions.new_task(access, target, create, people, self.change.now, zone)
        self.current[task.id] = task
        self.answered.append(task.id)
        self.orders[target.column.id].insert(task.id, if_set(operation.position))

    def _change(self, number: int, operation: TaskOperation) -> None:
        task_id = str(operation.id)
        task = self.current.get(task_id)
        if task is None or task_id in self.deleted:
            raise _not_found(number, "id", "there is no such task")
        access, _ = self.columns[task.column.id]
        self._require_project(number, access, operation)
        actions.require_changeable(access, task)
        self.answered.append(task_id)
        if operation.action == "delete":
            self.deleted[task_id] = f"operations[{number}]: the task"
            self.orders[task.column.id].remove(task_id)
            return
        content = {name: getattr(operation, name) for name in _CONTENT}
        edit = TaskEdit(title=operation.title, column_id=operation.column_id, **content)
        people = self._people(access, operation, task.assignees)
        self.current[task_id] = actions.edited(access, task, edit, people, self.change.now, self._zone(access))
        if operation.moves:
            self._move(number, operation, self.current[task_id])

    def _move(self, number: int, operation: TaskOperation, task: Task) -> None:
        access, source = self.columns[task.column.id]
        target = source
        if not isinstance(operation.column_id, UnsetType) and operation.column_id != source.column.id:
            there, target = self._column(number, operation)
            if there.repository.id != access.repository.id:
                raise queries.no_such_column(_field(number, "column_id"))
        elif isinstance(operation.position, UnsetType):
            return
        self.orders[source.column.id].remove(task.id)
        self.orders[target.column.id].insert(task.id, if_set(operation.position))
        self.current[task.id] = actions.moved(task, source, target, task.position, self.change.now)
        self.moved.add(task.id)
        if target is not source:
            self.entered[task.id] = target.column.id

    def _column(self, number: int, operation: TaskOperation) -> tuple[Access, LockedColumn]:
        found = self.columns.get(str(operation.column_id))
        if found is None:
            raise _not_found(number, "column_id", "there is no such column")
        self._require_project(number, found[0], operation)
        return found

    def _zone(self, access: Access) -> tzinfo:
        return self.zones.get(access.repository.id, UTC)

    def _require_project(self, number: int, access: Access, operation: TaskOperation) -> None:
        try:
            actions.require_project(access, operation.project_id)
        except NotFound:
            raise _not_found(number, "project_id", "it is not the project of the task") from None

    def _people(self, access: Access, operation: TaskOperation, before: Assignees) -> Assignees | UnsetType:
        if isinstance(operation.assignees, UnsetType):
            return operation.assignees
        return assignees.chosen(self.people[access.repository.id], operation.assignees or [], before)

    async def require_deletable(self) -> None:
        """Raises `Conflict`."""
        if self.deleted:
            await questions.require_tasks_unbilled(self.change.tx, self.deleted)
        by_project: dict[int, tuple[Access, dict[str, str]]] = {}
        for task_id, name in self.deleted.items():
            access = self._access_to(self.before[task_id].task)
            by_project.setdefault(access.repository.id, (access, {}))[1][task_id] = name
        for access, names in by_project.values():
            await questions.require_own_tasks(self.change.tx, access, names)

    async def settle_relations(self) -> None:
        """Raises `Invalid` that names the operation which came last to the task."""
        numbers = {task_id: number for number, task_id in enumerate(self.answered)}
        changes = [
            RelationChange(self._access_to(task), before.task if before else None, task, partial(_field, numbers[each]))
            for each in numbers
            if each not in self.deleted
            for task, before in ((self.current[each], self.before.get(each)),)
        ]
        settled = await relations.settle(self.change.tx, changes, self.deleted)
        for task in settled:
            ranked = self.before.get(task.id)
            zone = self._zone(self._access_to(task))
            self.current[task.id] = with_next(ranked.task if ranked else None, task, self.change.now, zone)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        self._finish()
        # Tasks of a bucket that nobody had to look into stand where they stood.
        ranks = {task_id: each.rank for task_id, each in self.before.items()}
        for order in self.orders.values():
            ranks |= order.ranks
        await self._number_new()
        changes = []
        for task_id in dict.fromkeys(self.answered):
            task = self.current[task_id]
            if task_id not in self.deleted and (before := self._before(task)) != task:
                changes.append(TaskChange(self._access_to(task), before, task, ranks[task_id]))
        gone = [self.before[task_id].task for task_id in self.deleted]
        trashed = [actions.touched(each, self.change.now) for each in gone]
        await bulk_queries.write(self.change.tx, changes, trashed, self.orders)
        await relations.write(self.change.tx, [(each.before, each.after) for each in changes])
        events = [
            actions.edit_event(each.access, each.before, each.after)
            if each.before
            else self._event(each.after, "created")
            for each in changes
        ]
        await publish_events(self.change, events + [self._event(each, "deleted") for each in gone])
        for each in changes:
            await make_next(self.change, each.access, each.before, each.after)
        tell_all_assigned(self.change, [(each.before, each.after) for each in changes])
        await self._run_timers()

    async def _number_new(self) -> None:
        """New tasks get their numbers in the order of the operations, projects in the order of their ids."""
        new: dict[int, list[str]] = defaultdict(list)
        for task_id in dict.fromkeys(self.answered):
            if task_id not in self.before:
                new[self._access_to(self.current[task_id]).repository.id].append(task_id)
        for repository_id in sorted(new):
            first = await take_numbers(self.change.tx, repository_id, len(new[repository_id]))
            for number, task_id in enumerate(new[repository_id], first):
                self.current[task_id] = msgspec.structs.replace(self.current[task_id], number=number)

    async def answers(self) -> list[Task | None]:
        """The tasks in the order of the operations, as the caller sees them; None for what was deleted."""
        by_project: dict[int, tuple[Access, list[Task]]] = {}
        for task_id in dict.fromkeys(self.answered):
            if task_id not in self.deleted:
                access = self._access_to(self.current[task_id])
                by_project.setdefault(access.repository.id, (access, []))[1].append(self.current[task_id])
        seen: dict[str, Task] = {}
        for access, found in by_project.values():
            seen |= {each.id: each for each in await assignees.as_seen(self.change.tx, access, found)}
        return [seen.get(task_id) for task_id in self.answered]

    def _finish(self) -> None:
        """Give the tasks the positions that they have in the end and, if they differ then, the time of the change."""
        positions: dict[str, int] = {}
        for order in self.orders.values():
            positions |= order.positions(self.current)
        for task_id in self.current.keys() - self.deleted.keys():
            task = self.current[task_id]
            task = msgspec.structs.replace(task, position=positions.get(task_id, task.position))
            if (before := self._before(task)) is not None:
                task = msgspec.structs.replace(task, updated_at=before.updated_at)
                task = task if task == before else actions.touched(task, self.change.now)
            self.current[task_id] = task

    def _before(self, after: Task) -> Task | None:
        """What a task was. That others moved past it is no change of it."""
        if after.id not in self.before:
            return None
        before = self.before[after.id].task
        return before if after.id in self.moved else msgspec.structs.replace(before, position=after.position)

    def _access_to(self, task: Task) -> Access:
        return self.columns[task.column.id][0]

    def _event(self, task: Task, action: str) -> RecordEvent:
        return RecordEvent(self._access_to(task).repository, "task", action, to_response(task))

    async def _run_timers(self) -> None:
        """As single moves do; of several tasks that would start the mover's timer, the last one has it."""
        finished: dict[str, list[str]] = defaultdict(list)
        started: str | None = None
        if self.deleted:
            await questions.tasks_deleted(self.change, list(self.deleted))
        for task_id, column_id in self.entered.items():
            target = self.columns[column_id][1]
            if task_id in self.deleted or self.current[task_id].column.id != column_id:
                continue
            if target.completes:
                finished[column_id].append(task_id)
            elif target.start_timer:
                started = task_id
        for column_id, task_ids in finished.items():
            await questions.tasks_completed(self.change, self.columns[column_id][0], task_ids)
        if started is not None:
            access = self.columns[self.entered[started]][0]
            await questions.task_started(self.change, access, started)
