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


def until(probe: Callable[[], T], timeout_s: float = WAIT_S) -> T:
    """Ask `probe` until it answers something true; answers that."""
    end = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {timeout_s} s; the last answer was {answer!r}"
        pause.wait(0.02)


def finish(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on a loop and thread of its own: also where a loop is running already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()
