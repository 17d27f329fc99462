"""The SQL of many changes at once: a statement for all tasks, all columns, all buckets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
import sqlalchemy as sa

from workhook.core.errors import NotFound
from workhook.identity.schemas import Actor
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, stored_names, values_of
from workhook.work.access import Access, access_of, with_access
from workhook.work.columns.schemas import columns
from workhook.work.tasks import queries, writes
from workhook.work.tasks.queries import Target
from workhook.work.tasks.rows import CONTENT, bucket_index, listed_task_of, task_columns, weight
from workhook.work.tasks.schemas import Task
from workhook.work.tasks.shelf import Shelf, Standing
from workhook.work.tasks.tables import task_assignees, task_buckets, tasks

_alive = tasks.c.deleted_at.is_(None)
_columns_of = (
    sa.select(tasks.c.column_id, sa.cast(sa.func.sum(weight), sa.BigInteger).label("weight"))
    .where(any_of(tasks.c.id, "task_ids"), _alive)
    .group_by(tasks.c.column_id)
)
_lock_columns = (
    with_access(sa.select(*queries.target_columns).where(any_of(columns.c.id, "column_ids")), columns.c.repository_id)
    .order_by(columns.c.id)
    .with_for_update(of=columns, key_share=True)
)
_lock_tasks = (
    sa.select(
        *task_columns(),
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
_standing = sa.select(tasks.c.id, tasks.c.bucket_id, tasks.c.rank).where(any_of(tasks.c.bucket_id, "bucket_ids"))

_insert = insert_into(tasks, "repository_id", "column_id", "bucket_id", "rank", *stored_names(Task))
_this = tasks.c.id == sa.bindparam("task_id")
_place = {"bucket_id": big("to_bucket"), "rank": big("to_rank")}
_shift = sa.update(tasks).where(_this).values(_place)
_rewrite = (
    sa.update(tasks)
    .where(_this)
    .values({**_place, "column_id": sa.bindparam("to_column"), "updated_at": big("updated_at"), **assigned(CONTENT)})
)
_delete_assignee = sa.delete(task_assignees).where(
    task_assignees.c.task_id == sa.bindparam("task_id"), task_assignees.c.user_id == big("user_id")
)
_insert_assignee = insert_into(task_assignees, "task_id", "user_id")
_drop_bucket = sa.delete(task_buckets).where(task_buckets.c.id == big("bucket_id"), task_buckets.c.size == 0)


class Known(msgspec.Struct, frozen=True):
    """A task that is there, and where it stands."""

    task: Task
    standing: Standing


async def columns_of(tx: Transaction, task_ids: Collection[str]) -> dict[str, int]:
    """The columns that the tasks are in, with the characters of the texts of those tasks."""
    if not task_ids:
        return {}
    rows = await tx.fetch_all(_columns_of, {"task_ids": sorted(task_ids)})
    return {row["column_id"]: row["weight"] for row in rows}


async def lock_columns(tx: Transaction, actor: Actor, column_ids: Collection[str]) -> dict[str, tuple[Access, Target]]:
    """In the order of their ids. Those that are not there are left out, and those that the caller does not see."""
    params = {"column_ids": sorted(column_ids), "user_id": actor.user.id}
    rows = await tx.fetch_all(_lock_columns, params)
    if not all(row["fresh"] for row in rows):
        rows = await tx.fetch_all(_lock_columns, params)
    found = {}
    for row in rows:
        with suppress(NotFound):
            found[row["low_id"]] = (access_of(row, actor), queries.target_of(row))
    return found


async def lock_tasks(
    tx: Transaction, task_ids: Collection[str], locked: Collection[str], seen: Mapping[str, tuple[Access, Target]]
) -> dict[str, Known]:
    """Those of the tasks that are there, in a column that the caller has `seen`.

    The columns that they were in are `locked`. Raises `Busy` if one came to another before that.
    """
    if not task_ids:
        return {}
    params = {"task_ids": sorted(task_ids)}
    rows = await tx.fetch_all(_lock_tasks, params)
    if not all(row["fresh"] for row in rows):
        rows = await tx.fetch_all(_lock_tasks, params)
    known = {}
    for row in rows:
        if row["column_id"] not in locked:
            raise queries.Busy("A task is being moved by many at once.")
        if row["column_id"] not in seen:
            continue
        access, target = seen[row["column_id"]]
        number = next(number for number, each in enumerate(target.buckets) if each.id == row["bucket_id"])
        position = sum(each.size for each in target.buckets[:number]) + row["bucket_index"]
        task = listed_task_of(row, queries.project_of(access), target.column, position)
        known[task.id] = Known(task, Standing(row["bucket_id"], row["rank"]))
    return known


async def standing_in(tx: Transaction, bucket_ids: Collection[int]) -> dict[int, dict[str, Standing]]:
    """The tasks of the buckets, by bucket."""
    found: dict[int, dict[str, Standing]] = {bucket_id: {} for bucket_id in bucket_ids}
    if bucket_ids:
        for row in await tx.fetch_all(_standing, {"bucket_ids": sorted(bucket_ids)}):
            found[row["bucket_id"]][row["id"]] = Standing(row["bucket_id"], row["rank"])
    return found


class Written(msgspec.Struct, frozen=True):
    """A task that is made or changed, with what it was before (None: it was not), and where it stands then."""

    repository_id: int
    before: Task | None
    after: Task
    standing: Standing


async def write(
    tx: Transaction, written: Sequence[Written], deleted: Sequence[Task], shelves: Iterable[tuple[str, Shelf]]
) -> None:
    """`shelves` by the id of their column: their buckets, and the tasks that were only shifted, are written too."""
    shelves = list(shelves)
    await _open_buckets(tx, shelves)
    await tx.execute_many(_insert, [_row(each) for each in written if each.before is None])
    await tx.execute_many(_rewrite, [_change(each) for each in written if each.before is not None])
    handled = {each.after.id for each in written} | {each.id for each in deleted}
    shifted = {
        task_id: each for _, shelf in shelves for task_id, each in shelf.shifted.items() if task_id not in handled
    }
    await tx.execute_many(
        _shift,
        [{"task_id": task_id, "to_bucket": each.bucket_id, "to_rank": each.rank} for task_id, each in shifted.items()],
    )
    await writes.trash_tasks(tx, deleted)
    await _close_buckets(tx, shelves)
    await _write_assignees(tx, written)


async def _open_buckets(tx: Transaction, shelves: Sequence[tuple[str, Shelf]]) -> None:
    """Their sizes grow with the tasks that come into them: a trigger counts."""
    await writes.insert_buckets(tx, [(column_id, each) for column_id, shelf in shelves for each in shelf.new_buckets])


async def _close_buckets(tx: Transaction, shelves: Sequence[tuple[str, Shelf]]) -> None:
    await writes.set_bucket_ranks(tx, [each for _, shelf in shelves for each in shelf.moved_buckets])
    dropped = [bucket_id for _, shelf in shelves for bucket_id in shelf.dropped_buckets]
    await tx.execute_many(_drop_bucket, [{"bucket_id": each} for each in dropped])


async def _write_assignees(tx: Transaction, written: Sequence[Written]) -> None:
    gone, added = [], []
    for each in written:
        had = {person.id for person in each.before.assignees} if each.before else set()
        wanted = {person.id for person in each.after.assignees}
        gone += [{"task_id": each.after.id, "user_id": user_id} for user_id in sorted(had - wanted)]
        added += [{"task_id": each.after.id, "user_id": user_id} for user_id in sorted(wanted - had)]
    await tx.execute_many(_delete_assignee, gone)
    await tx.execute_many(_insert_assignee, added)


def _row(made: Written) -> dict[str, object]:
    task = made.after
    place = {"column_id": task.column.id, "bucket_id": made.standing.bucket_id, "rank": made.standing.rank}
    return {"repository_id": made.repository_id, **place, **values_of(task)}


def _change(changed: Written) -> dict[str, object]:
    task, standing = changed.after, changed.standing
    place = {"to_column": task.column.id, "to_bucket": standing.bucket_id, "to_rank": standing.rank}
    return {"task_id": task.id, **place, **values_of(task)}
