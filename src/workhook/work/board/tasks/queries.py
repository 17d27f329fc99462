"""Find tasks, and lock them for writing.

Each statement is restricted to one project, or to a task that an earlier statement found there.

Changing the order of a column requires the lock on its row. Several columns are locked in the order of their IDs, and
tasks after columns. On PostgreSQL, a statement that had to wait for a lock sees the locked row in its current state but
everything else as it was before the wait. Rows therefore state whether they are `fresh`; if not, the statement is run
again while the locks are held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.errors import Invalid, NotFound, Unavailable, require_found, say
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import hot
from workhook.work.board.tasks import assignees
from workhook.work.board.tasks.column_order import Bucket, TaskPlace
from workhook.work.board.tasks.schemas import (
    CommitShape,
    Task,
    TaskColumnShape,
    TaskProjectShape,
    bucket_index,
    columns,
    completes,
    every_column,
    task_at,
    task_buckets,
    task_columns,
    tasks,
    weight,
    with_column,
)
from workhook.work.kernel.access import Access, find_with_access, to_access, with_access


class LockedColumn(msgspec.Struct, frozen=True):
    """A locked column that a task is in or moves to, with its buckets."""

    column: TaskColumnShape
    completes: bool
    start_timer: bool
    buckets: list[Bucket]
    last_rank: int | None
    """The rank of the last task of the last bucket; None if no task will be appended."""


class AccessedTask(msgspec.Struct, frozen=True):
    access: Access
    task: Task


class PlacedTask(AccessedTask, frozen=True):
    place: TaskPlace


class MovableTask(PlacedTask, frozen=True):
    """A task with its current column and the one it moves to."""

    source: LockedColumn
    target: LockedColumn


class TaskChange(msgspec.Struct):
    """A task before and after a change; `before` is None for a new task.

    `place` is its previous place, if it may move. `named` maps a field to its name in faults. `deleted_name` is how
    messages refer to a task that is moved to the trash. `commit` is the commit whose message closes the task.
    """

    access: Access
    before: Task | None
    after: Task
    place: TaskPlace | None = None
    named: Callable[[str], str] = str
    is_moved: bool = False
    deleted_name: str | None = None
    commit: CommitShape | None = None

    @property
    def gets_parent(self) -> bool:
        """Whether it gets a new parent."""
        return self.after.parent_id not in (None, self.before and self.before.parent_id)

    @property
    def blockers_changed(self) -> bool:
        """Whether its blockers differ from before."""
        return self.after.blocked_by != (self.before.blocked_by if self.before else ())

    @property
    def new_blockers(self) -> set[str]:
        return {*self.after.blocked_by} - {*(self.before.blocked_by if self.before else ())}


def project_of(access: Access) -> TaskProjectShape:
    repository = access.repository
    return TaskProjectShape.of(repository.project_id, repository.title, repository.currency)


def no_such_column(field: str) -> Invalid:
    return Invalid.at(field, say("{}: the task's project has no such column", field), code="not_found")


# --- reading ----------------------------------------------------------------------------------------------------------

_by_task_id = tasks.c.id == sa.bindparam("task_id")
_alive = tasks.c.deleted_at.is_(None)
_task_by_id = hot(
    with_access(sa.select(*every_column).select_from(with_column).where(_by_task_id, _alive), tasks.c.repository_id)
)


async def find_task(reader: Reader, actor: Actor, task_id: str) -> AccessedTask:
    """Find a task, or raise `NotFound`."""
    return _accessed(*await find_with_access(reader, _task_by_id, actor, task_id=task_id))


def _accessed(row: Row, access: Access) -> AccessedTask:
    column = TaskColumnShape(row["column_id"], row["column_title"])
    return AccessedTask(access, task_at(row, project_of(access), column, row["task_position"]))


NUMBER_DIGITS = 9
"""Maximum digits of a task number; no project has more tasks than that."""

# Matches the partial index `uq_tasks_number`.
_numbered = (
    sa.select(tasks.c.number, tasks.c.id)
    .where(tasks.c.repository_id == bigint_param("repository_id"), tasks.c.number > sa.literal_column("0"))
    .where(any_of(tasks.c.number, "numbers"), tasks.c.deleted_at.is_(None))
)


async def find_numbered(reader: Reader, repository_id: int, numbers: Collection[int]) -> Mapping[int, str]:
    """Return the IDs of the project's tasks with these numbers, by number. Tasks in the trash are excluded."""
    wanted = sorted(number for number in set(numbers) if 0 < number < 10**NUMBER_DIGITS)
    if not wanted:
        return {}
    rows = await reader.fetch_all(_numbered, {"repository_id": repository_id, "numbers": wanted})
    return {row["number"]: row["id"] for row in rows}


_titles_of_tasks = sa.select(tasks.c.id, tasks.c.title, tasks.c.completed_at).where(
    any_of(tasks.c.id, "ids"), tasks.c.repository_id == bigint_param("repository_id"), tasks.c.deleted_at.is_(None)
)


class RelatedTask(msgspec.Struct, frozen=True):
    id: str
    title: str
    is_completed: bool


async def find_related(reader: Reader, repository_id: int, ids: Collection[str]) -> Mapping[str, RelatedTask]:
    """Find the tasks among `ids` that are in the project and not in the trash, by ID."""
    if not ids:
        return {}
    rows = await reader.fetch_all(_titles_of_tasks, {"ids": sorted(ids), "repository_id": repository_id})
    return {row["id"]: RelatedTask(row["id"], row["title"], row["completed_at"] is not None) for row in rows}


_first_task = sa.select(tasks.c.id).limit(1)


async def has_any_task(reader: Reader) -> bool:
    """Return whether the server has any task, including those in the trash."""
    return await reader.fetch_one(_first_task) is not None


# --- locking ----------------------------------------------------------------------------------------------------------

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
_locked = hot(_task_by_id.add_columns(unchanged_task.label("fresh")).with_for_update(of=tasks, key_share=True))


def _last_rank(column_id: sa.ColumnElement[str]) -> sa.ScalarSelect[int]:
    last, inner = task_buckets.alias("last_bucket"), tasks.alias("last_tasks")
    bucket_id = sa.select(last.c.id).where(last.c.column_id == column_id).order_by(last.c.rank.desc()).limit(1)
    in_last = inner.c.bucket_id == bucket_id.correlate_except(last).scalar_subquery()
    return sa.select(sa.func.max(inner.c.rank)).where(in_last).correlate_except(inner).scalar_subquery()


lockable_columns = [
    *_flags(columns, "first_"),
    _buckets(columns.c.id).label("buckets"),
    _last_rank(columns.c.id).label("last_rank"),
    _unchanged(columns).label("fresh"),
]
"""The columns that `locked_column` reads."""

_to_column = hot(
    with_access(
        sa.select(*lockable_columns).where(columns.c.id == sa.bindparam("column_id")),
        columns.c.repository_id,
    ).with_for_update(of=columns, key_share=True)
)

_target_column = sa.func.coalesce(sa.bindparam("to_column", type_=sa.Text), tasks.c.column_id)


def _is_column(column: sa.FromClause, column_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.and_(column.c.id == column_id, column.c.repository_id == tasks.c.repository_id)


_stands = [
    tasks.c.column_id.label("column_id"),
    tasks.c.bucket_id.label("bucket_id"),
    bucket_index.label("bucket_index"),
]
_to_move = hot(
    with_access(
        sa.select(
            *task_columns,
            *_stands,
            *_flags(_first_lock, "first_"),
            *_flags(_second_lock, "second_"),
            _buckets(tasks.c.column_id).label("buckets"),
            sa.case((_first_lock.c.id != _second_lock.c.id, _buckets(_target_column))).label("other_buckets"),
            _last_rank(_target_column).label("last_rank"),
            sa.and_(unchanged_task, _unchanged(_first_lock), _unchanged(_second_lock)).label("fresh"),
        )
        .join_from(
            tasks,
            _first_lock,
            _is_column(
                _first_lock, sa.case((_target_column < tasks.c.column_id, _target_column), else_=tasks.c.column_id)
            ),
        )
        .join(
            _second_lock,
            _is_column(
                _second_lock, sa.case((_target_column < tasks.c.column_id, tasks.c.column_id), else_=_target_column)
            ),
        )
        .where(_by_task_id, _alive),
        tasks.c.repository_id,
    ).with_for_update(of=[_first_lock, _second_lock, tasks], key_share=True)
)  # locked in this order

_can_move = sa.select(columns.c.id).where(
    _is_column(columns, _target_column),
    _by_task_id,
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
        _last_rank(columns.c.id).label("last_rank"),
        sa.and_(unchanged_task, _unchanged(columns)).label("fresh"),
    )
    .join_from(tasks, columns, columns.c.id == sa.func.coalesce(tasks.c.column_id, _first_column_id))
    .where(_by_task_id, tasks.c.deleted_at.is_not(None)),
    tasks.c.repository_id,
).with_for_update(of=[columns, tasks], key_share=True)


class Busy(Unavailable):
    """A task moved to another column while this transaction waited for its lock.

    The transaction now holds the wrong locks, and waiting for others could deadlock. Retry in a new transaction.
    """

    code = "busy"


async def fresh_row(tx: Transaction, statement: sa.Select[Any], params: Mapping[str, object]) -> Row | None:
    """Return the row, locked and current. None can also mean that the row stopped matching during the wait."""
    row = await tx.fetch_one(statement, params)
    if row is not None and not row["fresh"]:
        row = await tx.fetch_one(statement, params)  # the locks are held by now
    return row


async def fresh_rows(tx: Transaction, statement: sa.Select[Any], params: Mapping[str, object]) -> Sequence[Row]:
    """Return the rows, locked and current."""
    rows = await tx.fetch_all(statement, params)
    return rows if all(row["fresh"] for row in rows) else await tx.fetch_all(statement, params)


def locked_column(row: Row, prefix: str = "first_", buckets: str = "buckets") -> LockedColumn:
    """Read the column from a row of `lockable_columns`."""
    return LockedColumn(
        column=TaskColumnShape(row[prefix + "id"], row[prefix + "title"]),
        completes=completes(row[prefix + "stage"], bool(row[prefix + "finished"])),
        start_timer=bool(row[prefix + "start_timer"]),
        buckets=[Bucket(bucket_id, rank, size) for rank, bucket_id, size in sorted(json.decode(row[buckets]))],
        last_rank=row["last_rank"],
    )


def _placed(row: Row, access: Access, column: LockedColumn) -> PlacedTask:
    place = TaskPlace(row["bucket_id"], row["bucket_index"])
    before = takewhile(lambda each: each.id != place.bucket_id, column.buckets)
    position = sum(each.size for each in before) + place.offset
    return PlacedTask(access, task_at(row, project_of(access), column.column, position), place)


async def lock_task(tx: Transaction, actor: Actor, task_id: str) -> AccessedTask:
    """Lock a task to change its content, or raise `NotFound`."""
    params = {"task_id": task_id, "user_id": actor.user.id}
    # The first attempt also returns None for a task that moved to another column in the meantime. Its lock is then held
    # already, and it is the right one.
    row = require_found(await fresh_row(tx, _locked, params) or await fresh_row(tx, _locked, params))
    return _accessed(row, to_access(row, actor))


async def lock_column(tx: Transaction, actor: Actor, column_id: str) -> tuple[Access, LockedColumn]:
    """Lock a column, and with it the order of its tasks. Raises `NotFound`."""
    row = require_found(await fresh_row(tx, _to_column, {"column_id": column_id, "user_id": actor.user.id}))
    return to_access(row, actor), locked_column(row)


async def lock_to_move(tx: Transaction, actor: Actor, task_id: str, column_id: str | None) -> MovableTask:
    """Lock the task, its column, and the column that it moves to (None for its own).

    Raises `NotFound` if the caller cannot see the task, `Invalid` if its project has no such column, or `Busy`.
    """
    params = {"task_id": task_id, "to_column": column_id, "user_id": actor.user.id}
    row = await fresh_row(tx, _to_move, params)
    if row is None:
        if await tx.fetch_one(_can_move, params) is not None:
            raise Busy("Too many requests are moving this task at the same time. Try again.")
        await find_task(tx, actor, task_id)  # raises if the task does not exist
        raise no_such_column("column_id")
    access = to_access(row, actor)
    is_first = row["column_id"] == row["first_id"]
    source = target = locked_column(row, "first_" if is_first else "second_")
    if row["first_id"] != row["second_id"]:
        target = locked_column(row, "second_" if is_first else "first_", "other_buckets")
        source = msgspec.structs.replace(source, last_rank=None)  # the row contains only the target's last rank
    found = _placed(row, access, source)
    return MovableTask(access, found.task, found.place, source, target)


async def lock_to_restore(tx: Transaction, actor: Actor, task_id: str) -> tuple[Access, Task, LockedColumn] | None:
    """Lock a deleted task, positioned at the end of the column it returns to, and that column.

    Returns None if no such task is in the trash. Raises `NotFound` if the caller has no role in its project, or `Busy`.
    """
    params = {"task_id": task_id, "user_id": actor.user.id}
    row = await fresh_row(tx, _to_restore, params)
    if row is None:
        if await tx.fetch_one(_to_restore, params) is not None:
            raise Busy("Too many requests are moving this task at the same time. Try again.")
        return None
    access = to_access(row, actor)
    target = locked_column(row)
    position = sum(each.size for each in target.buckets)
    return access, task_at(row, project_of(access), target.column, position), target


# --- many tasks: one statement for all columns, and one for all tasks -------------------------------------------------

_columns_of = (
    sa.select(tasks.c.column_id, sa.cast(sa.func.sum(weight), sa.BigInteger).label("weight"))
    .where(any_of(tasks.c.id, "task_ids"), _alive)
    .group_by(tasks.c.column_id)
)
_lock_columns = (
    with_access(sa.select(*lockable_columns).where(any_of(columns.c.id, "column_ids")), columns.c.repository_id)
    .order_by(columns.c.id)
    .with_for_update(of=columns, key_share=True)
)
_lock_tasks = (
    sa.select(
        *task_columns,
        *_stands,
        unchanged_task.label("fresh"),
    )
    .where(any_of(tasks.c.id, "task_ids"), _alive)
    .order_by(tasks.c.id)
    .with_for_update(of=tasks, key_share=True)
)


async def columns_of(tx: Transaction, task_ids: Collection[str]) -> dict[str, int]:
    """Return the number of characters of the tasks' texts, summed by column."""
    if not task_ids:
        return {}
    rows = await tx.fetch_all(_columns_of, {"task_ids": sorted(task_ids)})
    return {row["column_id"]: row["weight"] for row in rows}


async def lock_columns(
    tx: Transaction, actor: Actor, column_ids: Collection[str]
) -> dict[str, tuple[Access, LockedColumn]]:
    """Lock columns in the order of their IDs. Columns that the caller cannot see are left out."""
    params = {"column_ids": sorted(column_ids), "user_id": actor.user.id}
    found = {}
    for row in await fresh_rows(tx, _lock_columns, params):
        with suppress(NotFound):
            found[row["first_id"]] = (to_access(row, actor), locked_column(row))
    return found


async def lock_tasks(
    tx: Transaction,
    task_ids: Collection[str],
    locked: Collection[str],
    seen: Mapping[str, tuple[Access, LockedColumn]],
) -> dict[str, PlacedTask]:
    """Lock the tasks that exist and are in a column of `seen`.

    `locked` are the columns that were locked because the tasks were in them. Raises `Busy` if a task has moved to
    another.
    """
    found: dict[str, PlacedTask] = {}
    if not task_ids:
        return found
    for row in await fresh_rows(tx, _lock_tasks, {"task_ids": sorted(task_ids)}):
        if row["column_id"] not in locked:
            raise Busy("Too many requests are moving these tasks at the same time. Try again.")
        if row["column_id"] in seen:
            access, column = seen[row["column_id"]]
            found[row["task_id"]] = _placed(row, access, column)
    return found


async def lock_project_tasks(
    tx: Transaction, access: Access, task_ids: Sequence[str], also: Collection[str] = ()
) -> list[Task]:
    """Lock tasks of one project, their columns and those of `also`, as a bulk change of the tasks does.

    This keeps the caller's decisions valid until that change. Raises `NotFound` or `Busy`.
    """
    column_ids = {*also, *await columns_of(tx, task_ids)}
    seen = await lock_columns(tx, access.actor, column_ids)
    found = await lock_tasks(tx, task_ids, column_ids, seen)
    for each in task_ids:
        if each not in found or found[each].task.project.id != access.repository.project_id:
            raise NotFound()
    return await assignees.visible_tasks(tx, access, [found[each].task for each in task_ids])
