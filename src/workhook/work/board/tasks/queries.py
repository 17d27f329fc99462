"""The SQL of tasks. Each statement is confined to a project, or to the task that an earlier one found there.

Whoever changes the order of a column holds the lock of its row, and of several in the order of their ids; tasks are
locked after columns. On PostgreSQL a statement that had to wait for a lock sees the row that it waited for as it is
then, and everything else as it was before: what it answers is `fresh` only if nothing happened meanwhile, and is asked
for again, with the locks in hand, if it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.core import json
from workhook.core.errors import Fault, Invalid, Unavailable, say
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, values_of
from workhook.storage.statements import Params, hot
from workhook.work.board.tasks.column_order import Bucket, InsertPosition, is_crowded, new_rank, spread_ranks
from workhook.work.board.tasks.schemas import (
    CONTENT,
    Task,
    TaskColumnShape,
    TaskProjectShape,
    bucket_index,
    columns,
    completes,
    every_column,
    task_assignees,
    task_at,
    task_buckets,
    task_columns,
    task_of,
    tasks,
    with_column,
)
from workhook.work.kernel.access import Access, access_of, with_access


class LockedColumn(msgspec.Struct, frozen=True):
    """A column that a task is in or comes to, with its buckets."""

    column: TaskColumnShape
    completes: bool
    start_timer: bool
    buckets: list[Bucket]

    def position_of(self, row: Row) -> tuple[int, int]:
        """Which of the buckets the task of a row with `bucket_id` and `bucket_index` is in, and its position."""
        number = next((number for number, each in enumerate(self.buckets) if each.id == row["bucket_id"]), 0)
        return number, sum(each.size for each in self.buckets[:number]) + int(row["bucket_index"])


class AccessedTask(msgspec.Struct, frozen=True):
    """A task, and the caller's access to its project."""

    access: Access
    task: Task


class MovableTask(AccessedTask, frozen=True):
    """A task with the column that it is in (`bucket`: where in the list of buckets) and the one that it comes to."""

    bucket: int
    source: LockedColumn
    target: LockedColumn

    @property
    def stays(self) -> bool:
        """Whether it comes to the column that it is in."""
        return self.source is self.target


def project_of(access: Access) -> TaskProjectShape:
    repository = access.repository
    return TaskProjectShape.of(repository.project_id, repository.title, repository.currency)


def no_such_column(field: str) -> Invalid:
    message = say("{}: there is no such column in the task's project", field)
    return Invalid(faults=[Fault(field=field, code="not_found", message=message)])


# --- reading ----------------------------------------------------------------------------------------------------------

_this = tasks.c.id == sa.bindparam("task_id")
_alive = tasks.c.deleted_at.is_(None)
_one = hot(with_access(sa.select(*every_column).select_from(with_column).where(_this, _alive), tasks.c.repository_id))


async def find_task(reader: Reader, actor: Actor, task_id: str) -> AccessedTask:
    """Raises `NotFound`."""
    return _accessed(await reader.fetch_one(_one, {"task_id": task_id, "user_id": actor.user.id}), actor)


def _accessed(row: Row | None, actor: Actor) -> AccessedTask:
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    return AccessedTask(access, task_of(row, project_of(access)))


# --- reading to write -------------------------------------------------------------------------------------------------

_first_lock, _second_lock = columns.alias("first_lock"), columns.alias("second_lock")
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

lockable_columns = [
    *_flags(columns, "first_"),
    _buckets(columns.c.id).label("buckets"),
    _unchanged(columns).label("fresh"),
]
"""What `locked_column` reads."""

_to_column = hot(
    with_access(
        sa.select(*lockable_columns).where(columns.c.id == sa.bindparam("column_id")),
        columns.c.repository_id,
    ).with_for_update(of=columns, key_share=True)
)

_wanted = sa.func.coalesce(sa.bindparam("to_column", type_=sa.Text), tasks.c.column_id)


def _is_column(column: sa.FromClause, column_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.and_(column.c.id == column_id, column.c.repository_id == tasks.c.repository_id)


_to_move = hot(
    with_access(
        sa.select(
            *task_columns,
            tasks.c.column_id.label("column_id"),
            tasks.c.bucket_id.label("bucket_id"),
            bucket_index.label("bucket_index"),
            *_flags(_first_lock, "first_"),
            *_flags(_second_lock, "second_"),
            _buckets(tasks.c.column_id).label("buckets"),
            sa.case((_first_lock.c.id != _second_lock.c.id, _buckets(_wanted))).label("other_buckets"),
            sa.and_(unchanged_task, _unchanged(_first_lock), _unchanged(_second_lock)).label("fresh"),
        )
        .join_from(
            tasks,
            _first_lock,
            _is_column(_first_lock, sa.case((_wanted < tasks.c.column_id, _wanted), else_=tasks.c.column_id)),
        )
        .join(
            _second_lock,
            _is_column(_second_lock, sa.case((_wanted < tasks.c.column_id, tasks.c.column_id), else_=_wanted)),
        )
        .where(_this, _alive),
        tasks.c.repository_id,
    ).with_for_update(of=[_first_lock, _second_lock, tasks], key_share=True)
)  # they are locked in this order

_can_move = sa.select(columns.c.id).where(
    _is_column(columns, _wanted),
    _this,
    _alive,
    projects.c.repository_id == tasks.c.repository_id,
    projects.c.deleted_at.is_(None),
)

_first_column = columns.alias("first_column")
_first_column_id = (
    sa.select(_first_column.c.id)
    .where(_first_column.c.repository_id == tasks.c.repository_id)
    .order_by(_first_column.c.position, _first_column.c.id)
    .limit(1)
    .correlate(tasks)
    .scalar_subquery()
)
_to_restore = with_access(
    sa.select(
        *task_columns,
        *_flags(columns, "first_"),
        _buckets(columns.c.id).label("buckets"),
        sa.and_(unchanged_task, _unchanged(columns)).label("fresh"),
    )
    .join_from(tasks, columns, columns.c.id == sa.func.coalesce(tasks.c.column_id, _first_column_id))
    .where(_this, tasks.c.deleted_at.is_not(None)),
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


async def fresh_rows(tx: Transaction, statement: sa.Select[Any], params: Mapping[str, object]) -> Sequence[Row]:
    """The rows, locked and as they are now."""
    rows = await tx.fetch_all(statement, params)
    return rows if all(row["fresh"] for row in rows) else await tx.fetch_all(statement, params)


def locked_column(row: Row, prefix: str = "first_", buckets: str = "buckets") -> LockedColumn:
    """The column of a row of `lockable_columns`."""
    return LockedColumn(
        column=TaskColumnShape(row[prefix + "id"], row[prefix + "title"]),
        completes=completes(row[prefix + "stage"], bool(row[prefix + "finished"])),
        start_timer=bool(row[prefix + "start_timer"]),
        buckets=[Bucket(bucket_id, rank, size) for rank, bucket_id, size in sorted(json.decode(row[buckets]))],
    )


async def lock_task(tx: Transaction, actor: Actor, task_id: str) -> AccessedTask:
    """Lock a task to change what it says: nobody else changes it until the transaction ends. Raises `NotFound`."""
    params = {"task_id": task_id, "user_id": actor.user.id}
    # None also for a task that came to another column meanwhile: its own lock, which is held then, is the right one.
    return _accessed(await _fresh(tx, _locked, params) or await _fresh(tx, _locked, params), actor)


async def lock_column(tx: Transaction, actor: Actor, column_id: str) -> tuple[Access, LockedColumn]:
    """Lock a column that a task comes to: nobody else changes the order of its tasks. Raises `NotFound`."""
    row = await _fresh(tx, _to_column, {"column_id": column_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    return access, locked_column(row)


async def lock_to_move(tx: Transaction, actor: Actor, task_id: str, column_id: str | None) -> MovableTask:
    """Lock the task, its column, and the column that it comes to (None: its own). Nobody else changes any of them.

    Raises `NotFound` for a task that the caller does not see, `Invalid` if its project has no such column, and `Busy`.
    """
    params = {"task_id": task_id, "to_column": column_id, "user_id": actor.user.id}
    row = await _fresh(tx, _to_move, params)
    if row is None:
        if await tx.fetch_one(_can_move, params) is not None:
            raise Busy("It is being moved by many at once.")
        await find_task(tx, actor, task_id)  # raises for a task that is not there
        raise no_such_column("column_id")
    access = access_of(row, actor)
    is_first = row["column_id"] == row["first_id"]
    source = target = locked_column(row, "first_" if is_first else "second_")
    if row["first_id"] != row["second_id"]:
        target = locked_column(row, "second_" if is_first else "first_", "other_buckets")
    bucket, position = source.position_of(row)
    return MovableTask(access, task_at(row, project_of(access), source.column, position), bucket, source, target)


async def lock_to_restore(tx: Transaction, actor: Actor, task_id: str) -> MovableTask | None:
    """Lock a task that was deleted, and the column that it comes back to. None if no such task was.

    Raises `NotFound` for a caller with no place in its project.
    """
    params = {"task_id": task_id, "user_id": actor.user.id}
    row = await _fresh(tx, _to_restore, params)
    if row is None:
        if await tx.fetch_one(_to_restore, params) is not None:
            raise Busy("It is being moved by many at once.")
        return None
    access = access_of(row, actor)
    target = locked_column(row)
    position = sum(each.size for each in target.buckets)
    return MovableTask(access, task_at(row, project_of(access), target.column, position), 0, target, target)


# --- writing: whoever calls holds the lock of the column that the task comes to ---------------------------------------

_content = assigned(CONTENT)
_place = {"column_id": sa.bindparam("to_column"), "bucket_id": big("to_bucket"), "rank": new_rank}
_insert = hot(
    sa.insert(tasks)
    .values(
        **_content,
        **_place,
        id=sa.bindparam("task_id"),
        repository_id=big("repository_id"),
        number=big("number"),
        user_id=big("user_id"),
        created_at=big("created_at"),
        updated_at=big("updated_at"),
    )
    .returning(tasks.c.rank)
)
_edit = hot(sa.update(tasks).where(_this).values(**_content, updated_at=big("updated_at")))
_move = hot(_edit.values(**_place, deleted_at=sa.null()).returning(tasks.c.rank))
_trash = (
    sa.update(tasks)
    .where(_this)
    .values(bucket_id=sa.null(), rank=sa.null(), deleted_at=big("updated_at"), updated_at=big("updated_at"))
)
insert_assignee = insert_into(task_assignees, "task_id", "user_id")
_delete_assignees = sa.delete(task_assignees).where(
    task_assignees.c.task_id == sa.bindparam("task_id"), any_of(task_assignees.c.user_id, "user_ids")
)


async def insert_task(tx: Transaction, repository_id: int, task: Task, position: InsertPosition) -> None:
    params = {"task_id": task.id, **values_of(task), **position.params, "repository_id": repository_id}
    await _put(tx, _insert, params, position)
    _add_assignees(tx, task.id, [person.id for person in task.assignees])


def update_task(tx: Transaction, task: Task) -> None:
    """Write what the task says; its place stays."""
    tx.defer(_edit, [{"task_id": task.id, **values_of(task)}])


async def move_task(tx: Transaction, task: Task, position: InsertPosition) -> None:
    """Write what the task says, and where it stands; it may come out of the trash."""
    await _put(tx, _move, {"task_id": task.id, **values_of(task), **position.params}, position)


async def _put(tx: Transaction, statement: Executable, params: Params, position: InsertPosition) -> None:
    await tx.flush()  # another new task may be waiting, which the place of this one depends on
    if not position.between:
        tx.defer(statement, [params])
        return
    row = await tx.fetch_one(statement, params)
    if row is not None and is_crowded(row["rank"]):  # rare: after dozens of moves to one place
        await spread_ranks(tx, position.bucket_id)


def trash_task(tx: Transaction, task: Task) -> None:
    """Put a task into the trash. Its `updated_at` is when it was deleted."""
    tx.defer(_trash, [{"task_id": task.id, "updated_at": task.updated_at}])


async def trash_tasks(tx: Transaction, deleted: Sequence[Task]) -> None:
    """`trash_task` for many."""
    await tx.execute_many(_trash, [{"task_id": task.id, "updated_at": task.updated_at} for task in deleted])


def _add_assignees(tx: Transaction, task_id: str, user_ids: Collection[int]) -> None:
    tx.defer(insert_assignee, [{"task_id": task_id, "user_id": each} for each in user_ids])


async def set_assignees(tx: Transaction, before: Task, after: Task) -> None:
    """Write what differs in the people of a task."""
    had, wanted = ({person.id for person in each.assignees} for each in (before, after))
    if gone := had - wanted:
        await tx.execute(_delete_assignees, {"task_id": after.id, "user_ids": sorted(gone)})
    if added := wanted - had:
        _add_assignees(tx, after.id, sorted(added))
