"""Waiting for a condition, never for a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

# What comes at all comes long before, also on a machine that does much else.
WAIT_S = 45.0


# Most probes ask a server, which has to work for the answer: who has waited long asks less often.
_PAUSE_MIN_S, _PAUSE_MAX_S, _PAUSE_SHARE = 0.01, 0.1, 0.2


def until(probe: Callable[[], T], timeout_s: float = WAIT_S) -> T:
    """Ask `probe` until it answers something true; answers that."""
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
    """Run a coroutine to its end on a loop and thread of its own: also where a loop is running already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()
