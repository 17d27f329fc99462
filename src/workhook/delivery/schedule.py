"""When hooks have work next, so that nobody has to look for it in between. No I/O."""

from __future__ import annotations

import heapq

KNOWN_MAX = 100_000  # times; what comes later than these is found by a search


class Schedule:
    """Hooks with the times at which they have something to send, in milliseconds. Each time is told once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._known: set[tuple[int, int]] = set()

    def add(self, hook_id: int, at: int) -> None:
        """The hook has something to send at this time."""
        entry = (at, hook_id)
        if entry not in self._known and len(self._known) < KNOWN_MAX:
            self._known.add(entry)
            heapq.heappush(self._heap, entry)

    def come(self, now: int) -> dict[int, int]:
        """The hooks of which a time has come, each with the first of them; these times are forgotten."""
        found: dict[int, int] = {}
        while self._heap and self._heap[0][0] <= now:
            at, hook_id = entry = heapq.heappop(self._heap)
            self._known.discard(entry)
            found.setdefault(hook_id, at)
        return found

    @property
    def next_at(self) -> int | None:
        """The first time of all; None: there is none."""
        return self._heap[0][0] if self._heap else None
