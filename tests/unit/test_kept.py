"""The cache of results by text: its size and its eviction."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from workhook.core.caching import ENTRY_BYTES, SHORT_CHARS, TextCache, put_bounded

LONG = "x" * (SHORT_CHARS + 1)


class Worker:
    """Counts the number of times a text is processed."""

    def __init__(self, entries: int) -> None:
        self.worked_on: list[str] = []
        self.kept = TextCache(self._work, entries * (ENTRY_BYTES + 100), lambda result: 100)

    def _work(self, text: str) -> str:
        self.worked_on.append(text)
        return text.upper()


def test_only_the_newest_entries_are_kept() -> None:
    kept = OrderedDict[str, int]()
    for number, key in enumerate("abcad"):
        put_bounded(kept, key, number, 3)
    assert list(kept.items()) == [("c", 2), ("a", 3), ("d", 4)], "one that was put again is not the oldest"


def test_a_text_is_processed_once() -> None:
    worker = Worker(2)
    assert [worker.kept.get("a"), worker.kept.get("a"), asyncio.run(worker.kept.prepare("a"))] == ["A"] * 3
    assert [asyncio.run(worker.kept.prepare(LONG)), worker.kept.get(LONG)] == [LONG.upper()] * 2
    assert worker.worked_on == ["a", LONG]


def test_the_least_recently_used_entries_are_dropped() -> None:
    worker = Worker(2)
    for text in ("a", "b", "a", "c", "a", "b"):
        worker.kept.get(text)
    assert worker.worked_on == ["a", "b", "c", "b"]


def test_concurrent_requests_for_a_text_share_its_processing() -> None:
    worker = Worker(2)

    async def wait() -> list[str]:
        return list(await asyncio.gather(*(worker.kept.prepare(LONG) for _ in range(5))))

    assert asyncio.run(wait()) == [LONG.upper()] * 5
    assert worker.worked_on == [LONG]
