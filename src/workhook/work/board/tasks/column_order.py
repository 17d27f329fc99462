"""The order of a column, in which moving one item writes few rows no matter how many there are.

Ranks are integers with gaps, and an item between two others gets the rank in the middle. The tasks of a column are also
grouped into buckets, so a position can be computed without reading every task (`work/board/tasks/schemas.py`).

Stored ranks are even, so the middle between two of them is unused. An odd rank means that no gap is left next to it;
the transaction that computes one spreads the ranks again.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

import msgspec

STEP = 1 << 32
"""The initial gap between neighbors. It allows 31 successive insertions at the same place."""

BUCKET_FILL = 96
"""The size at which a bucket at either end of a column is followed by a new one, leaving room for insertions."""

BUCKET_MAX = 160
"""The maximum size of a bucket.

Moving a card costs the same in columns of 10 and of 10,000 tasks. With larger buckets, counting within one takes
longer; with more buckets, counting the buckets does.
"""


class Bucket(msgspec.Struct):
    id: int
    rank: int
    size: int


class BucketPlace(msgspec.Struct, frozen=True):
    """The place after the first `offset` tasks of the column's bucket at index `bucket`."""

    bucket: int
    offset: int


class Rank(msgspec.Struct, frozen=True):
    """A task's bucket, and its rank in the bucket."""

    bucket_id: int
    rank: int


class TaskPlace(NamedTuple):
    """A task's bucket, and the number of tasks before it in the bucket."""

    bucket_id: int
    offset: int


def new_bucket_id() -> int:
    """Return 62 random bits. The ID is random so that it is known before the row is written."""
    return int.from_bytes(os.urandom(8)) >> 2


def rank_between(before: int | None, after: int | None) -> int:
    """Return a rank between two neighbors; None stands for a missing neighbor."""
    if before is None:
        return 0 if after is None else after - STEP
    return before + STEP if after is None else (before + after) // 2


def is_crowded(rank: int) -> bool:
    """Return whether a newly computed rank leaves no gap."""
    return rank % 2 == 1


def spread(count: int) -> list[int]:
    """Return ranks for `count` items in order."""
    return [number * STEP for number in range(count)]


def find_place(sizes: Sequence[int], position: int | None) -> BucketPlace:
    """Return the place for a position; None, or a position past the end, means the end.

    Between two buckets, the first is preferred unless only the second has space.
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
    """A split of the bucket `full`: its tasks after the first `keeps` moved to the bucket `new` next to it.

    `place` is where the inserted task now belongs.
    """

    full: Bucket
    new: Bucket
    keeps: int
    place: BucketPlace


def split_if_full(buckets: list[Bucket], place: BucketPlace) -> BucketSplit | None:
    """Add a bucket to the column if the bucket at `place` has no space for another task.

    At either end of the bucket, the new one starts empty, so appending leaves full buckets behind and moves no tasks.
    Elsewhere, the bucket is halved.
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
    if is_crowded(new.rank):
        for each, rank in zip(buckets, spread(len(buckets)), strict=True):
            each.rank = rank
    return BucketSplit(full, new, keeps, place)


class Step(NamedTuple):
    """A change to the order of a column. `move` is within the column. A `position` of None means the end."""

    kind: Literal["insert", "move", "remove"]
    task_id: str
    position: int | None = None


def buckets_to_read(buckets: Sequence[Bucket], steps: Sequence[Step]) -> set[int]:
    """Return the IDs of the buckets that must be read: those in which a step inserts a task between others.

    Each step shifts the positions of later steps by at most one.
    """
    sizes = [each.size for each in buckets]
    ends = list(accumulate(sizes))
    starts = [end - size for end, size in zip(ends, sizes, strict=True)]
    found: set[int] = set()
    for step in steps:
        if step.position is not None:
            position = min(step.position, ends[-1])
            first, last = bisect_left(ends, position - len(steps)), bisect_right(starts, position + len(steps))
            found.update(each.id for each in buckets[first:last])
    return found


class ColumnOrder:
    """The order of one column in memory, which determines the rows that must be written.

    `ranks` are the tasks of the buckets that were read. `places` are tasks of other buckets, which may be moved or
    removed. `last_rank` is the rank of the last task of the last bucket, which allows appending without reading that
    bucket.
    """

    def __init__(
        self,
        buckets: Sequence[Bucket],
        ranks: Mapping[str, Rank],
        places: Mapping[str, TaskPlace] | None = None,
        last_rank: int | None = None,
    ) -> None:
        self.buckets = [Bucket(each.id, each.rank, each.size) for each in buckets]
        self._bucket_ranks_before = {each.id: each.rank for each in buckets}
        self._always_empty = {each.id for each in buckets if not each.size}
        self._ranks_before = dict(ranks)
        self._last = Rank(buckets[-1].id, last_rank) if last_rank is not None else None
        self._bucket_of = {task_id: each.bucket_id for task_id, each in ranks.items()}
        self._places = {
            task_id: each
            for task_id, each in (places or {}).items()
            if each.bucket_id in self._bucket_ranks_before and task_id not in ranks
        }
        read = set(self._bucket_of.values())
        self._unread = {each.id: 0 if each.id in read else each.size for each in buckets}
        """The number of unread tasks in each bucket; they precede those of `_ranked`."""
        self._ranked: dict[int, list[tuple[int, str]]] = {}
        for task_id, each in ranks.items():
            self._ranked.setdefault(each.bucket_id, []).append((each.rank, task_id))
        for ranked in self._ranked.values():
            ranked.sort()

    def apply(self, step: Step) -> None:
        if step.kind == "move" and step.position is not None:
            last = sum(each.size for each in self.buckets) - 1
            if min(step.position, last) == self._position_of(step.task_id):
                return
        if step.kind != "insert":
            self.remove(step.task_id)
        if step.kind != "remove":
            self.insert(step.task_id, step.position)

    def insert(self, task_id: str, position: int | None) -> None:
        """Insert a task at a position; None means the end."""
        place = find_place([each.size for each in self.buckets], position)
        if (split := split_if_full(self.buckets, place)) is not None:
            place = split.place
            if split.new.size:
                assert not self._unread.get(split.full.id), "the tasks of this bucket are not known"
                ranked = self._ranked[split.full.id]
                self._ranked[split.new.id] = ranked[split.keeps :]
                del ranked[split.keeps :]
                self._bucket_of.update((moved, split.new.id) for _, moved in self._ranked[split.new.id])
        bucket = self.buckets[place.bucket]
        ranked = self._ranked.setdefault(bucket.id, [])
        index = place.offset - self._unread.get(bucket.id, 0)
        before = ranked[index - 1][0] if index > 0 else self._rank_before(bucket.id, place.offset)
        rank = rank_between(before, ranked[index][0] if index < len(ranked) else None)
        ranked.insert(index, (rank, task_id))
        bucket.size += 1
        self._always_empty.discard(bucket.id)
        self._bucket_of[task_id] = bucket.id
        if is_crowded(rank):
            assert not self._unread.get(bucket.id), "the tasks of this bucket are not known"
            ranked[:] = zip(spread(len(ranked)), (each for _, each in ranked), strict=True)

    def remove(self, task_id: str) -> None:
        """Remove a task. An emptied bucket can be refilled, and is dropped only if it is still empty when written."""
        place = self._place_of(task_id)
        bucket, offset = self.buckets[place.bucket], place.offset
        bucket.size -= 1
        if task_id in self._bucket_of:
            del self._bucket_of[task_id]
            del self._ranked[bucket.id][offset - self._unread.get(bucket.id, 0)]
            return
        del self._places[task_id]
        self._unread[bucket.id] -= 1
        for other, each in self._places.items():
            if each.bucket_id == bucket.id and each.offset > offset:
                self._places[other] = TaskPlace(bucket.id, each.offset - 1)

    def positions(self, task_ids: Iterable[str]) -> dict[str, int]:
        known = (each for each in task_ids if each in self._bucket_of or each in self._places)
        return {task_id: self._position_of(task_id) for task_id in known}

    def _position_of(self, task_id: str) -> int:
        place = self._place_of(task_id)
        return sum(each.size for each in self.buckets[: place.bucket]) + place.offset

    def _place_of(self, task_id: str) -> BucketPlace:
        place = self._places.get(task_id)
        bucket_id = self._bucket_of[task_id] if place is None else place.bucket_id
        number = next(number for number, each in enumerate(self.buckets) if each.id == bucket_id)
        if place is not None:
            return BucketPlace(number, place.offset)
        index = next(index for index, (_, each) in enumerate(self._ranked[bucket_id]) if each == task_id)
        return BucketPlace(number, self._unread.get(bucket_id, 0) + index)

    def _rank_before(self, bucket_id: int, offset: int) -> int | None:
        """Return the rank of the last unread task, or None if no task precedes `offset`."""
        if offset == 0:
            return None
        assert self._last is not None, "the tasks of this bucket are not known"
        assert self._last.bucket_id == bucket_id, "the tasks of this bucket are not known"
        assert self._unread[bucket_id] == offset, "the tasks of this bucket are not known"
        return self._last.rank

    # --- changes to write ---------------------------------------------------------------------------------------------

    @property
    def kept_buckets(self) -> list[Bucket]:
        """The buckets to keep.

        A column always keeps at least one. Buckets that were already empty also stay, because dropping one changes no
        task, so transactions that wait for the column would not notice.
        """
        return [each for each in self.buckets if each.size or each.id in self._always_empty] or self.buckets[:1]

    @property
    def new_buckets(self) -> list[Bucket]:
        return [each for each in self.kept_buckets if each.id not in self._bucket_ranks_before]

    @property
    def dropped_buckets(self) -> list[int]:
        kept = {each.id for each in self.kept_buckets}
        return [bucket_id for bucket_id in self._bucket_ranks_before if bucket_id not in kept]

    @property
    def moved_buckets(self) -> list[Bucket]:
        return [each for each in self.kept_buckets if self._bucket_ranks_before.get(each.id, each.rank) != each.rank]

    @property
    def ranks(self) -> dict[str, Rank]:
        """The rank of every task that was read or inserted."""
        return {
            task_id: Rank(bucket.id, rank)
            for bucket in self.buckets
            for rank, task_id in self._ranked.get(bucket.id, ())
        }

    @property
    def changed(self) -> dict[str, Rank]:
        """The ranks of new and moved tasks."""
        return {task_id: each for task_id, each in self.ranks.items() if self._ranks_before.get(task_id) != each}
