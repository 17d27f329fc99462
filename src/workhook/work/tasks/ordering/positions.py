"""The SQL of the order of tasks. Whoever calls holds the lock of the column that the task comes to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec
import sqlalchemy as sa

from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.work.tasks.ordering.column_order import (
    STEP,
    Bucket,
    ColumnOrder,
    Rank,
    place_at,
    split_if_full,
)
from workhook.work.tasks.tables import task_buckets, tasks

_others = tasks.alias("others")
_is_other = _others.c.id != sa.bindparam("task_id")  # the one that is moved does not count


def _neighbour(limit: int | sa.ColumnElement[int], offset: sa.ColumnElement[int]) -> sa.ScalarSelect[int]:
    """The rank of a task in the bucket, not counting the one that is moved."""
    return (
        sa.select(_others.c.rank)
        .where(_others.c.bucket_id == big("to_bucket"), _is_other)
        .order_by(_others.c.rank)
        .limit(limit)
        .offset(offset)
        .scalar_subquery()
    )


_previous = _neighbour(big("has_previous"), big("previous_at"))
_next = _neighbour(1, big("next_at"))
new_rank = sa.func.coalesce((_previous + _next) // 2, _previous + STEP, _next - STEP, 0)
"""`rank_between`, on the database's side: no statement of its own reads the neighbours. `InsertPosition.params` has
what it asks for, besides `task_id`."""

_insert_bucket = insert_into(task_buckets, "id", "column_id", "rank", "size")
_drop_bucket = sa.delete(task_buckets).where(task_buckets.c.id == big("bucket_id"), task_buckets.c.size == 0)
_set_bucket_rank = sa.update(task_buckets).where(task_buckets.c.id == big("bucket_id")).values(rank=big("new_rank"))
_first_that_goes = (
    sa.select(_others.c.rank)
    .where(_others.c.bucket_id == big("from_bucket"), _is_other)
    .order_by(_others.c.rank)
    .limit(1)
    .offset(big("keeps"))
    .scalar_subquery()
)
_split = (
    sa.update(tasks)
    .where(tasks.c.bucket_id == big("from_bucket"), tasks.c.rank >= _first_that_goes)
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
_ranks = sa.select(tasks.c.id, tasks.c.bucket_id, tasks.c.rank).where(any_of(tasks.c.bucket_id, "bucket_ids"))
_set_rank = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task_id"))
    .values(bucket_id=big("to_bucket"), rank=big("to_rank"))
)


class InsertPosition(msgspec.Struct, frozen=True):
    """Where a task goes: a bucket that has room, and how many tasks of it are before; the position that this is.

    `between`: others are on both sides in the bucket, so that the room between these may be used up."""

    column_id: str
    bucket_id: int
    offset: int
    position: int
    between: bool

    @property
    def params(self) -> dict[str, object]:
        return {
            "to_column": self.column_id,
            "to_bucket": self.bucket_id,
            "has_previous": int(self.offset > 0),
            "previous_at": max(self.offset - 1, 0),
            "next_at": self.offset,
        }


async def find_insert_position(
    tx: Transaction, column_id: str, buckets: list[Bucket], position: int | None, *, task_id: str = ""
) -> InsertPosition:
    """Where the task goes that is to have this position (None: the last).

    Rows are written only if the bucket is full, which is rare. `buckets` are the column's, not counting the task
    itself, `task_id`, if it is in one of them; they are brought up to date.
    """
    sizes = [each.size for each in buckets]
    place = place_at(sizes, position)
    found = sum(sizes[: place.bucket]) + place.offset
    if (split := split_if_full(buckets, place)) is not None:
        place = split.place
        await insert_buckets(tx, [(column_id, split.new)])
        if split.new.size:
            ids = {"from_bucket": split.full.id, "to_bucket": split.new.id, "task_id": task_id}
            await tx.execute(_split, {**ids, "keeps": split.keeps})
        if split.all_ranks:
            await _set_bucket_ranks(tx, buckets)
    bucket = buckets[place.bucket]
    return InsertPosition(column_id, bucket.id, place.offset, found, between=0 < place.offset < bucket.size)


async def insert_buckets(tx: Transaction, new: Sequence[tuple[str, Bucket]]) -> None:
    """Add buckets to the columns with these ids. They are empty: a trigger counts what comes into them."""
    rows = [{"id": each.id, "column_id": column_id, "rank": each.rank, "size": 0} for column_id, each in new]
    await tx.execute_many(_insert_bucket, rows)


async def _set_bucket_ranks(tx: Transaction, buckets: Sequence[Bucket]) -> None:
    await tx.execute_many(_set_bucket_rank, [{"bucket_id": each.id, "new_rank": each.rank} for each in buckets])


async def drop_if_empty(tx: Transaction, buckets: Sequence[Bucket], bucket: Bucket) -> None:
    """A column keeps one bucket. `bucket.size` is without the task that left it."""
    if bucket.size == 0 and len(buckets) > 1:
        await tx.execute(_drop_bucket, {"bucket_id": bucket.id})


async def spread_ranks(tx: Transaction, bucket_id: int) -> None:
    """Give the tasks of a bucket new ranks, with gaps."""
    await tx.execute(_spread, {"bucket_id": bucket_id})


# --- many tasks at once -----------------------------------------------------------------------------------------------


async def ranks_in(tx: Transaction, bucket_ids: Collection[int]) -> dict[int, dict[str, Rank]]:
    """The tasks of the buckets, by bucket."""
    found: dict[int, dict[str, Rank]] = {bucket_id: {} for bucket_id in bucket_ids}
    if bucket_ids:
        for row in await tx.fetch_all(_ranks, {"bucket_ids": sorted(bucket_ids)}):
            found[row["bucket_id"]][row["id"]] = Rank(row["bucket_id"], row["rank"])
    return found


async def set_ranks(tx: Transaction, orders: Iterable[ColumnOrder], without: Collection[str]) -> None:
    """Write the ranks that have changed, but for the tasks `without`, which somebody else writes."""
    changed = [item for order in orders for item in order.changed.items() if item[0] not in without]
    params = [{"task_id": task_id, "to_bucket": each.bucket_id, "to_rank": each.rank} for task_id, each in changed]
    await tx.execute_many(_set_rank, params)


async def update_buckets(tx: Transaction, orders: Sequence[ColumnOrder]) -> None:
    """Give buckets their new ranks, and delete those that have become empty."""
    await _set_bucket_ranks(tx, [each for order in orders for each in order.moved_buckets])
    await tx.execute_many(_drop_bucket, [{"bucket_id": each} for order in orders for each in order.dropped_buckets])
