"""The SQL that writes tasks and their order. Whoever calls holds the lock of the column that the task comes to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, values_of
from workhook.storage.statements import Params, hot
from workhook.work.tasks import order
from workhook.work.tasks.order import STEP, Bucket
from workhook.work.tasks.rows import CONTENT
from workhook.work.tasks.schemas import Task
from workhook.work.tasks.tables import task_assignees, task_buckets, tasks

# --- one task ---------------------------------------------------------------------------------------------------------

_others = tasks.alias("others")


def _neighbour(limit: int | sa.ColumnElement[int], offset: sa.ColumnElement[int]) -> sa.ScalarSelect[int]:
    """The rank of a task in the bucket, not counting the one that is moved."""
    return (
        sa.select(_others.c.rank)
        .where(_others.c.bucket_id == big("to_bucket"), _others.c.id != sa.bindparam("task_id"))
        .order_by(_others.c.rank)
        .limit(limit)
        .offset(offset)
        .scalar_subquery()
    )


_previous = _neighbour(big("has_previous"), big("previous_at"))
_next = _neighbour(1, big("next_at"))
# `order.rank_between`, on the database's side: no statement of its own reads the neighbours.
_rank = sa.func.coalesce((_previous + _next) // 2, _previous + STEP, _next - STEP, 0)

_content = assigned(CONTENT)
_insert = hot(
    sa.insert(tasks)
    .values(
        **_content,
        id=sa.bindparam("task_id"),
        repository_id=big("repository_id"),
        user_id=big("user_id"),
        created_at=big("created_at"),
        updated_at=big("updated_at"),
        column_id=sa.bindparam("to_column"),
        bucket_id=big("to_bucket"),
        rank=_rank,
    )
    .returning(tasks.c.rank)
)
_this = tasks.c.id == sa.bindparam("task_id")
_edit = hot(sa.update(tasks).where(_this).values(**_content, updated_at=big("updated_at")))
_move = hot(
    _edit.values(
        column_id=sa.bindparam("to_column"),
        bucket_id=big("to_bucket"),
        rank=_rank,
        deleted_at=sa.null(),
    ).returning(tasks.c.rank)
)
_trash = (
    sa.update(tasks)
    .where(_this)
    .values(bucket_id=sa.null(), rank=sa.null(), deleted_at=big("updated_at"), updated_at=big("updated_at"))
)

# --- its bucket -------------------------------------------------------------------------------------------------------

_insert_bucket = insert_into(task_buckets, "id", "column_id", "rank", "size")
_drop_bucket = sa.delete(task_buckets).where(task_buckets.c.id == big("bucket_id"), task_buckets.c.size == 0)
_set_bucket_rank = sa.update(task_buckets).where(task_buckets.c.id == big("bucket_id")).values(rank=big("new_rank"))
_split = (
    sa.update(tasks)
    .where(
        tasks.c.bucket_id == big("from_bucket"),
        tasks.c.rank
        >= sa.select(_others.c.rank)
        .where(_others.c.bucket_id == big("from_bucket"), _others.c.id != sa.bindparam("task_id"))
        .order_by(_others.c.rank)
        .limit(1)
        .offset(big("keeps"))
        .scalar_subquery(),
    )
    .values(bucket_id=big("to_bucket"))
)
_numbered = (
    sa.select(
        _others.c.id,
        ((sa.func.row_number().over(order_by=_others.c.rank) - 1) * sa.literal(STEP, sa.BigInteger)).label("new_rank"),
    )
    .where(_others.c.bucket_id == big("bucket_id"))
    .subquery("numbered")
)
_spread = sa.update(tasks).where(tasks.c.id == _numbered.c.id).values(rank=_numbered.c.new_rank)

# --- its people -------------------------------------------------------------------------------------------------------

_insert_assignee = insert_into(task_assignees, "task_id", "user_id")
_delete_assignees = sa.delete(task_assignees).where(
    task_assignees.c.task_id == sa.bindparam("task_id"), any_of(task_assignees.c.user_id, "user_ids")
)


class Spot(msgspec.Struct, frozen=True):
    """Where a task goes: a bucket that has room, and how many tasks of it are before; the position that this is.

    `between`: others are on both sides in the bucket, so that the room between these may be used up."""

    column_id: str
    bucket_id: int
    offset: int
    position: int
    between: bool


def _order(spot: Spot) -> dict[str, object]:
    return {
        "to_column": spot.column_id,
        "to_bucket": spot.bucket_id,
        "has_previous": int(spot.offset > 0),
        "previous_at": max(spot.offset - 1, 0),
        "next_at": spot.offset,
    }


def _said(task: Task) -> dict[str, object]:
    return {"task_id": task.id, **values_of(task)}


async def insert_task(tx: Transaction, repository_id: int, task: Task, spot: Spot) -> None:
    params = {**_said(task), **_order(spot), "repository_id": repository_id}
    await tx.flush()  # another new task may be waiting, which the place of this one depends on
    await _put(tx, _insert, params, spot)
    add_assignees(tx, task.id, [person.id for person in task.assignees])


def update_task(tx: Transaction, task: Task) -> None:
    """What it says; its place stays."""
    tx.defer(_edit, [_said(task)])


async def move_task(tx: Transaction, task: Task, spot: Spot) -> None:
    """Write what it says, and where it stands; it may come out of the trash."""
    await tx.flush()
    await _put(tx, _move, {**_said(task), **_order(spot)}, spot)


async def _put(tx: Transaction, statement: Executable, params: Params, spot: Spot) -> None:
    if not spot.between:
        tx.defer(statement, [params])
        return
    row = await tx.fetch_one(statement, params)
    if row is not None and order.is_crowded(row["rank"]):  # rare: after dozens of moves to one place
        await tx.execute(_spread, {"bucket_id": spot.bucket_id})


def trash_task(tx: Transaction, task: Task) -> None:
    """`updated_at` is when it was deleted."""
    tx.defer(_trash, [{"task_id": task.id, "updated_at": task.updated_at}])


async def trash_tasks(tx: Transaction, gone: Sequence[Task]) -> None:
    await tx.execute_many(_trash, [{"task_id": task.id, "updated_at": task.updated_at} for task in gone])


async def make_spot(
    tx: Transaction, column_id: str, buckets: list[Bucket], position: int | None, *, task_id: str = ""
) -> Spot:
    """Where the task goes that is to have this position (None: the last).

    Rows are written only if the bucket is full, which is rare. `buckets` are the column's, not counting the task
    itself, `task_id`, if it is in one of them; they are brought up to date.
    """
    sizes = [each.size for each in buckets]
    place = order.place_of(sizes, position)
    found = order.position_of(sizes, place)
    room = order.room_at(sizes, place)
    if room is not None:
        await _add_bucket(tx, column_id, buckets, place.bucket, room, task_id)
        place = room.place
    bucket = buckets[place.bucket]
    return Spot(column_id, bucket.id, place.offset, found, between=0 < place.offset < bucket.size)


async def _add_bucket(
    tx: Transaction, column_id: str, buckets: list[Bucket], full: int, room: order.Room, task_id: str
) -> None:
    old = buckets[full]
    before = buckets[room.at - 1].rank if room.at > 0 else None
    after = buckets[room.at].rank if room.at < len(buckets) else None
    new = Bucket(order.new_bucket_id(), order.rank_between(before, after), old.size - room.keeps)
    await insert_buckets(tx, [(column_id, new)])
    if new.size:
        params = {"from_bucket": old.id, "to_bucket": new.id, "task_id": task_id, "keeps": room.keeps}
        await tx.execute(_split, params)
    old.size = room.keeps
    buckets.insert(room.at, new)
    if order.is_crowded(new.rank):
        for each, rank in zip(buckets, order.spread(len(buckets)), strict=True):
            each.rank = rank
        await set_bucket_ranks(tx, buckets)


async def insert_buckets(tx: Transaction, new: Sequence[tuple[str, Bucket]]) -> None:
    """With the ids of their columns. They are empty: a trigger counts what comes into them."""
    rows = [{"id": each.id, "column_id": column_id, "rank": each.rank, "size": 0} for column_id, each in new]
    await tx.execute_many(_insert_bucket, rows)


async def set_bucket_ranks(tx: Transaction, buckets: Sequence[Bucket]) -> None:
    await tx.execute_many(_set_bucket_rank, [{"bucket_id": each.id, "new_rank": each.rank} for each in buckets])


async def drop_if_empty(tx: Transaction, buckets: Sequence[Bucket], bucket: Bucket) -> None:
    """A column keeps one bucket. `bucket.size` is without the task that left it."""
    if bucket.size == 0 and len(buckets) > 1:
        await tx.execute(_drop_bucket, {"bucket_id": bucket.id})


def add_assignees(tx: Transaction, task_id: str, user_ids: Collection[int]) -> None:
    tx.defer(_insert_assignee, [{"task_id": task_id, "user_id": each} for each in user_ids])


async def set_assignees(tx: Transaction, before: Task, after: Task) -> None:
    """What differs is written."""
    had, wanted = ({person.id for person in each.assignees} for each in (before, after))
    if gone := had - wanted:
        await tx.execute(_delete_assignees, {"task_id": after.id, "user_ids": sorted(gone)})
    if added := wanted - had:
        add_assignees(tx, after.id, sorted(added))
