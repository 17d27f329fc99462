"""The SQL of many changes at once: a statement for all tasks, all columns, all buckets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import msgspec
import sqlalchemy as sa

from workhook.core.errors import NotFound
from workhook.identity.schemas import Actor
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.record_rows import assigned, stored_names, values_of
from workhook.work.board.tasks import assignees, queries
from workhook.work.board.tasks.column_order import ColumnOrder, Rank, insert_buckets, set_ranks, update_buckets
from workhook.work.board.tasks.queries import LockedColumn
from workhook.work.board.tasks.schemas import (
    CONTENT,
    Task,
    bucket_index,
    columns,
    task_assignees,
    task_at,
    task_columns,
    tasks,
    weight,
)
from workhook.work.kernel.access import Access, access_of, with_access

_alive = tasks.c.deleted_at.is_(None)
_columns_of = (
    sa.select(tasks.c.column_id, sa.cast(sa.func.sum(weight), sa.BigInteger).label("weight"))
    .where(any_of(tasks.c.id, "task_ids"), _alive)
    .group_by(tasks.c.column_id)
)
_lock_columns = (
    with_access(sa.select(*queries.lockable_columns).where(any_of(columns.c.id, "column_ids")), columns.c.repository_id)
    .order_by(columns.c.id)
    .with_for_update(of=columns, key_share=True)
)
_lock_tasks = (
    sa.select(
        *task_columns,
        tasks.c.column_id.label("column_id"),
        tasks.c.bucket_id.label("bucket_id"),
        tasks.c.rank.label("rank"),
        bucket_index.label("bucket_index"),
        queries.unchanged_task.label("fresh"),
    )
    .where(any_of(tasks.c.id, "task_ids"), _alive)
    .order_by(tasks.c.id)
    .with_for_update(of=tasks, key_share=True)
)
_place = {"column_id": sa.bindparam("to_column"), "bucket_id": big("to_bucket"), "rank": big("to_rank")}
_insert = sa.insert(tasks).values({"repository_id": big("repository_id"), **_place, **assigned(stored_names(Task))})
_rewrite = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task_id"))
    .values({**_place, "updated_at": big("updated_at"), **assigned(CONTENT)})
)
_delete_assignee = sa.delete(task_assignees).where(
    task_assignees.c.task_id == sa.bindparam("task_id"), task_assignees.c.user_id == big("user_id")
)


class RankedTask(msgspec.Struct, frozen=True):
    """A task that is there, and where it stands."""

    task: Task
    rank: Rank


class TaskChange(msgspec.Struct, frozen=True):
    """A task that is made or changed, with what it was before (None: it was not), and where it stands then."""

    access: Access
    before: Task | None
    after: Task
    rank: Rank


async def columns_of(tx: Transaction, task_ids: Collection[str]) -> dict[str, int]:
    """The columns that the tasks are in, with the characters of the texts of those tasks."""
    if not task_ids:
        return {}
    rows = await tx.fetch_all(_columns_of, {"task_ids": sorted(task_ids)})
    return {row["column_id"]: row["weight"] for row in rows}


async def lock_columns(
    tx: Transaction, actor: Actor, column_ids: Collection[str]
) -> dict[str, tuple[Access, LockedColumn]]:
    """Lock columns in the order of their ids. Those that the caller does not see are left out."""
    params = {"column_ids": sorted(column_ids), "user_id": actor.user.id}
    found = {}
    for row in await queries.fresh_rows(tx, _lock_columns, params):
        with suppress(NotFound):
            found[row["first_id"]] = (access_of(row, actor), queries.locked_column(row))
    return found


async def lock_tasks(
    tx: Transaction,
    task_ids: Collection[str],
    locked: Collection[str],
    seen: Mapping[str, tuple[Access, LockedColumn]],
) -> dict[str, RankedTask]:
    """Lock those of the tasks that are there, in a column that the caller has `seen`.

    The columns that they were in are `locked`. Raises `Busy` if one came to another before that.
    """
    found: dict[str, RankedTask] = {}
    if not task_ids:
        return found
    for row in await queries.fresh_rows(tx, _lock_tasks, {"task_ids": sorted(task_ids)}):
        if row["column_id"] not in locked:
            raise queries.Busy("A task is being moved by many at once.")
        if row["column_id"] in seen:
            access, column = seen[row["column_id"]]
            _, position = column.position_of(row)
            task = task_at(row, queries.project_of(access), column.column, position)
            found[task.id] = RankedTask(task, Rank(row["bucket_id"], row["rank"]))
    return found


async def lock_of_project(
    tx: Transaction, access: Access, task_ids: Sequence[str], also: Collection[str] = ()
) -> list[Task]:
    """The tasks of one project, locked with their columns and those of `also`, as a change of them all locks them: what
    the caller makes of them is not out of date when that comes. Raises `NotFound`, `Busy`."""
    column_ids = {*also, *await columns_of(tx, task_ids)}
    seen = await lock_columns(tx, access.actor, column_ids)
    found = await lock_tasks(tx, task_ids, column_ids, seen)
    for each in task_ids:
        if each not in found or found[each].task.project.id != access.repository.project_id:
            raise NotFound()
    return await assignees.as_seen(tx, access, [found[each].task for each in task_ids])


async def write(
    tx: Transaction, changes: Sequence[TaskChange], deleted: Sequence[Task], orders: Mapping[str, ColumnOrder]
) -> None:
    """Write the changes and the `orders`, by column id, with the tasks that only got another rank."""
    # A bucket's size grows with the tasks that come into it: a trigger counts.
    new_buckets = [(column_id, each) for column_id, order in orders.items() for each in order.new_buckets]
    await insert_buckets(tx, new_buckets)
    await tx.execute_many(_insert, [_params(each) for each in changes if each.before is None])
    await tx.execute_many(_rewrite, [_params(each) for each in changes if each.before is not None])
    handled = {each.after.id for each in changes} | {each.id for each in deleted}
    await set_ranks(tx, orders.values(), without=handled)
    await queries.trash_tasks(tx, deleted)
    await update_buckets(tx, list(orders.values()))
    await _write_assignees(tx, changes)


async def _write_assignees(tx: Transaction, changes: Sequence[TaskChange]) -> None:
    gone, added = [], []
    for each in changes:
        had = {person.id for person in each.before.assignees} if each.before else set()
        wanted = {person.id for person in each.after.assignees}
        gone += [{"task_id": each.after.id, "user_id": user_id} for user_id in sorted(had - wanted)]
        added += [{"task_id": each.after.id, "user_id": user_id} for user_id in sorted(wanted - had)]
    await tx.execute_many(_delete_assignee, gone)
    await tx.execute_many(queries.insert_assignee, added)


def _params(change: TaskChange) -> dict[str, object]:
    place = {"to_column": change.after.column.id, "to_bucket": change.rank.bucket_id, "to_rank": change.rank.rank}
    ids = {"task_id": change.after.id, "repository_id": change.access.repository.id}
    return {**ids, **place, **values_of(change.after)}
