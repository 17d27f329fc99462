"""Moves all tasks of a column that is deleted to another one. Their buckets go as they are."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.identity.context import Write
from workhook.storage.metadata import big
from workhook.work.board.tasks.changes import TaskChange
from workhook.work.board.tasks.column_order import STEP
from workhook.work.board.tasks.queries import project_of
from workhook.work.board.tasks.schemas import (
    Column,
    TaskColumnShape,
    columns,
    completes,
    task_at,
    task_buckets,
    task_columns,
    tasks,
)
from workhook.work.board.tasks.writer import event_of
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.record_events import publish_events

_leaving = (
    sa.select(*task_columns)
    .select_from(task_buckets.join(tasks, tasks.c.bucket_id == task_buckets.c.id))
    .where(task_buckets.c.column_id == sa.bindparam("column_id"))
    .order_by(task_buckets.c.rank, tasks.c.rank, tasks.c.id)
    .with_for_update(of=tasks, key_share=True)
)
_there = task_buckets.alias("there")
_of_fallback = _there.c.column_id == sa.bindparam("fallback_id")
_size = sa.select(sa.cast(sa.func.coalesce(sa.func.sum(_there.c.size), 0), sa.BigInteger).label("size")).where(
    _of_fallback
)
_last = sa.select(sa.func.coalesce(sa.func.max(_there.c.rank), 0)).where(_of_fallback).scalar_subquery()
_first = sa.select(sa.func.min(_there.c.rank)).where(_there.c.column_id == sa.bindparam("column_id")).scalar_subquery()
_move_buckets = (
    sa.update(task_buckets)
    .where(task_buckets.c.column_id == sa.bindparam("column_id"), task_buckets.c.size > 0)
    .values(column_id=sa.bindparam("fallback_id"), rank=task_buckets.c.rank - _first + _last + STEP)
)
_move_tasks = (
    sa.update(tasks)
    .where(tasks.c.column_id == sa.bindparam("column_id_from"), tasks.c.deleted_at.is_(None))
    .values(
        column_id=sa.bindparam("fallback_id"),
        completed_at=sa.case(
            (sa.bindparam("completes", type_=sa.Boolean()), sa.func.coalesce(tasks.c.completed_at, big("now"))),
            else_=sa.null(),
        ),
        updated_at=sa.case((tasks.c.updated_at < big("now"), big("now")), else_=tasks.c.updated_at + 1),
    )
)
# The buckets came without a change of any task's place in its own, which is what the triggers count.
_count_revision = (
    sa.update(columns).where(columns.c.id == sa.bindparam("fallback_id")).values(revision=columns.c.revision + 1)
)


async def move_tasks(write: Write, access: Access, column: Column, fallback: Column) -> None:
    """Move the tasks of `column` to the end of `fallback`, in their order, with an event `moved` for each.

    The caller holds the locks of both columns.
    """
    params = {"column_id": column.id, "column_id_from": column.id, "fallback_id": fallback.id, "now": write.now}
    row = await write.tx.fetch_one(_size, params)
    first = row["size"] if row else 0
    rows = await write.tx.fetch_all(_leaving, params)
    done = completes(fallback.stage, fallback.finished)
    await write.tx.execute(_move_buckets, params)
    await write.tx.execute(_move_tasks, {**params, "completes": done})
    await write.tx.execute(_count_revision, params)
    project, left, entered = project_of(access), _shape(column), _shape(fallback)
    events = []
    for number, each in enumerate(rows):
        before = task_at(each, project, left, number)
        after = msgspec.structs.replace(
            before,
            column=entered,
            position=first + number,
            completed_at=(before.completed_at or write.now) if done else None,
            updated_at=max(write.now, before.updated_at + 1),
        )
        # `moved` also where that completes the task: what was done is done to the column.
        events.append(msgspec.structs.replace(event_of(TaskChange(access, before, after)), action="moved"))
    await publish_events(write, events)
    if done:
        await questions.tasks_completed(write, access, [each["task_id"] for each in rows])


def _shape(column: Column) -> TaskColumnShape:
    return TaskColumnShape(column.id, column.title)
