"""Many changes of tasks in one transaction: read at once, done in memory, written at once; an event for each task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
from msgspec import UnsetType

from workhook.core.errors import Fault, Invalid, NotFound, TooLarge
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.work import others
from workhook.work.access import Access
from workhook.work.invoices import issued
from workhook.work.pages import PAGE_CHARS
from workhook.work.people import PersonShape
from workhook.work.record_events import RecordEvent, publish_events
from workhook.work.schemas import if_set
from workhook.work.tasks import actions, assignees, bulk_queries
from workhook.work.tasks.assignees import Assignable
from workhook.work.tasks.bulk_queries import Known, Written
from workhook.work.tasks.bulk_schemas import TaskOperation, field_of, require_parameters
from workhook.work.tasks.queries import Target
from workhook.work.tasks.schemas import Task, TaskCreate, TaskEdit
from workhook.work.tasks.shelf import Shelf
from workhook.work.timesheets import timers

_CONTENT = tuple(name for name in TaskEdit.__struct_fields__ if name not in ("title", "column_id"))


async def do_all(write: Write, operations: list[TaskOperation]) -> list[Task | None]:
    """The tasks as they are after all of it, in the order of the operations; None for what was deleted.

    Raises `Invalid` naming the operation at fault, `Forbidden`, `Conflict`, `Busy`, and `TooLarge` where the tasks that
    are changed hold more text than one answer may (`pages.PAGE_CHARS`).
    """
    require_parameters(operations)
    run = _Run(write)
    await run.read(operations)
    for number, operation in enumerate(operations):
        run.do(number, operation)
    await run.require_deletable()
    await run.write()
    return await run.answers()


class _Run:
    """`columns` by id, `known` and `current` tasks by id; `moved` are those whose place was changed on purpose."""

    def __init__(self, change: Write) -> None:
        self.change = change
        self.columns: dict[str, tuple[Access, Target]] = {}
        self.known: dict[str, Known] = {}
        self.shelves: dict[str, Shelf] = {}
        self.people: dict[int, Assignable] = {}
        self.current: dict[str, Task] = {}
        self.moved: set[str] = set()
        self.deleted: dict[str, Task] = {}
        self.deletions: dict[str, str] = {}
        self.entered: dict[str, str] = {}
        self.answered: list[str] = []
        self.final: dict[str, Task] = {}

    # --- reading ----------------------------------------------------------------------------------------------------

    async def read(self, operations: Sequence[TaskOperation]) -> None:
        task_ids = {each.id for each in operations if not isinstance(each.id, UnsetType)}
        column_ids = {each.column_id for each in operations if not isinstance(each.column_id, UnsetType)}
        weights = await bulk_queries.columns_of(self.change.tx, task_ids)
        column_ids |= weights.keys()
        self.columns = await bulk_queries.lock_columns(self.change.tx, self.change.actor, column_ids)
        if sum(weights.get(column_id, 0) for column_id in self.columns) > PAGE_CHARS:
            raise TooLarge("The tasks have too much text to be changed in one request; change fewer at once.")
        self.known = await bulk_queries.lock_tasks(self.change.tx, task_ids, column_ids, self.columns)
        self.current = {task_id: each.task for task_id, each in self.known.items()}
        await self._read_people(operations)
        await self._read_shelves(operations)

    async def _read_people(self, operations: Sequence[TaskOperation]) -> None:
        names: dict[int, set[str]] = defaultdict(set)
        places: dict[int, Access] = {}
        for each in operations:
            if not isinstance(each.assignees, UnsetType) and (access := self._access_of(each)) is not None:
                places[access.repository.id] = access
                names[access.repository.id] |= set(each.assignees or [])
        assigned = [person for each in self.known.values() for person in each.task.assignees]
        for repository_id, access in places.items():
            people = await assignees.find_people(self.change.tx, access, names[repository_id], assigned)
            self.people[repository_id] = people

    def _access_of(self, operation: TaskOperation) -> Access | None:
        if operation.action == "create":
            found = self.columns.get(str(operation.column_id))
        else:
            known = self.known.get(str(operation.id))
            found = self.columns[known.task.column.id] if known else None
        return found[0] if found else None

    async def _read_shelves(self, operations: Sequence[TaskOperation]) -> None:
        """Where tasks only come to the end, the last bucket is enough."""
        touched: set[str] = set()
        whole: set[str] = set()
        at = {task_id: each.task.column.id for task_id, each in self.known.items()}
        for each in operations:
            source = at.get(str(each.id), "")
            target = if_set(each.column_id, source)
            if isinstance(each.position, UnsetType) and isinstance(each.column_id, UnsetType) and each.action == "edit":
                continue
            touched |= {source, target}
            whole |= {source} if isinstance(each.position, UnsetType) else {source, target}
            at[str(each.id)] = target
        wanted = {
            column_id: target.buckets if column_id in whole else target.buckets[-1:]
            for column_id, (_, target) in self.columns.items()
            if column_id in touched
        }
        standing = await bulk_queries.standing_in(
            self.change.tx, {each.id for some in wanted.values() for each in some}
        )
        for column_id, some in wanted.items():
            there = {task_id: each for bucket in some for task_id, each in standing[bucket.id].items()}
            self.shelves[column_id] = Shelf(self.columns[column_id][1].buckets, there)

    # --- doing ------------------------------------------------------------------------------------------------------

    def do(self, number: int, operation: TaskOperation) -> None:
        try:
            if operation.action == "create":
                self._create(number, operation)
            else:
                self._change(number, operation)
        except Invalid as error:
            faults = [
                msgspec.structs.replace(each, field=field_of(number, each.field or ""))
                if not (each.field or "").startswith("operations[")
                else each
                for each in error.faults
            ]
            raise Invalid(faults=faults) from error

    def _create(self, number: int, operation: TaskOperation) -> None:
        access, target = self._column(number, operation)
        access.require_writable()
        content = {name: getattr(operation, name) for name in _CONTENT}
        create = TaskCreate(title=str(operation.title), **content)
        task = actions.new_task(access, target, create, self._people(access, operation, ()), self.change.now)
        self.current[task.id] = task
        self.answered.append(task.id)
        self.shelves[target.column.id].insert(task.id, if_set(operation.position, None))

    def _change(self, number: int, operation: TaskOperation) -> None:
        task_id = str(operation.id)
        task = self.current.get(task_id)
        if task is None or task_id in self.deleted:
            field = field_of(number, "id")
            raise Invalid(faults=[Fault(field=field, code="not_found", message=f"{field}: there is no such task")])
        access, source = self.columns[task.column.id]
        self._require_project(number, access, operation)
        actions.require_changeable(access, task)
        self.answered.append(task_id)
        if operation.action == "delete":
            self.deletions[task_id] = f"operations[{number}]: the task"
            self.shelves[task.column.id].remove(task_id)
            self.deleted[task_id] = self.known[task_id].task
            return
        content = {name: getattr(operation, name) for name in _CONTENT}
        edit = TaskEdit(title=operation.title, column_id=operation.column_id, **content)
        people = self._people(access, operation, task.assignees)
        self.current[task_id] = actions.edited(task, edit, people, self.change.now)
        if not (isinstance(operation.column_id, UnsetType) and isinstance(operation.position, UnsetType)):
            self._move(number, operation, self.current[task_id], source)

    def _move(self, number: int, operation: TaskOperation, task: Task, source: Target) -> None:
        target = source
        if not isinstance(operation.column_id, UnsetType) and operation.column_id != source.column.id:
            access, target = self._column(number, operation)
            if access.repository.id != self.columns[source.column.id][0].repository.id:
                raise Invalid(faults=[actions.no_such_column(field_of(number, "column_id"))])
        elif isinstance(operation.position, UnsetType):
            return
        self.shelves[source.column.id].remove(task.id)
        self.shelves[target.column.id].insert(task.id, if_set(operation.position, None))
        self.current[task.id] = actions.moved(task, source, target, task.position, self.change.now)
        self.moved.add(task.id)
        if target is not source:
            self.entered[task.id] = target.column.id

    def _column(self, number: int, operation: TaskOperation) -> tuple[Access, Target]:
        found = self.columns.get(str(operation.column_id))
        field = field_of(number, "column_id")
        if found is None:
            raise Invalid(faults=[Fault(field=field, code="not_found", message=f"{field}: there is no such column")])
        self._require_project(number, found[0], operation)
        return found

    def _require_project(self, number: int, access: Access, operation: TaskOperation) -> None:
        try:
            actions.require_project(access, operation.project_id)
        except NotFound:
            field = field_of(number, "project_id")
            message = f"{field}: it is not the project of the task"
            raise Invalid(faults=[Fault(field=field, code="not_found", message=message)]) from None

    def _people(
        self, access: Access, operation: TaskOperation, before: tuple[PersonShape, ...]
    ) -> tuple[PersonShape, ...] | UnsetType:
        if isinstance(operation.assignees, UnsetType):
            return operation.assignees
        return assignees.chosen(self.people[access.repository.id], operation.assignees or [], before)

    async def require_deletable(self) -> None:
        """Raises `Conflict`."""
        if self.deletions:
            await issued.require_none_of_tasks(self.change.tx, self.deletions)
            for access, names in self._deletions_by_project().values():
                await others.require_none_on_tasks(self.change.tx, access, names)

    def _deletions_by_project(self) -> dict[int, tuple[Access, dict[str, str]]]:
        found: dict[int, tuple[Access, dict[str, str]]] = {}
        for task_id, name in self.deletions.items():
            access = self.columns[self.deleted[task_id].column.id][0]
            found.setdefault(access.repository.id, (access, {}))[1][task_id] = name
        return found

    # --- writing ----------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        self.final = self._final()
        written = [self._written(task_id) for task_id in self.final if self._differs(task_id)]
        gone = [actions.touched(each, self.change.now) for each in self.deleted.values()]
        await bulk_queries.write(self.change.tx, written, gone, self.shelves.items())
        happened = [self._happening(each) for each in written]
        happened += [self._told(task, "deleted") for task in self.deleted.values()]
        await publish_events(self.change, happened)
        await self._run_timers()

    async def answers(self) -> list[Task | None]:
        """In the order of the operations, as the caller sees them; None for what was deleted."""
        places = {access.repository.id: access for access, _ in self.columns.values()}
        here: dict[int, list[Task]] = defaultdict(list)
        for task in self.final.values():
            here[self.columns[task.column.id][0].repository.id].append(task)
        seen: dict[str, Task] = {}
        for repository_id, some in here.items():
            seen |= {each.id: each for each in await assignees.as_seen(self.change.tx, places[repository_id], some)}
        return [seen.get(task_id) for task_id in self.answered]

    def _final(self) -> dict[str, Task]:
        """Every task that is left, at the position that it has in the end."""
        positions: dict[str, int] = {}
        for shelf in self.shelves.values():
            positions |= shelf.positions(self.current)
        final = {}
        for task_id in dict.fromkeys(self.answered):
            if task_id not in self.deleted:
                task = self.current[task_id]
                task = msgspec.structs.replace(task, position=positions.get(task_id, task.position))
                final[task_id] = self._dated(task)
        return final

    def _dated(self, task: Task) -> Task:
        """With the time of its last change, which is now if it differs from what it was."""
        before = self._before(task.id, task)
        if before is None:
            return task
        task = msgspec.structs.replace(task, updated_at=before.updated_at)
        return task if task == before else actions.touched(task, self.change.now)

    def _before(self, task_id: str, after: Task) -> Task | None:
        """What it was. That others shifted it is no change of it."""
        if task_id not in self.known:
            return None
        before = self.known[task_id].task
        return before if task_id in self.moved else msgspec.structs.replace(before, position=after.position)

    def _differs(self, task_id: str) -> bool:
        return self._before(task_id, self.final[task_id]) != self.final[task_id]

    def _written(self, task_id: str) -> Written:
        task = self.final[task_id]
        shelf = self.shelves.get(task.column.id)
        standing = shelf.standing_of(task_id) if shelf else None
        access = self.columns[task.column.id][0]
        before = self._before(task_id, task)
        return Written(access.repository.id, before, task, standing or self.known[task_id].standing)

    def _happening(self, written: Written) -> RecordEvent:
        if written.before is None:
            return self._told(written.after, "created")
        return actions.edit_of(self.columns[written.after.column.id][0], written.before, written.after)

    def _told(self, task: Task, action: str) -> RecordEvent:
        return RecordEvent(self.columns[task.column.id][0].repository, "task", action, to_response(task))

    async def _run_timers(self) -> None:
        """As single moves do; of several tasks that would start the mover's timer, the last one has it."""
        finished: dict[str, list[str]] = defaultdict(list)
        started: str | None = None
        for task_id, column_id in self.entered.items():
            target = self.columns[column_id][1]
            if task_id in self.deleted or self.final[task_id].column.id != column_id:
                continue
            if target.completes:
                finished[column_id].append(task_id)
            elif target.start_timer:
                started = task_id
        for column_id, task_ids in finished.items():
            await timers.finish_running(self.change, self.columns[column_id][0], task_ids)
        if started is not None:
            access = self.columns[self.entered[started]][0]
            await timers.start_for(self.change, access, started)
