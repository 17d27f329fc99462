"""All tasks of a column go to another one, because theirs is deleted. Their buckets go as they are."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.storage.metadata import big
from workhook.work.access import Access
from workhook.work.columns.schemas import Column, columns, completes
from workhook.work.record_events import RecordEvent, differences, publish_events
from workhook.work.tasks.order import STEP
from workhook.work.tasks.queries import project_of
from workhook.work.tasks.rows import listed_task_of, task_columns
from workhook.work.tasks.schemas import Task, TaskColumnShape
from workhook.work.tasks.tables import task_buckets, tasks
from workhook.work.timesheets import timers

_going = (
    sa.select(*task_columns())
    .select_from(task_buckets.join(tasks, tasks.c.bucket_id == task_buckets.c.id))
    .where(task_buckets.c.column_id == sa.bindparam("column_id"))
    .order_by(task_buckets.c.rank, tasks.c.rank, tasks.c.id)
    .with_for_update(of=tasks, key_share=True)
)
_there = task_buckets.alias("there")
_of_heir = _there.c.column_id == sa.bindparam("heir_id")
_taken = sa.select(sa.cast(sa.func.coalesce(sa.func.sum(_there.c.size), 0), sa.BigInteger).label("size")).where(
    _of_heir
)
_last = sa.select(sa.func.coalesce(sa.func.max(_there.c.rank), 0)).where(_of_heir).scalar_subquery()
_first = sa.select(sa.func.min(_there.c.rank)).where(_there.c.column_id == sa.bindparam("column_id")).scalar_subquery()
_bring_buckets = (
    sa.update(task_buckets)
    .where(task_buckets.c.column_id == sa.bindparam("column_id"), task_buckets.c.size > 0)
    .values(column_id=sa.bindparam("heir_id"), rank=task_buckets.c.rank - _first + _last + STEP)
)
_bring_tasks = (
    sa.update(tasks)
    .where(tasks.c.column_id == sa.bindparam("column_id_from"), tasks.c.deleted_at.is_(None))
    .values(
        column_id=sa.bindparam("heir_id"),
        completed_at=sa.case(
            (sa.bindparam("completes", type_=sa.Boolean()), sa.func.coalesce(tasks.c.completed_at, big("now"))),
            else_=sa.null(),
        ),
        updated_at=sa.case((tasks.c.updated_at < big("now"), big("now")), else_=tasks.c.updated_at + 1),
    )
)
# The buckets came without a change of any task's place in its own, which is what the triggers count.
_note_order = sa.update(columns).where(columns.c.id == sa.bindparam("heir_id")).values(revision=columns.c.revision + 1)


async def move_all(write: Write, access: Access, column: Column, heir: Column) -> None:
    """To the end of `heir`, in their order: an event `moved` for each. The caller holds the locks of both columns."""
    params = {"column_id": column.id, "column_id_from": column.id, "heir_id": heir.id, "now": write.now}
    row = await write.tx.fetch_one(_taken, params)
    first = row["size"] if row else 0
    rows = await write.tx.fetch_all(_going, params)
    done = completes(heir.stage, heir.finished)
    await write.tx.execute(_bring_buckets, params)
    await write.tx.execute(_bring_tasks, {**params, "completes": done})
    await write.tx.execute(_note_order, params)
    project, left, entered = project_of(access), _reference(column), _reference(heir)
    before = [listed_task_of(each, project, left, position) for position, each in enumerate(rows)]
    after = [_moved(each, entered, position, write.now, done=done) for position, each in enumerate(before, first)]
    happened = [_happening(access, *each) for each in zip(before, after, strict=True)]
    await publish_events(write, happened)
    if done:
        await timers.finish_running(write, access, [each.id for each in before])


def _reference(column: Column) -> TaskColumnShape:
    return TaskColumnShape(column.id, column.title)


def _happening(access: Access, before: Task, after: Task) -> RecordEvent:
    """It was moved, also where it is done by that: what was done is done to the column."""
    old, new = to_response(before), to_response(after)
    changes = differences(old, new, ignore=("updated_at", "column"))
    changes["column_id"] = {"from": before.column.id, "to": after.column.id}
    return RecordEvent(access.repository, "task", "moved", new, changes)


def _moved(task: Task, column: TaskColumnShape, position: int, now: int, *, done: bool) -> Task:
    return msgspec.structs.replace(
        task,
        column=column,
        position=position,
        completed_at=(task.completed_at or now) if done else None,
        updated_at=max(now, task.updated_at + 1),
    )
