"""The request limit of a token: a window of an hour, counted in this process."""

from __future__ import annotations

import time
from typing import NamedTuple

WINDOW_S = 3600


class Usage(NamedTuple):
    """`reset`: seconds since the epoch."""

    limit: int
    used: int
    remaining: int
    reset: int


class RateLimiter:
    """Counts by token id, or by address where there is no token. `limit` 0 turns it off."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._windows: dict[int | str | None, tuple[int, int]] = {}  # caller → (end of the window, count)

    def hit(self, caller: int | str | None, *, count: int = 1) -> tuple[Usage, bool]:
        """Count a request; answers the usage and whether the request is within the limit."""
        now = int(time.time())
        end, used = self._windows.get(caller, (0, 0))
        if now >= end:
            end, used = now + WINDOW_S, 0
            self._forget(now)
        if self._limit == 0:
            return Usage(_UNLIMITED, 0, _UNLIMITED, end), True
        within = used + count <= self._limit
        if within:
            used += count
        self._windows[caller] = (end, used)
        return Usage(self._limit, used, self._limit - used, end), within

    def _forget(self, now: int) -> None:
        if len(self._windows) > 10_000:
            self._windows = {caller: window for caller, window in self._windows.items() if window[0] > now}


_UNLIMITED = 2**31 - 1


def headers(usage: Usage) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(usage.limit),
        "X-RateLimit-Remaining": str(usage.remaining),
        "X-RateLimit-Reset": str(usage.reset),
        "X-RateLimit-Used": str(usage.used),
        "X-RateLimit-Resource": "core",
    }
