"""The writer of tasks, used alike by forms, imports and bulk requests to create, edit, move, repeat and delete them.

Only restoring a task (`actions`) and moving the tasks of a deleted column (`board.columns`) write rows themselves.

Changes are collected in memory, then checked and written in few statements. Events, the next tasks of repeating ones,
timers and notifications follow. Callers that change the order of a column must hold its lock (`queries`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Invalid
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned, stored_names, values_of
from workhook.storage.statements import hot
from workhook.work.board.tasks import relations
from workhook.work.board.tasks.assignees import filter_assignable, notify_assigned
from workhook.work.board.tasks.column_order import ColumnOrder, Rank, Step, TaskPlace, buckets_to_read
from workhook.work.board.tasks.queries import AccessedTask, LockedColumn, PlacedTask, TaskChange
from workhook.work.board.tasks.recurrence import lock_first_open, next_of, with_next
from workhook.work.board.tasks.schemas import (
    CONTENT,
    Task,
    task_assignees,
    task_blockers,
    task_buckets,
    task_numbers,
    tasks,
)
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.record_events import RecordEvent, differences, publish_events


class TaskWriter:
    """Collects and writes the task changes of one transaction. The tasks and their columns must be locked.

    `zones` are the time zones of recurrence rules, by repository ID. `notify` controls whether new assignees
    are notified.
    """

    def __init__(self, write: Write, zones: Mapping[int, tzinfo] | None = None, *, notify: bool = True) -> None:
        self._write = write
        self._zones = zones or {}
        self._notify = notify
        self.changes: dict[str, TaskChange] = {}
        self._columns: dict[str, LockedColumn] = {}
        self._steps: dict[str, list[Step]] = defaultdict(list)  # by column ID
        self._entered: dict[str, LockedColumn] = {}  # the last column that each task moved to

    # --- collecting changes -------------------------------------------------------------------------------------------

    def create(self, access: Access, target: LockedColumn, task: Task, position: int | None) -> TaskChange:
        """Add a new task to the column. A `position` of None means the end."""
        change = self.changes[task.id] = TaskChange(access, None, task)
        self._add_step(target, Step("insert", task.id, position))
        return change

    def change(self, found: AccessedTask) -> TaskChange:
        """Return the change of an existing task. Set its new content as `TaskChange.after`."""
        change = self.changes.get(found.task.id)
        if change is None:
            place = found.place if isinstance(found, PlacedTask) else None
            change = self.changes[found.task.id] = TaskChange(found.access, found.task, found.task, place)
        return change

    def move(self, change: TaskChange, source: LockedColumn, target: LockedColumn, position: int | None) -> None:
        """Move a task to a position of a column.

        Without a position, it is appended, or keeps its place if the column stays the same.
        """
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
        """Move a task to the trash. `name` is how messages refer to it."""
        change.deleted_name = name
        self._add_step(source, Step("remove", change.after.id))

    def _add_step(self, column: LockedColumn, step: Step) -> None:
        self._columns[column.column.id] = column
        self._steps[column.column.id].append(step)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self, *, check_relations: bool = True) -> None:
        """Check the changes together, write them and publish their events.

        Afterwards, `changes` contains the tasks as stored. `check_relations` controls whether relations are checked;
        callers may have checked them already. Raises `Conflict`, `Invalid` or `Busy`.
        """
        tx, now = self._write.tx, self._write.now
        gone = [each for each in self.changes.values() if each.deleted_name is not None]
        kept = [each for each in self.changes.values() if each.deleted_name is None]
        if gone:
            await self._require_deletable({each.after.id: str(each.deleted_name) for each in gone})
        if check_relations and any(each.gets_parent or each.blockers_changed for each in kept):
            await relations.check_relations(tx, kept, {each.after.id for each in gone})
        for each in kept:
            if each.after.repeat is not None:
                zone = self._zones.get(each.access.repository.id, UTC)
                each.after = with_next(each.before, each.after, now, zone)
        places = {task_id: each.place for task_id, each in self.changes.items() if each.place is not None}
        orders = await change_orders(tx, self._steps, self._columns, places) if self._steps else {}
        for each in kept:
            self._place(each, orders.get(each.after.column.id))
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
        if self._notify:
            await notify_assigned(self._write, [(each.access.repository, each.before, each.after) for each in written])

    async def _require_deletable(self, names: Mapping[str, str]) -> None:
        await questions.require_tasks_unbilled(self._write.tx, names)
        by_project: dict[int, tuple[Access, dict[str, str]]] = {}
        for task_id, name in names.items():
            access = self.changes[task_id].access
            by_project.setdefault(access.repository.id, (access, {}))[1][task_id] = name
        for access, some in by_project.values():
            await questions.require_own_tasks(self._write.tx, access, some)

    def _place(self, change: TaskChange, order: ColumnOrder | None) -> None:
        """Set the task's final position and, if the task differs, the time of the change.

        A task does not count as changed when only its neighbors moved.
        """
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
        """Number new tasks in the order of the changes.

        Locking order: columns, tasks, then the counters of projects in the order of their IDs.
        """
        by_project: dict[int, list[TaskChange]] = defaultdict(list)
        for each in new:
            by_project[each.access.repository.id].append(each)
        for repository_id, some in sorted(by_project.items()):
            row = await self._write.tx.fetch_row(_take, {"repository_id": repository_id, "step": len(some)})
            for number, each in enumerate(some, int(row["last"]) - len(some) + 1):
                each.after = msgspec.structs.replace(each.after, number=number)

    async def _make_next(self, access: Access, task: Task) -> None:
        """Create the task that follows a completed one, in the project's first column that does not complete tasks.

        Raises `Busy`.
        """
        write = self._write
        column = await lock_first_open(write.tx, access)
        made = next_of(task, column, write.now, await find_zone(write.tx, access.repository.id))
        made = msgspec.structs.replace(made, assignees=await filter_assignable(write.tx, access, task.assignees))
        following = TaskWriter(write)
        new = following.create(access, column, made, None)
        try:
            await relations.check_relations(write.tx, [new])
        except Invalid:  # the parent is in the trash or has the maximum number of subtasks
            new.after = msgspec.structs.replace(made, parent_id=None)
        await following.write(check_relations=False)

    async def _run_timers(self) -> None:
        """Finish the timers of completed tasks, and start the mover's timer in columns that start timers.

        If several moves would start the mover's timer, only the last one does.
        """
        finished: dict[str, list[TaskChange]] = defaultdict(list)
        started: TaskChange | None = None
        for task_id, target in self._entered.items():
            change = self.changes[task_id]
            if change.deleted_name is not None or change.after.column.id != target.column.id:
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
    """Return when a task that enters the column was completed. A task that stays completed keeps its first time."""
    return (now if before is None else before) if target.completes else None


def event_of(change: TaskChange) -> RecordEvent:
    """Return the single event of a change. Completed or reopened takes precedence over moved, and moved over edited."""
    repository, before, after = change.access.repository, change.before, change.after
    if before is None:
        return RecordEvent(repository, "task", "created", to_response(after))
    if change.deleted_name is not None:
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
    extra_records = {"commit": change.commit} if change.commit is not None else None
    return RecordEvent(repository, "task", action, new, changes, extra_records)


# --- the order of columns ---------------------------------------------------------------------------------------------

_ranks = sa.select(tasks.c.id, tasks.c.bucket_id, tasks.c.rank).where(any_of(tasks.c.bucket_id, "bucket_ids"))


async def change_orders(
    tx: Transaction,
    steps: Mapping[str, Sequence[Step]],
    columns: Mapping[str, LockedColumn],
    places: Mapping[str, TaskPlace],
) -> dict[str, ColumnOrder]:
    """Return the column orders after the steps, by column ID. `places` is keyed by task ID.

    Only buckets in which a task is put between others are read.
    """
    wanted = {column_id: buckets_to_read(columns[column_id].buckets, made) for column_id, made in steps.items()}
    read = sorted(set().union(*wanted.values()))
    rows = await tx.fetch_all(_ranks, {"bucket_ids": read}) if read else []
    ranks = {row["id"]: Rank(row["bucket_id"], row["rank"]) for row in rows}
    orders = {}
    for column_id, made in steps.items():
        ordered = {task_id: each for task_id, each in ranks.items() if each.bucket_id in wanted[column_id]}
        column = columns[column_id]
        order = orders[column_id] = ColumnOrder(column.buckets, ordered, places, column.last_rank)
        for step in made:
            order.apply(step)
    return orders


# --- numbers ----------------------------------------------------------------------------------------------------------
# A project's numbers are dense, start at 1 and are never reused. A transaction that creates tasks holds the project's
# counter until it ends. A rollback returns its numbers, so there are no gaps; deleting a task does not.

_count = upsert(task_numbers).values(repository_id=bigint_param("repository_id"), last=bigint_param("step"))
_count = _count.on_conflict_do_update(
    index_elements=[task_numbers.c.repository_id], set_={"last": task_numbers.c.last + bigint_param("step")}
)
_take = hot(_count.returning(task_numbers.c.last))


# --- writing ----------------------------------------------------------------------------------------------------------

_by_task_id = tasks.c.id == sa.bindparam("task_id")
_position_values = {
    "column_id": sa.bindparam("to_column"),
    "bucket_id": bigint_param("to_bucket"),
    "rank": bigint_param("to_rank"),
}
_insert = sa.insert(tasks).values(
    {"repository_id": bigint_param("repository_id"), **_position_values, **assigned(stored_names(Task))}
)
_edit = hot(sa.update(tasks).where(_by_task_id).values(**assigned(CONTENT), updated_at=bigint_param("updated_at")))
_move = hot(_edit.values(**_position_values, deleted_at=sa.null()))
_set_rank = (
    sa.update(tasks).where(_by_task_id).values(bucket_id=bigint_param("to_bucket"), rank=bigint_param("to_rank"))
)
_trash = (
    sa.update(tasks)
    .where(_by_task_id)
    .values(
        bucket_id=sa.null(),
        rank=sa.null(),
        deleted_at=bigint_param("updated_at"),
        updated_at=bigint_param("updated_at"),
    )
)
_insert_bucket = insert_into(task_buckets, "id", "column_id", "rank", "size")
_set_bucket_rank = (
    sa.update(task_buckets).where(task_buckets.c.id == bigint_param("bucket_id")).values(rank=bigint_param("new_rank"))
)
_drop_bucket = sa.delete(task_buckets).where(task_buckets.c.id == bigint_param("bucket_id"), task_buckets.c.size == 0)
_insert_assignee = insert_into(task_assignees, "task_id", "user_id")
_delete_assignee = sa.delete(task_assignees).where(
    task_assignees.c.task_id == sa.bindparam("task_id"), task_assignees.c.user_id == bigint_param("user_id")
)
_insert_blocker = insert_into(task_blockers, "task_id", "blocker_id")
_delete_blocker = sa.delete(task_blockers).where(
    task_blockers.c.task_id == sa.bindparam("task_id"), task_blockers.c.blocker_id == sa.bindparam("blocker_id")
)


async def write_rows(tx: Transaction, changes: Sequence[TaskChange], orders: Mapping[str, ColumnOrder]) -> None:
    """Write the tasks, their assignees and blockers, and the `orders` of their columns, keyed by column ID.

    Where possible, the last statement is queued and sent with the next one (`Transaction.defer`).
    """
    kept = [each for each in changes if each.deleted_name is None]
    gone_people, new_people = _differences(kept, "user_id", lambda task: [person.id for person in task.assignees])
    gone_blockers, new_blockers = _differences(kept, "blocker_id", lambda task: task.blocked_by)
    await tx.execute_many(_delete_assignee, gone_people)
    await tx.execute_many(_delete_blocker, gone_blockers)
    # A new bucket starts at size 0; a trigger counts the tasks that are added to it.
    new_buckets = [
        {"id": each.id, "column_id": column_id, "rank": each.rank, "size": 0}
        for column_id, order in orders.items()
        for each in order.new_buckets
    ]
    await tx.execute_many(_insert_bucket, new_buckets)
    await _write_tasks(tx, changes, orders)
    tx.defer(_insert_assignee, new_people)
    tx.defer(_insert_blocker, new_blockers)
    moved_buckets = [
        {"bucket_id": each.id, "new_rank": each.rank} for order in orders.values() for each in order.moved_buckets
    ]
    await tx.execute_many(_set_bucket_rank, moved_buckets)
    dropped = [{"bucket_id": each} for order in orders.values() for each in order.dropped_buckets]
    await tx.execute_many(_drop_bucket, dropped)


async def _write_tasks(tx: Transaction, changes: Sequence[TaskChange], orders: Mapping[str, ColumnOrder]) -> None:
    ranks = {task_id: rank for order in orders.values() for task_id, rank in order.changed.items()}
    inserted, edited, moved, trashed = list[_Row](), list[_Row](), list[_Row](), list[_Row]()
    for each in changes:
        row = {"task_id": each.after.id, "repository_id": each.access.repository.id, **values_of(each.after)}
        if each.deleted_name is not None:
            trashed.append({"task_id": each.after.id, "updated_at": each.after.updated_at})
        elif (rank := ranks.pop(each.after.id, None)) is None:
            edited.append(row)
        else:
            row |= {"to_column": each.after.column.id, "to_bucket": rank.bucket_id, "to_rank": rank.rank}
            (moved if each.before else inserted).append(row)
    ranked: list[_Row] = [
        {"task_id": task_id, "to_bucket": rank.bucket_id, "to_rank": rank.rank} for task_id, rank in ranks.items()
    ]
    for statement, rows in (
        (_insert, inserted), (_edit, edited), (_move, moved), (_set_rank, ranked), (_trash, trashed),
    ):  # fmt: skip
        if rows and (len(rows) == 1 or statement is _insert):
            await tx.flush()  # two statements that change tasks must not be combined
            tx.defer(statement, rows)
        else:
            await tx.execute_many(statement, rows)


_Row = dict[str, object]


def _differences(
    changes: Sequence[TaskChange], name: str, ids_of: Callable[[Task], Collection[Any]]
) -> tuple[list[_Row], list[_Row]]:
    """Return the rows to delete from and to insert into a table that belongs to tasks."""
    gone: list[_Row] = []
    added: list[_Row] = []
    for each in changes:
        had, wanted = {*(ids_of(each.before) if each.before else ())}, {*ids_of(each.after)}
        gone += [{"task_id": each.after.id, name: value} for value in sorted(had - wanted)]
        added += [{"task_id": each.after.id, name: value} for value in sorted(wanted - had)]
    return gone, added
