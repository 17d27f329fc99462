"""Waiting for conditions rather than for fixed times."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

# Far longer than any expected event takes, even on a busy machine.
WAIT_S = 45.0


# Most probes query a server, which costs it time, so the pauses grow.
_PAUSE_MIN_S, _PAUSE_MAX_S, _PAUSE_SHARE = 0.01, 0.1, 0.2


def until(probe: Callable[[], T], timeout_s: float = WAIT_S) -> T:
    """Call `probe` until it returns a true value, and return that value."""
    start = time.monotonic()
    pause = threading.Event()
    while True:
        answer = probe()
        if answer:
            return answer
        waited = time.monotonic() - start
        assert waited < timeout_s, f"not within {timeout_s} s; the last answer was {answer!r}"
        pause.wait(min(max(waited * _PAUSE_SHARE, _PAUSE_MIN_S), _PAUSE_MAX_S))


def finish(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to completion in its own thread and event loop, even if a loop is already running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()
