"""The SQL of tasks. Each statement is confined to a project, or to the task that an earlier one found there.

Whoever changes the order of a column holds the lock of its row, and of several in the order of their ids; tasks are
locked after columns. On PostgreSQL a statement that had to wait for a lock sees the row that it waited for as it is
then, and everything else as it was before: what it answers is `fresh` only if nothing happened meanwhile, and is asked
for again, with the locks in hand, if it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.errors import Unavailable
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import json_rows
from workhook.storage.statements import hot
from workhook.work.access import Access, access_of, with_access
from workhook.work.columns.schemas import columns, completes
from workhook.work.tasks.order import Bucket
from workhook.work.tasks.rows import (
    bucket_index,
    every_column,
    listed_task_of,
    task_columns,
    task_of,
    with_column,
)
from workhook.work.tasks.schemas import Task, TaskColumnShape, TaskProjectShape
from workhook.work.tasks.tables import task_buckets, tasks


class Target(msgspec.Struct, frozen=True):
    """A column that a task is in or comes to, with its buckets."""

    column: TaskColumnShape
    completes: bool
    start_timer: bool
    buckets: list[Bucket]


class FoundTask(msgspec.Struct, frozen=True):
    """A task that is to be changed, as its project's `access` shows it."""

    access: Access
    task: Task


class Movable(msgspec.Struct, frozen=True):
    """A task with the column that it is in (`bucket`: where in the list of buckets) and the one that it comes to."""

    access: Access
    task: Task
    bucket: int
    source: Target
    target: Target

    @property
    def stays(self) -> bool:
        """Whether it comes to the column that it is in."""
        return self.source is self.target


def project_of(access: Access) -> TaskProjectShape:
    return TaskProjectShape(access.repository.project_id, access.repository.title)


# --- reading --------------------------------------------------------------------------------------------------------

_alive = tasks.c.deleted_at.is_(None)
_one = hot(
    with_access(
        sa.select(*every_column).select_from(with_column).where(tasks.c.id == sa.bindparam("task_id"), _alive),
        tasks.c.repository_id,
    )
)


async def find_task(reader: Reader, actor: Actor, task_id: str) -> FoundTask:
    """Raises `NotFound`."""
    row = await reader.fetch_one(_one, {"task_id": task_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    return FoundTask(access, task_of(row, project_of(access)))


# --- reading to write -----------------------------------------------------------------------------------------------

_low, _high = columns.alias("low"), columns.alias("high")
_seen_columns, _seen_tasks = columns.alias("seen_columns"), tasks.alias("seen_tasks")


def _buckets(column_id: sa.ColumnElement[str]) -> sa.ScalarSelect[str]:
    inner = task_buckets.alias("listed_buckets")
    rows = sa.select(json_rows(inner.c.rank, inner.c.id, inner.c.size)).where(inner.c.column_id == column_id)
    return rows.scalar_subquery()


def _unchanged(column: sa.FromClause) -> sa.ColumnElement[bool]:
    seen = sa.select(_seen_columns.c.revision).where(_seen_columns.c.id == column.c.id).scalar_subquery()
    return column.c.revision == seen


def _flags(table: sa.FromClause, prefix: str) -> list[sa.Label[Any]]:
    return [table.c[name].label(prefix + name) for name in ("id", "title", "stage", "finished", "start_timer")]


unchanged_task = (
    tasks.c.updated_at == sa.select(_seen_tasks.c.updated_at).where(_seen_tasks.c.id == tasks.c.id).scalar_subquery()
)
_locked = hot(_one.add_columns(unchanged_task.label("fresh")).with_for_update(of=tasks, key_share=True))

target_columns = [
    *_flags(columns, "low_"),
    _buckets(columns.c.id).label("buckets"),
    _unchanged(columns).label("fresh"),
]
"""Of a column that is to be locked, for `target_of`."""

_to_column = hot(
    with_access(
        sa.select(*target_columns).where(columns.c.id == sa.bindparam("column_id")),
        columns.c.repository_id,
    ).with_for_update(of=columns, key_share=True)
)

_wanted = sa.func.coalesce(sa.bindparam("to_column", type_=sa.Text), tasks.c.column_id)
_to_move = hot(
    with_access(
        sa.select(
            *task_columns(),
            tasks.c.column_id.label("column_id"),
            tasks.c.bucket_id.label("bucket_id"),
            bucket_index.label("bucket_index"),
            *_flags(_low, "low_"),
            *_flags(_high, "high_"),
            _buckets(tasks.c.column_id).label("buckets"),
            sa.case((_low.c.id != _high.c.id, _buckets(_wanted))).label("other_buckets"),
            sa.and_(unchanged_task, _unchanged(_low), _unchanged(_high)).label("fresh"),
        )
        .select_from(
            tasks.join(
                _low,
                sa.and_(
                    _low.c.id == sa.case((_wanted < tasks.c.column_id, _wanted), else_=tasks.c.column_id),
                    _low.c.repository_id == tasks.c.repository_id,
                ),
            ).join(
                _high,
                sa.and_(
                    _high.c.id == sa.case((_wanted < tasks.c.column_id, tasks.c.column_id), else_=_wanted),
                    _high.c.repository_id == tasks.c.repository_id,
                ),
            )
        )
        .where(tasks.c.id == sa.bindparam("task_id"), _alive),
        tasks.c.repository_id,
    ).with_for_update(of=[_low, _high, tasks], key_share=True)
)  # they are locked in this order

_can_move = sa.select(columns.c.id).where(
    columns.c.id == _wanted,
    columns.c.repository_id == tasks.c.repository_id,
    tasks.c.id == sa.bindparam("task_id"),
    _alive,
    projects.c.repository_id == tasks.c.repository_id,
    projects.c.deleted_at.is_(None),
)

_first_column = columns.alias("first_column")
_to_restore = with_access(
    sa.select(
        *task_columns(),
        *_flags(columns, "low_"),
        _buckets(columns.c.id).label("buckets"),
        sa.and_(unchanged_task, _unchanged(columns)).label("fresh"),
    )
    .select_from(
        tasks.join(
            columns,
            columns.c.id
            == sa.func.coalesce(
                tasks.c.column_id,
                sa.select(_first_column.c.id)
                .where(_first_column.c.repository_id == tasks.c.repository_id)
                .order_by(_first_column.c.position, _first_column.c.id)
                .limit(1)
                .correlate(tasks)
                .scalar_subquery(),
            ),
        )
    )
    .where(tasks.c.id == sa.bindparam("task_id"), tasks.c.deleted_at.is_not(None)),
    tasks.c.repository_id,
).with_for_update(of=[columns, tasks], key_share=True)


class Busy(Unavailable):
    """A task came to another column while its lock was waited for. The locks that are held now are the wrong ones, and
    to wait for others with these in hand could be a deadlock: begin again with a new transaction."""

    code = "busy"


async def _fresh(tx: Transaction, statement: sa.Select[Any], params: Mapping[str, object]) -> Row | None:
    """The row, locked and as it is now. None can also mean that it was another one while it was waited for."""
    row = await tx.fetch_one(statement, params)
    if row is not None and not row["fresh"]:
        row = await tx.fetch_one(statement, params)  # the same locks, which are held now
    return row


def target_of(row: Row) -> Target:
    """From a row of `target_columns`."""
    return _target_of(row, "low_", row["buckets"])


def _target_of(row: Row, prefix: str, buckets: str) -> Target:
    return Target(
        column=TaskColumnShape(row[prefix + "id"], row[prefix + "title"]),
        completes=completes(row[prefix + "stage"], bool(row[prefix + "finished"])),
        start_timer=bool(row[prefix + "start_timer"]),
        buckets=[Bucket(bucket_id, rank, size) for rank, bucket_id, size in sorted(json.decode(buckets))],
    )


async def lock_task(tx: Transaction, actor: Actor, task_id: str) -> FoundTask:
    """For a change of what it says: nobody else changes it until the transaction ends. Raises `NotFound`."""
    params = {"task_id": task_id, "user_id": actor.user.id}
    # None also for a task that came to another column meanwhile: its own lock, which is held then, is the right one.
    row = await _fresh(tx, _locked, params) or await _fresh(tx, _locked, params)
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    return FoundTask(access, task_of(row, project_of(access)))


async def lock_column(tx: Transaction, actor: Actor, column_id: str) -> tuple[Access, Target]:
    """For a task that comes to it: nobody else changes the order of its tasks. Raises `NotFound`."""
    row = await _fresh(tx, _to_column, {"column_id": column_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    return access, target_of(row)


async def lock_to_move(tx: Transaction, actor: Actor, task_id: str, column_id: str | None) -> Movable | None:
    """The task, its column, and the column that it comes to (None: its own). Nobody else changes any of them.

    None if there is no such task, or no such column in its project. Raises `NotFound` for a caller with no place there,
    and `Busy`.
    """
    params = {"task_id": task_id, "to_column": column_id, "user_id": actor.user.id}
    row = await _fresh(tx, _to_move, params)
    if row is None:
        if await tx.fetch_one(_can_move, params) is not None:
            raise Busy("It is being moved by many at once.")
        return None
    access = access_of(row, actor)
    low = row["column_id"] == row["low_id"]
    source = _target_of(row, "low_" if low else "high_", row["buckets"])
    target = source
    if row["low_id"] != row["high_id"]:
        target = _target_of(row, "high_" if low else "low_", row["other_buckets"])
    bucket = next((number for number, each in enumerate(source.buckets) if each.id == row["bucket_id"]), 0)
    position = sum(each.size for each in source.buckets[:bucket]) + row["bucket_index"]
    task = listed_task_of(row, project_of(access), source.column, position)
    return Movable(access, task, bucket, source, target)


async def lock_to_restore(tx: Transaction, actor: Actor, task_id: str) -> Movable | None:
    """A task that was deleted, and the column that it comes back to. None if no such task was.

    Raises `NotFound` for a caller with no place in its project.
    """
    params = {"task_id": task_id, "user_id": actor.user.id}
    row = await _fresh(tx, _to_restore, params)
    if row is None:
        if await tx.fetch_one(_to_restore, params) is not None:
            raise Busy("It is being moved by many at once.")
        return None
    access = access_of(row, actor)
    target = target_of(row)
    position = sum(each.size for each in target.buckets)
    return Movable(access, listed_task_of(row, project_of(access), target.column, position), 0, target, target)
