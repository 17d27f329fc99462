"""The writer of tasks: creates, edits, moves, repeats and deletes them, for a form or an import as for a bulk request.
Restoring a task (`actions`), and moving those of a column that is deleted (`move_tasks`), write rows of their own.

What is changed is put together in memory first. Then it is checked, written in few statements, and told: an event for
each task, the next of those that repeat, timers, notifications.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, tzinfo

import msgspec

from workhook.core.errors import Invalid
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.work.board.tasks import relations
from workhook.work.board.tasks.assignees import still_there, tell_assigned
from workhook.work.board.tasks.changes import TaskChange, change_orders, take_numbers, write_rows
from workhook.work.board.tasks.column_order import ColumnOrder, Step
from workhook.work.board.tasks.next_task import lock_first_open, next_of, with_next, zone_for
from workhook.work.board.tasks.queries import AccessedTask, LockedColumn, PlacedTask
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.record_events import RecordEvent, differences, publish_events


class TaskWriter:
    """The tasks that one transaction changes. They and their columns are locked.

    `zones`: in which the rules of tasks that repeat are counted, by the id of their repository. `tells`: whether people
    are notified of what is assigned to them.
    """

    def __init__(self, write: Write, zones: Mapping[int, tzinfo] | None = None, *, tells: bool = True) -> None:
        self._write = write
        self._zones = zones or {}
        self._tells = tells
        self.changes: dict[str, TaskChange] = {}
        self._columns: dict[str, LockedColumn] = {}
        self._steps: dict[str, list[Step]] = defaultdict(list)  # by the id of their columns
        self._entered: dict[str, LockedColumn] = {}  # the column that a task came to last

    # --- what is changed ----------------------------------------------------------------------------------------------

    def create(self, access: Access, target: LockedColumn, task: Task, position: int | None) -> TaskChange:
        """Add a new task to the column. `position` None: at the end."""
        change = self.changes[task.id] = TaskChange(access, None, task)
        self._add_step(target, Step("insert", task.id, position))
        return change

    def change(self, found: AccessedTask) -> TaskChange:
        """Return the change of a task that is there; what it says then is `TaskChange.after`."""
        change = self.changes.get(found.task.id)
        if change is None:
            place = found.place if isinstance(found, PlacedTask) else None
            change = self.changes[found.task.id] = TaskChange(found.access, found.task, found.task, place)
        return change

    def move(self, change: TaskChange, source: LockedColumn, target: LockedColumn, position: int | None) -> None:
        """Put a task to a position of a column. Without one it comes last, or stays where it is in its own."""
        task_id = change.after.id
        if target is source:
            if position is not None:
                self._add_step(target, Step("move", task_id, position))
                change.is_moved = True
            return
        self._add_step(source, Step("remove", task_id))
        self._add_step(target, Step("insert", task_id, position))
        done = completed_at(target, change.after.completed_at, self._write.now)
        change.after = msgspec.structs.replace(change.after, column=target.column, completed_at=done)
        change.is_moved = True
        self._entered[task_id] = target

    def delete(self, change: TaskChange, source: LockedColumn, name: str) -> None:
        """Put a task into the trash. `name` is what messages call it."""
        change.deleted_as = name
        self._add_step(source, Step("remove", change.after.id))

    def _add_step(self, column: LockedColumn, step: Step) -> None:
        self._columns[column.column.id] = column
        self._steps[column.column.id].append(step)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        """Check what has to be checked of several tasks together; write and tell all of it. `changes` then have the
        tasks as they are. Raises `Conflict`, `Invalid`, `Busy`."""
        gone = {task_id: each.deleted_as for task_id, each in self.changes.items() if each.deleted_as is not None}
        if gone:
            await self._require_deletable(gone)
        kept = [each for task_id, each in self.changes.items() if task_id not in gone]
        await relations.settle(self._write.tx, kept, gone)
        await self.write_settled()

    async def write_settled(self) -> None:
        """`write`, where the relations of the tasks are settled."""
        tx, now = self._write.tx, self._write.now
        gone = [each for each in self.changes.values() if each.deleted_as is not None]
        kept = [each for each in self.changes.values() if each.deleted_as is None]
        for each in kept:
            each.after = with_next(each.before, each.after, now, self._zone(each.access))
        places = {task_id: each.place for task_id, each in self.changes.items() if each.place is not None}
        orders = await change_orders(tx, self._steps, self._columns, places) if self._steps else {}
        for each in kept:
            self._finish(each, orders.get(each.after.column.id))
        for each in gone:
            each.after = touched(each.before or each.after, now)
        if new := [each for each in kept if each.before is None]:
            await self._number(new)
        written = [each for each in kept if each.after != each.before]
        await write_rows(tx, [*written, *gone], orders)
        await publish_events(self._write, [event_of(each) for each in written])
        for each in written:
            if each.before is not None and each.before.next_id != each.after.next_id:
                await self._make_next(each.access, each.after)
        if gone:
            await questions.tasks_deleted(self._write, [each.after.id for each in gone])
            await publish_events(self._write, [event_of(each) for each in gone])
        if self._entered:
            await self._run_timers()
        if self._tells:
            await tell_assigned(self._write, [(each.access.repository, each.before, each.after) for each in written])

    async def _require_deletable(self, names: Mapping[str, str]) -> None:
        await questions.require_tasks_unbilled(self._write.tx, names)
        by_project: dict[int, tuple[Access, dict[str, str]]] = {}
        for task_id, name in names.items():
            access = self.changes[task_id].access
            by_project.setdefault(access.repository.id, (access, {}))[1][task_id] = name
        for access, some in by_project.values():
            await questions.require_own_tasks(self._write.tx, access, some)

    def _zone(self, access: Access) -> tzinfo:
        return self._zones.get(access.repository.id, UTC)

    def _finish(self, change: TaskChange, order: ColumnOrder | None) -> None:
        """Give the task the position that it has in the end and, if it differs then, the time of the change. That
        others moved past it is no change of it."""
        before, after = change.before, change.after
        if order is not None:
            position = order.positions([after.id]).get(after.id, after.position)
            after = msgspec.structs.replace(after, position=position)
        if before is not None:
            if not change.is_moved:
                before = change.before = msgspec.structs.replace(before, position=after.position)
            after = msgspec.structs.replace(after, updated_at=before.updated_at)
            after = after if after == before else touched(after, self._write.now)
        change.after = after

    async def _number(self, new: list[TaskChange]) -> None:
        """New tasks get their numbers in the order of the changes, projects in the order of their ids."""
        by_project: dict[int, list[TaskChange]] = defaultdict(list)
        for each in new:
            by_project[each.access.repository.id].append(each)
        for repository_id, some in sorted(by_project.items()):
            first = await take_numbers(self._write.tx, repository_id, len(some))
            for number, each in enumerate(some, first):
                each.after = msgspec.structs.replace(each.after, number=number)

    async def _make_next(self, access: Access, task: Task) -> None:
        """Make the task that `with_next` has found to come next. It begins in the project's first column that
        completes nothing. Raises `Busy`."""
        write = self._write
        column = await lock_first_open(write.tx, access)
        made = next_of(task, column, write.now, await zone_for(write.tx, access, task.repeat))
        made = msgspec.structs.replace(made, assignees=await still_there(write.tx, access, task.assignees))
        following = TaskWriter(write)
        new = following.create(access, column, made, None)
        try:
            await relations.settle(write.tx, [new])
        except Invalid:  # the task above is in the trash, or has all the subtasks that it can have
            new.after = msgspec.structs.replace(made, parent_id=None)
        await following.write_settled()

    async def _run_timers(self) -> None:
        """Of several tasks that would start the mover's timer, the last one has it."""
        finished: dict[str, list[TaskChange]] = defaultdict(list)
        started: TaskChange | None = None
        for task_id, target in self._entered.items():
            change = self.changes[task_id]
            if change.deleted_as is not None or change.after.column.id != target.column.id:
                continue
            if target.completes:
                finished[target.column.id].append(change)
            elif target.start_timer:
                started = change
        for some in finished.values():
            await questions.tasks_completed(self._write, some[0].access, [each.after.id for each in some])
        if started is not None:
            await questions.task_started(self._write, started.access, started.after.id)


def touched(task: Task, now: int) -> Task:
    return msgspec.structs.replace(task, updated_at=max(now, task.updated_at + 1))


def completed_at(target: LockedColumn, before: int | None, now: int) -> int | None:
    """When a task that enters the column is completed: the first time stays while it remains done."""
    if not target.completes:
        return None
    return now if before is None else before


def event_of(change: TaskChange) -> RecordEvent:
    """One event, whatever was changed: completed or reopened before moved before edited."""
    repository, before, after = change.access.repository, change.before, change.after
    if before is None:
        return RecordEvent(repository, "task", "created", to_response(after))
    if change.deleted_as is not None:
        return RecordEvent(repository, "task", "deleted", to_response(before))
    old, new = to_response(before), to_response(after)
    changes = differences(old, new, ignore=("updated_at", "column"))
    if before.column.id != after.column.id:
        changes["column_id"] = {"from": before.column.id, "to": after.column.id}
    action = "edited"
    if (before.completed_at is None) != (after.completed_at is None):
        action = "reopened" if after.completed_at is None else "completed"
    elif "column_id" in changes or "position" in changes:
        action = "moved"
    beside = {"commit": change.commit} if change.commit is not None else None
    return RecordEvent(repository, "task", action, new, changes, beside)
