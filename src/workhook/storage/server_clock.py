"""The clock of PostgreSQL, which all processes of a database follow.

Asking takes a round trip, and the answer belongs to some moment in it: taking the middle is wrong by half of it at
most. The fastest of several answers counts. A host's clock within that error is left alone.
"""

from __future__ import annotations

import time
from typing import Any

import structlog

from workhook.core import clock
from workhook.storage import metrics

LOOKS = 3
TIMEOUT_S = 5.0
_MICROSECOND_NS = 1000  # what the server's clock is told in
WARN_MS = 2000  # the host's clock is off by more: whoever runs it should know

_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

log = structlog.get_logger(__name__)


async def follow(connection: Any) -> None:
    """Raises what the driver raises."""
    looks = [await _look(connection) for _ in range(LOOKS)]
    took_ns, at_ns, monotonic_ns = min(looks)
    was_off = abs(clock.host_ahead_ms()) > WARN_MS
    clock.follow(at_ns, monotonic_ns, wrong_by_ns=took_ns // 2 + _MICROSECOND_NS)
    ahead_ms = clock.host_ahead_ms()
    metrics.HOST_CLOCK_AHEAD.set(ahead_ms / 1000)
    if abs(ahead_ms) > WARN_MS and not was_off:
        log.warning("host_clock_is_off", ahead_s=round(ahead_ms / 1000, 1), counts="the database's clock")


async def _look(connection: Any) -> tuple[int, int, int]:
    """How long it took, what the server's clock showed and what the monotonic one did, in nanoseconds."""
    before_ns = time.monotonic_ns()
    at_us: int = await connection.fetchval(_NOW, timeout=TIMEOUT_S)
    took_ns = time.monotonic_ns() - before_ns
    return took_ns, at_us * 1000, before_ns + took_ns // 2
