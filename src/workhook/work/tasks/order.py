"""The rules of an order in which moving one thing writes few rows, however many there are.

Things have ranks: integers with gaps, and a thing that is put between two others gets the rank in the middle. The tasks
of a column are in buckets besides, so that a position is counted without looking at every task
(`work/tasks/tables.py`).

All ranks are even. The middle between two of them is then a new one, and is odd when there is no room left beside it:
whoever gets an odd rank spreads the ranks anew before anybody else can.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec

STEP = 1 << 32
"""Between neighbours at first: the middle can be taken 31 times at the same place."""

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


class Place(msgspec.Struct, frozen=True):
    """Behind the first `offset` tasks of the bucket that is `bucket`th in its column."""

    bucket: int
    offset: int


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


def place_of(sizes: Sequence[int], position: int | None) -> Place:
    """Where the task goes that is to have this position (None, or past the end: the last one).

    Between two buckets it joins the first of them, unless only the other has room.
    """
    ends = list(accumulate(sizes))
    if position is None or position >= ends[-1]:
        return Place(len(sizes) - 1, sizes[-1])
    bucket = bisect_right(ends, position)
    offset = position - (ends[bucket] - sizes[bucket])
    if offset == 0 and bucket > 0 and (sizes[bucket - 1] < BUCKET_MAX or sizes[bucket] >= BUCKET_MAX):
        return Place(bucket - 1, sizes[bucket - 1])
    return Place(bucket, offset)


def position_of(sizes: Sequence[int], place: Place) -> int:
    return sum(sizes[: place.bucket]) + place.offset


class Room(msgspec.Struct, frozen=True):
    """How room is made in a full bucket: a new one comes in at `at` in the list, with the tasks of the full one behind
    its first `keeps`. `place` is where the task goes then."""

    at: int
    keeps: int
    place: Place


def room_at(sizes: Sequence[int], place: Place) -> Room | None:
    """None if the bucket has room.

    At either end of the bucket the new one is empty, so that appending leaves filled buckets behind and moves none of
    their tasks; elsewhere the bucket is halved.
    """
    size = sizes[place.bucket]
    at_the_end = place.bucket == len(sizes) - 1 and place.offset == size
    at_the_front = place.bucket == 0 and place.offset == 0
    if size < (BUCKET_FILL if at_the_end or at_the_front else BUCKET_MAX):
        return None
    if place.offset == size:
        return Room(place.bucket + 1, size, Place(place.bucket + 1, 0))
    if place.offset == 0:
        return Room(place.bucket, size, Place(place.bucket, 0))
    half = size // 2
    if place.offset <= half:
        return Room(place.bucket + 1, half, place)
    return Room(place.bucket + 1, half, Place(place.bucket + 1, place.offset - half))
