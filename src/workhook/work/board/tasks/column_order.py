"""An order in which moving one thing writes few rows, however many there are: its rules, a column in memory, the SQL.

Things have ranks: integers with gaps, and a thing that is put between two others gets the rank in the middle. The tasks
of a column are in buckets besides, so that a position is counted without looking at every task
(`work/board/tasks/schemas.py`).

All ranks are even. The middle between two of them is then a new one, and is odd when there is no room left beside it:
whoever gets an odd rank spreads the ranks anew before anybody else can.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate

import msgspec
import sqlalchemy as sa

from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.work.board.tasks.schemas import task_buckets, tasks

STEP = 1 << 32
"""The gap between neighbours at first: the middle can be taken 31 times at the same place."""

BUCKET_FILL = 96
"""Tasks of a bucket at either end of a column before the next one is begun: with room for others to come between."""

BUCKET_MAX = 160
"""Tasks in a bucket. Moving a card then costs the same in a column of 10 and of 10,000: larger buckets make counting
in them slower, smaller ones counting them."""


class Bucket(msgspec.Struct):
    """One bucket of a column, in a list by rank."""

    id: int
    rank: int
    size: int


class BucketPlace(msgspec.Struct, frozen=True):
    """The place behind the first `offset` tasks of the bucket that is `bucket`th in its column."""

    bucket: int
    offset: int


class Rank(msgspec.Struct, frozen=True):
    """Where a task stands: its bucket, and its rank there."""

    bucket_id: int
    rank: int


def new_bucket_id() -> int:
    """62 random bits: known before the row is written, so that no statement has to answer it."""
    return int.from_bytes(os.urandom(8)) >> 2


def rank_between(before: int | None, after: int | None) -> int:
    """The rank of what is put between two neighbours; None where there is none."""
    if before is None:
        return 0 if after is None else after - STEP
    return before + STEP if after is None else (before + after) // 2


def is_crowded(rank: int) -> bool:
    """Whether there is no room beside what just got this rank."""
    return rank % 2 == 1


def spread(count: int) -> list[int]:
    """Ranks for so many things in order."""
    return [number * STEP for number in range(count)]


def place_at(sizes: Sequence[int], position: int | None) -> BucketPlace:
    """Where the task goes that is to have this position (None, or past the end: the last one).

    Between two buckets it joins the first of them, unless only the other has room.
    """
    ends = list(accumulate(sizes))
    if position is None or position >= ends[-1]:
        return BucketPlace(len(sizes) - 1, sizes[-1])
    bucket = bisect_right(ends, position)
    offset = position - (ends[bucket] - sizes[bucket])
    if offset == 0 and bucket > 0 and (sizes[bucket - 1] < BUCKET_MAX or sizes[bucket] >= BUCKET_MAX):
        return BucketPlace(bucket - 1, sizes[bucket - 1])
    return BucketPlace(bucket, offset)


class BucketSplit(msgspec.Struct, frozen=True):
    """`new` came beside the bucket `full`, with the tasks behind its first `keeps`. `place` is where the task goes now.
    `all_ranks`: every bucket of the column got another rank."""

    full: Bucket
    new: Bucket
    keeps: int
    place: BucketPlace
    all_ranks: bool


def split_if_full(buckets: list[Bucket], place: BucketPlace) -> BucketSplit | None:
    """Add a bucket to the column if the one at the place has no room for a task.

    At either end of the bucket the new one is empty, so that appending leaves filled buckets behind and moves none of
    their tasks; elsewhere the bucket is halved.
    """
    number, offset, full = place.bucket, place.offset, buckets[place.bucket]
    at_an_end = (number == len(buckets) - 1 and offset == full.size) or (number == 0 and offset == 0)
    if full.size < (BUCKET_FILL if at_an_end else BUCKET_MAX):
        return None
    at, keeps, place = number + 1, full.size, BucketPlace(number + 1, 0)
    if offset == 0:
        at, place = number, BucketPlace(number, 0)
    elif offset < full.size:
        keeps = full.size // 2
        place = BucketPlace(number, offset) if offset <= keeps else BucketPlace(number + 1, offset - keeps)
    before = buckets[at - 1].rank if at > 0 else None
    after = buckets[at].rank if at < len(buckets) else None
    new = Bucket(new_bucket_id(), rank_between(before, after), full.size - keeps)
    full.size = keeps
    buckets.insert(at, new)
    crowded = is_crowded(new.rank)
    if crowded:
        for each, rank in zip(buckets, spread(len(buckets)), strict=True):
            each.rank = rank
    return BucketSplit(full, new, keeps, place, crowded)


class ColumnOrder:
    """The order of one column in memory, for many changes at once: what has to be written in the end is what differs.

    `ranks`: the tasks of the buckets that will be looked into, which are all of them unless tasks are only appended:
    the last one is enough then.
    """

    def __init__(self, buckets: Sequence[Bucket], ranks: Mapping[str, Rank]) -> None:
        self.buckets = [Bucket(each.id, each.rank, each.size) for each in buckets]
        self._bucket_ranks_before = {each.id: each.rank for each in buckets}
        self._ranks_before = dict(ranks)
        self._bucket_of = {task_id: each.bucket_id for task_id, each in ranks.items()}
        self._ranked: dict[int, list[tuple[int, str]]] = {}
        for task_id, each in ranks.items():
            self._ranked.setdefault(each.bucket_id, []).append((each.rank, task_id))
        for ranked in self._ranked.values():
            ranked.sort()

    def insert(self, task_id: str, position: int | None) -> None:
        """Put a task at a position (None: at the end)."""
        place = place_at([each.size for each in self.buckets], position)
        if (split := split_if_full(self.buckets, place)) is not None:
            place = split.place
            if split.new.size:
                ranked = self._ranked[split.full.id]
                self._ranked[split.new.id] = ranked[split.keeps :]
                del ranked[split.keeps :]
                self._bucket_of.update((moved, split.new.id) for _, moved in self._ranked[split.new.id])
        bucket = self.buckets[place.bucket]
        ranked = self._ranked.setdefault(bucket.id, [])
        assert len(ranked) == bucket.size, "the tasks of this bucket are not known"
        before = ranked[place.offset - 1][0] if place.offset > 0 else None
        after = ranked[place.offset][0] if place.offset < len(ranked) else None
        rank = rank_between(before, after)
        ranked.insert(place.offset, (rank, task_id))
        bucket.size += 1
        self._bucket_of[task_id] = bucket.id
        if is_crowded(rank):
            ranked[:] = zip(spread(len(ranked)), (each for _, each in ranked), strict=True)

    def remove(self, task_id: str) -> None:
        bucket_id = self._bucket_of.pop(task_id)
        number = next(number for number, each in enumerate(self.buckets) if each.id == bucket_id)
        ranked = self._ranked[bucket_id]
        del ranked[next(index for index, (_, each) in enumerate(ranked) if each == task_id)]
        self.buckets[number].size -= 1
        if self.buckets[number].size == 0 and len(self.buckets) > 1:
            del self.buckets[number]

    def positions(self, task_ids: Iterable[str]) -> dict[str, int]:
        """The positions of those of the tasks that are known here."""
        wanted = {task_id for task_id in task_ids if task_id in self._bucket_of}
        found, before = {}, 0
        for bucket in self.buckets:
            for offset, (_, task_id) in enumerate(self._ranked.get(bucket.id, ())):
                if task_id in wanted:
                    found[task_id] = before + offset
            before += bucket.size
        return found

    # --- what is to be written ----------------------------------------------------------------------------------------

    @property
    def new_buckets(self) -> list[Bucket]:
        return [each for each in self.buckets if each.id not in self._bucket_ranks_before]

    @property
    def dropped_buckets(self) -> list[int]:
        kept = {each.id for each in self.buckets}
        return [bucket_id for bucket_id in self._bucket_ranks_before if bucket_id not in kept]

    @property
    def moved_buckets(self) -> list[Bucket]:
        return [each for each in self.buckets if self._bucket_ranks_before.get(each.id, each.rank) != each.rank]

    @property
    def ranks(self) -> dict[str, Rank]:
        """The rank of every task that is known here."""
        return {
            task_id: Rank(bucket.id, rank)
            for bucket in self.buckets
            for rank, task_id in self._ranked.get(bucket.id, ())
        }

    @property
    def changed(self) -> dict[str, Rank]:
        """The ranks of the tasks that stand elsewhere than at first, or were not here."""
        return {task_id: each for task_id, each in self.ranks.items() if self._ranks_before.get(task_id) != each}


# --- the SQL: the caller holds the lock of the column that the task comes to ------------------------------------------

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
