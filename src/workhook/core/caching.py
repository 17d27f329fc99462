"""Bounded in-memory caches: the newest entries, and the results of slow functions of a string."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

_thread = ThreadPoolExecutor(1, "workhook-texts")

SHORT_CHARS = 64
"""Texts up to this length are processed in the event loop."""

ENTRY_BYTES = 200
"""Overhead of an entry, besides its result."""


def put_bounded(entries: OrderedDict[K, V], key: K, value: V, maximum: int) -> None:
    """Append an entry, and drop the oldest one if there are more than `maximum`.

    `entries` is an `OrderedDict`, because finding the first entry of a plain dict means scanning all entries deleted
    before it.
    """
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > maximum:
        entries.popitem(last=False)


class TextCache(Generic[R]):
    """A cache of the results of `work`, by the hash of the string. `work` must not raise.

    The least recently used results are dropped once all of them together exceed `max_bytes`.
    """

    def __init__(self, work: Callable[[str], R], max_bytes: int, size: Callable[[R], int]) -> None:
        self._work, self._max_bytes, self._size = work, max_bytes, size
        self._results: OrderedDict[bytes, R] = OrderedDict()
        self._working: dict[bytes, Future[R]] = {}
        self._bytes = 0

    def get(self, text: str) -> R:
        """Return the result, computing it now if it is not cached."""
        key = _key(text)
        if key in self._results:
            self._results.move_to_end(key)
            return self._results[key]
        return self._put(key, self._work(text))

    async def prepare(self, text: str) -> R:
        """Return the result, computing it in a thread if it is not cached.

        All strings share one thread, and concurrent requests for the same string share one result.
        """
        key = _key(text)
        if len(text) <= SHORT_CHARS or key in self._results:
            return self.get(text)
        if key not in self._working:
            self._working[key] = _thread.submit(self._work, text)
        try:
            return self._put(key, await asyncio.shield(asyncio.wrap_future(self._working[key])))
        finally:
            self._working.pop(key, None)

    def _put(self, key: bytes, result: R) -> R:
        if key not in self._results:
            self._results[key] = result
            self._bytes += self._bytes_of(result)
        while self._bytes > self._max_bytes and len(self._results) > 1:
            self._bytes -= self._bytes_of(self._results.popitem(last=False)[1])
        return result

    def _bytes_of(self, result: R) -> int:
        return ENTRY_BYTES + self._size(result)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
