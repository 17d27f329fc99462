"""Batching of concurrent items: `storage.batching`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from workhook.core.errors import Unavailable
from workhook.storage.batching import Batcher


class Rounds:
    """A `run` function that waits in each round until released.

    An item consists of the letter of its queue and a number. A round that contains a `bad` item raises.
    """

    def __init__(self, *bad: str, away: bool = False) -> None:
        self.begun: list[list[str]] = []
        self.open = asyncio.Event()
        self._bad, self._away = set(bad), away

    async def run(self, items: Sequence[str]) -> list[str]:
        self.begun.append(list(items))
        await self.open.wait()
        if self._away:
            raise Unavailable("The database is away.")
        if bad := self._bad & set(items):
            raise ValueError(*bad)
        return [f"{item}!" for item in items]


def _queue(item: str) -> str:
    return item[0]


async def _added(gatherer: Batcher[str, str], *items: str) -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(gatherer.submit(item)) for item in items]
    for _ in range(len(items) + 2):
        await asyncio.sleep(0)  # all items have been added
    return tasks


async def test_a_single_item_does_not_wait() -> None:
    rounds = Rounds()
    rounds.open.set()
    assert await Batcher(rounds.run, _queue).submit("a1") == "a1!"
    assert rounds.begun == [["a1"]]


async def test_items_added_during_two_rounds_share_the_next() -> None:
    rounds = Rounds()
    gatherer = Batcher(rounds.run, _queue)
    tasks = await _added(gatherer, "a1", "b1", "c1", "d1", "c2")
    assert rounds.begun == [["a1"], ["b1"]]
    rounds.open.set()
    assert await asyncio.gather(*tasks) == ["a1!", "b1!", "c1!", "d1!", "c2!"]
    assert rounds.begun[2:] == [["c1", "d1", "c2"]]


async def test_a_queue_has_at_most_one_round_in_progress() -> None:
    rounds = Rounds()
    gatherer = Batcher(rounds.run, _queue)
    tasks = await _added(gatherer, "a1", "a2", "b1", "a3")
    assert rounds.begun == [["a1"], ["b1"]]
    rounds.open.set()
    await asyncio.gather(*tasks)
    assert rounds.begun[2:] == [["a2", "a3"]]


async def test_the_size_of_a_round_is_limited() -> None:
    rounds = Rounds()
    gatherer = Batcher(rounds.run, _queue, items_max=2, rounds_max=1)
    tasks = await _added(gatherer, "a1", "b1", "b2", "b3")
    rounds.open.set()
    await asyncio.gather(*tasks)
    assert rounds.begun == [["a1"], ["b1", "b2"], ["b3"]]


async def test_an_error_affects_only_its_item() -> None:
    rounds = Rounds("b2")
    gatherer = Batcher(rounds.run, _queue, rounds_max=1)
    tasks = await _added(gatherer, "a1", "b1", "b2", "b3")
    rounds.open.set()
    first, *found = await asyncio.gather(*tasks, return_exceptions=True)
    assert first == "a1!"
    assert [found[0], found[2]] == ["b1!", "b3!"]
    assert isinstance(found[1], ValueError)
    assert found[1].args == ("b2",)
    assert rounds.begun == [["a1"], ["b1", "b2", "b3"], ["b1"], ["b2", "b3"], ["b2"], ["b3"]]


async def test_a_refused_item_costs_the_others_few_rounds() -> None:
    names = [f"a{number:02}" for number in range(64)]
    rounds = Rounds("a40")
    gatherer = Batcher(rounds.run, lambda _: "a", rounds_max=1)
    rounds.open.set()
    found = await asyncio.gather(*(await _added(gatherer, *names)), return_exceptions=True)
    assert [each for each in found if isinstance(each, str)] == [f"{name}!" for name in names if name != "a40"]
    assert len(rounds.begun) <= 15  # two for each time 64 can be halved
    assert await gatherer.submit("b4") == "b4!", "its queue goes on"


async def test_nothing_is_retried_if_the_result_is_unknown() -> None:
    rounds = Rounds(away=True)
    gatherer = Batcher(rounds.run, _queue, rounds_max=1)
    tasks = await _added(gatherer, "a1", "b1", "b2")
    rounds.open.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in found)
    assert len({id(each) for each in found}) == 3, "each has an error of its own: answers add headers to it"
    assert rounds.begun == [["a1"], ["b1", "b2"]]


async def test_a_missing_result_is_an_error_without_a_retry() -> None:
    begun: list[Sequence[str]] = []

    async def run(items: Sequence[str]) -> list[str]:
        begun.append(items)
        return ["one"]

    gatherer = Batcher(run, lambda item: "all")
    found = await asyncio.gather(*(gatherer.submit(item) for item in ("a", "b", "c")), return_exceptions=True)
    assert found[0] == "one"
    assert [type(each) for each in found[1:]] == [RuntimeError, RuntimeError]
    assert begun == [["a"], ["b", "c"]]


async def test_a_canceled_item_is_not_run_and_delays_no_other() -> None:
    rounds = Rounds()
    gatherer = Batcher(rounds.run, _queue, rounds_max=1)
    running, waiting, last = await _added(gatherer, "a1", "b1", "c1")
    running.cancel()
    waiting.cancel()
    rounds.open.set()
    assert await last == "c1!"
    assert rounds.begun == [["a1"], ["c1"]]
    with pytest.raises(asyncio.CancelledError):
        await running
