"""When hooks have work next, so that the database need not be asked in between. No I/O."""

from __future__ import annotations

import heapq

KNOWN_MAX = 100_000  # times; work due at other times is found by a search


class Schedule:
    """The times, in milliseconds, at which hooks have something to send."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._known: set[tuple[int, int]] = set()

    def add(self, hook_id: int, at: int) -> None:
        """The hook has something to send at this time."""
        entry = (at, hook_id)
        if entry not in self._known and len(self._known) < KNOWN_MAX:
            self._known.add(entry)
            heapq.heappush(self._heap, entry)

    def pop_due(self, now: int) -> dict[int, int]:
        """Remove the times that have come; return each hook with its first one."""
        found: dict[int, int] = {}
        while self._heap and self._heap[0][0] <= now:
            at, hook_id = entry = heapq.heappop(self._heap)
            self._known.discard(entry)
            found.setdefault(hook_id, at)
        return found

    @property
    def next_at(self) -> int | None:
        """The first of all times, or None."""
        return self._heap[0][0] if self._heap else None
