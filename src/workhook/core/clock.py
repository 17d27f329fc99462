"""Time: integer milliseconds since the epoch (UTC) inside, RFC 3339 outside.

Processes that share a database compare their times: when a lease ends, when a retry is due. Hosts' clocks differ, so
such a process follows the clock of the database (`follow`), and `now_ms` is the same in all of them.
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
    """`ahead_ns`: offset of the followed clock from this process's monotonic clock; None if no clock is followed."""

    ahead_ns: int | None = None


def now_ms() -> int:
    """Return the time of the followed clock, or else of the host's."""
    ahead_ns = _Followed.ahead_ns
    return (time.time_ns() if ahead_ns is None else time.monotonic_ns() + ahead_ns) // 1_000_000


def follow(at_ns: int, monotonic_ns: int, wrong_by_ns: int = 0) -> None:
    """Let `now_ms` follow a clock that showed `at_ns` (nanoseconds since the epoch) at `monotonic_ns`, within
    `wrong_by_ns`. A host's clock that agrees is followed instead: the two may be the same.
    """
    looks = []
    for _ in range(5):  # the one that is interrupted least counts
        before_ns = time.monotonic_ns()
        host_ns = time.time_ns()
        looks.append((time.monotonic_ns() - before_ns, host_ns - before_ns))
    ahead_ns, host_ns = at_ns - monotonic_ns, min(looks)[1]
    _Followed.ahead_ns = host_ns if abs(ahead_ns - host_ns) <= wrong_by_ns else ahead_ns


def host_ahead_ms() -> int:
    """Return how far the host's clock is ahead of the followed one; 0 if none is."""
    return time.time_ns() // 1_000_000 - now_ms() if _Followed.ahead_ns is not None else 0


@lru_cache(maxsize=4096)
def _whole_seconds(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def to_seconds_text(at_ms: int) -> str:
    """`2026-11-20T09:00:00Z`: how the webhook API shows times, as its clients expect."""
    return _whole_seconds(at_ms // 1000) + "Z"


def to_utc_text(at_ms: int) -> str:
    """`2026-11-20 09:00:00 UTC`: how a header tells when a token ends."""
    return _whole_seconds(at_ms // 1000).replace("T", " ") + " UTC"


@lru_cache(maxsize=4096)
def to_millis_text(at_ms: int) -> str:
    """`2026-11-20T09:00:00.123Z`: how the work API and deliveries show times."""
    return f"{_whole_seconds(at_ms // 1000)}.{at_ms % 1000:03d}Z"


def parse_rfc3339(text: str) -> int:
    """Milliseconds since the epoch; offsets are accepted. Raises `ValueError` for a naive time or no time."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("a time needs an offset, such as Z")
    try:
        return round(parsed.timestamp() * 1000)
    except OverflowError as error:
        raise ValueError("the time is out of range") from error
