"""The attempts that this process has in flight, and whose turn is next when there are no more. No I/O."""

from __future__ import annotations

from collections import deque

from workhook.delivery.lanes import DEFAULT_CONCURRENCY, Lane, Work

SLUGGISH_MS = 2000


class Slots:
    """At most `limit` attempts. Lanes that wait for room take turns: one start each, then the next lane."""

    def __init__(self, limit: int) -> None:
        self.flying = 0
        self._limit = limit
        # One hook leaves room for others, however many slots its configuration asks for.
        self._of_one_lane = max(DEFAULT_CONCURRENCY, limit // 2)
        self._slow = 0  # of `flying`, to receivers that time out or take long
        self._hungry: deque[Lane] = deque()

    @property
    def full(self) -> bool:
        return self.flying >= self._limit

    @property
    def contested(self) -> bool:
        """Lanes wait for room."""
        return bool(self._hungry)

    def __len__(self) -> int:
        """Lanes that wait."""
        return len(self._hungry)

    def take(self, lane: Lane, now: int) -> Work | float | None:
        """`lane.take`, if there is room; otherwise the lane waits for its turn."""
        if not self._has_room(lane, now):
            self.queue(lane)
            return None
        work = lane.take(now)
        if isinstance(work, Work):
            self.flying += 1
            work.started_at = now
            work.slow = is_slow(lane, now)
            self._slow += work.slow
        return work

    def _has_room(self, lane: Lane, now: int) -> bool:
        """Receivers that time out or take long never have more than half of the process, however many they are."""
        if self.full or len(lane.flying) >= self._of_one_lane:
            return False
        return not (is_slow(lane, now) and self._slow * 2 >= self._limit)

    def free(self, work: Work) -> None:
        self.flying -= 1
        self._slow -= work.slow

    def queue(self, lane: Lane) -> None:
        """It waits behind those that wait already."""
        if lane.ready and not lane.hungry:
            lane.hungry = True
            self._hungry.append(lane)

    def next(self) -> Lane:
        """The lane that has waited longest. Raises `IndexError` if none waits."""
        lane = self._hungry.popleft()
        lane.hungry = False
        return lane


def is_slow(lane: Lane, now: int) -> bool:
    """It was slow to answer, or is so at this moment, or has not answered at all yet."""
    if lane.timing_out or lane.sluggish or (lane.flying and not lane.warm):
        return True
    oldest = next(iter(lane.flying.values()), None)
    return oldest is not None and now - oldest.started_at > SLUGGISH_MS
