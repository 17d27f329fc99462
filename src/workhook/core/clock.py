"""Time: integer milliseconds since the epoch (UTC) internally, RFC 3339 externally.

Processes that share a database compare times, such as the end of a lease. Because host clocks differ, each of them
follows the database's clock (`follow_clock`), and `now_ms` agrees in all of them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class _Followed:
    """The followed clock: `ahead_ns` is its offset from this process's monotonic clock, or None if none is followed."""

    ahead_ns: int | None = None


def now_ms() -> int:
    """Return the time of the followed clock, or of the host's clock if none is followed."""
    ahead_ns = _Followed.ahead_ns
    return (time.time_ns() if ahead_ns is None else time.monotonic_ns() + ahead_ns) // 1_000_000


def follow_clock(at_ns: int, monotonic_ns: int, wrong_by_ns: int = 0) -> None:
    """Make `now_ms` follow a clock that showed `at_ns` (nanoseconds since the epoch) at `monotonic_ns`.

    If the host's clock agrees within `wrong_by_ns`, it is followed instead: the two may be the same.
    """
    looks = []
    for _ in range(5):  # use the reading with the least interruption
        before_ns = time.monotonic_ns()
        host_ns = time.time_ns()
        looks.append((time.monotonic_ns() - before_ns, host_ns - before_ns))
    ahead_ns, host_ns = at_ns - monotonic_ns, min(looks)[1]
    _Followed.ahead_ns = host_ns if abs(ahead_ns - host_ns) <= wrong_by_ns else ahead_ns


def host_ahead_ms() -> int:
    """Return how many milliseconds the host's clock is ahead of the followed clock, or 0 if no clock is followed."""
    return time.time_ns() // 1_000_000 - now_ms() if _Followed.ahead_ns is not None else 0


@lru_cache(maxsize=4096)
def _whole_seconds(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def to_seconds_text(at_ms: int) -> str:
    """Format a time for the webhook API, as GitHub's clients expect it: `2026-11-20T09:00:00Z`."""
    return _whole_seconds(at_ms // 1000) + "Z"


def to_utc_text(at_ms: int) -> str:
    """Format a token's expiry for a response header: `2026-11-20 09:00:00 UTC`."""
    return _whole_seconds(at_ms // 1000).replace("T", " ") + " UTC"


@lru_cache(maxsize=4096)
def to_millis_text(at_ms: int) -> str:
    """Format a time for the work API and for deliveries: `2026-11-20T09:00:00.123Z`."""
    return f"{_whole_seconds(at_ms // 1000)}.{at_ms % 1000:03d}Z"


def parse_rfc3339(text: str) -> int:
    """Return milliseconds since the epoch. Any offset is accepted; raises `ValueError` for a naive or invalid time."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("a time needs an offset, such as Z")
    try:
        return round(parsed.timestamp() * 1000)
    except OverflowError as error:
        raise ValueError("the time is out of range") from error
