"""The order of one column in memory, for many changes at once: what has to be written in the end is what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from workhook.work.tasks import order
from workhook.work.tasks.order import Bucket


class Standing(msgspec.Struct, frozen=True):
    """Where a task stands: its bucket, and its rank there."""

    bucket_id: int
    rank: int


class Shelf:
    """`standing`: the tasks of the buckets that will be looked into, which are all of them unless tasks are only
    appended: the last one is enough then."""

    def __init__(self, buckets: Sequence[Bucket], standing: Mapping[str, Standing]) -> None:
        self.buckets = [Bucket(each.id, each.rank, each.size) for each in buckets]
        self._were = {each.id: each.rank for each in buckets}
        self._stood = dict(standing)
        self._bucket_of = {task_id: each.bucket_id for task_id, each in standing.items()}
        self._ranked: dict[int, list[tuple[int, str]]] = {}
        for task_id, each in standing.items():
            self._ranked.setdefault(each.bucket_id, []).append((each.rank, task_id))
        for ranked in self._ranked.values():
            ranked.sort()

    def insert(self, task_id: str, position: int | None) -> None:
        """None: at the end."""
        place = order.place_of(self._sizes, position)
        room = order.room_at(self._sizes, place)
        if room is not None:
            self._add_bucket(place.bucket, room)
            place = room.place
        bucket = self.buckets[place.bucket]
        ranked = self._ranked.setdefault(bucket.id, [])
        assert len(ranked) == bucket.size, "the tasks of this bucket are not known"
        before = ranked[place.offset - 1][0] if place.offset > 0 else None
        after = ranked[place.offset][0] if place.offset < len(ranked) else None
        rank = order.rank_between(before, after)
        ranked.insert(place.offset, (rank, task_id))
        bucket.size += 1
        self._bucket_of[task_id] = bucket.id
        if order.is_crowded(rank):
            ranked[:] = zip(order.spread(len(ranked)), (each for _, each in ranked), strict=True)

    def remove(self, task_id: str) -> None:
        number = self._number_of(self._bucket_of.pop(task_id))
        bucket = self.buckets[number]
        ranked = self._ranked[bucket.id]
        del ranked[next(index for index, (_, each) in enumerate(ranked) if each == task_id)]
        bucket.size -= 1
        if bucket.size == 0 and len(self.buckets) > 1:
            del self.buckets[number]

    def positions(self, task_ids: Iterable[str]) -> dict[str, int]:
        """Of those that stand here."""
        wanted = {task_id for task_id in task_ids if task_id in self._bucket_of}
        found, before = {}, 0
        for bucket in self.buckets:
            for offset, (_, task_id) in enumerate(self._ranked.get(bucket.id, ())):
                if task_id in wanted:
                    found[task_id] = before + offset
            before += bucket.size
        return found

    @property
    def size(self) -> int:
        return sum(self._sizes)

    # --- what is to be written -------------------------------------------------------------------------------------

    @property
    def new_buckets(self) -> list[Bucket]:
        return [each for each in self.buckets if each.id not in self._were]

    @property
    def dropped_buckets(self) -> list[int]:
        kept = {each.id for each in self.buckets}
        return [bucket_id for bucket_id in self._were if bucket_id not in kept]

    @property
    def moved_buckets(self) -> list[Bucket]:
        return [each for each in self.buckets if self._were.get(each.id, each.rank) != each.rank]

    @property
    def standing(self) -> dict[str, Standing]:
        """Of every task that is known here."""
        there = {each.id for each in self.buckets}
        return {
            task_id: Standing(bucket_id, rank)
            for bucket_id, ranked in self._ranked.items()
            if bucket_id in there
            for rank, task_id in ranked
        }

    def standing_of(self, task_id: str) -> Standing:
        bucket_id = self._bucket_of[task_id]
        return Standing(bucket_id, next(rank for rank, each in self._ranked[bucket_id] if each == task_id))

    @property
    def shifted(self) -> dict[str, Standing]:
        """Of those that stand elsewhere than at first, or were not here."""
        return {task_id: each for task_id, each in self.standing.items() if self._stood.get(task_id) != each}

    # --- parts -----------------------------------------------------------------------------------------------------

    @property
    def _sizes(self) -> list[int]:
        return [each.size for each in self.buckets]

    def _number_of(self, bucket_id: int) -> int:
        return next(number for number, each in enumerate(self.buckets) if each.id == bucket_id)

    def _add_bucket(self, full: int, room: order.Room) -> None:
        old = self.buckets[full]
        before = self.buckets[room.at - 1].rank if room.at > 0 else None
        after = self.buckets[room.at].rank if room.at < len(self.buckets) else None
        new = Bucket(order.new_bucket_id(), order.rank_between(before, after), old.size - room.keeps)
        if new.size:
            ranked = self._ranked[old.id]
            self._ranked[new.id] = ranked[room.keeps :]
            del ranked[room.keeps :]
            self._bucket_of.update((task_id, new.id) for _, task_id in self._ranked[new.id])
        old.size = room.keeps
        self.buckets.insert(room.at, new)
        if order.is_crowded(new.rank):
            for each, rank in zip(self.buckets, order.spread(len(self.buckets)), strict=True):
                each.rank = rank
