"""Batch concurrent items into rounds: items that arrive during a round run together in the next one.

A single item does not wait. Under load the rounds grow until they keep up, and their items share the cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence, Set
from contextvars import Context
from typing import Generic, NamedTuple, TypeVar

from workhook.core.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

ITEMS_MAX = 64  # per round; bounds how long its first item waits
ROUNDS_MAX = 2  # concurrent; the second one is sent while the first waits for the disk


class _Waiting(NamedTuple, Generic[Item, Result]):
    item: Item
    answer: asyncio.Future[Result]

    def refuse(self, error: Exception) -> None:
        if not self.answer.done():  # the caller was cancelled
            self.answer.set_exception(error)


class Batcher(Generic[Item, Result]):
    """A batcher that calls `run` with the items of a round. `run` returns their results in the same order.

    Items of the same `queue` are never in two concurrent rounds, so they run in the order of arrival. If a round
    raises, its halves are run separately, recursively, until each item gets only its own error, so `run` must be
    atomic. After `Unavailable` the outcome is unknown, so nothing is retried.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        queue: Callable[[Item], Hashable],
        *,
        items_max: int = ITEMS_MAX,
        rounds_max: int = ROUNDS_MAX,
    ) -> None:
        self._run = run
        self._queue = queue
        self._items_max, self._rounds_max = items_max, rounds_max
        self._waiting: list[_Waiting[Item, Result]] = []
        self._busy: set[Hashable] = set()  # queues with an item in a running round
        self._rounds: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Run the item in the next round and return its result. If the caller is canceled, the item may still run."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(item, answer))
        self._begin()
        return await answer

    def _begin(self) -> None:
        """Start another round if one may start and items are waiting."""
        if len(self._rounds) >= self._rounds_max or not (taken := self._take()):
            return
        queues = {self._queue(each.item) for each in taken}
        self._busy |= queues
        # Runs in its own context, because a round does not belong to any single request.
        task = asyncio.create_task(self._answer(taken), name="gathered", context=Context())
        self._rounds.add(task)
        task.add_done_callback(lambda ended: self._ended(ended, queues))

    def _ended(self, task: asyncio.Task[None], queues: Set[Hashable]) -> None:
        self._rounds.discard(task)
        self._busy -= queues
        self._begin()

    def _take(self) -> list[_Waiting[Item, Result]]:
        taken: list[_Waiting[Item, Result]] = []
        left: list[_Waiting[Item, Result]] = []
        for each in self._waiting:
            if each.answer.done():  # the caller was cancelled
                continue
            fits = len(taken) < self._items_max and self._queue(each.item) not in self._busy
            (taken if fits else left).append(each)
        self._waiting = left
        return taken

    async def _answer(self, taken: Sequence[_Waiting[Item, Result]]) -> None:
        try:
            answers = await self._run([each.item for each in taken])
        except Unavailable as error:
            for each in taken:
                each.refuse(Unavailable(error.message, code=error.code))
        except Exception as error:  # noqa: BLE001  # handed to the caller
            if len(taken) == 1 and not taken[0].answer.done():
                taken[0].answer.set_exception(error)
            elif len(taken) > 1:
                half = len(taken) // 2
                await self._answer(taken[:half])
                await self._answer(taken[half:])
        else:
            if len(answers) != len(taken):  # a bug; the items are not retried, and no caller waits for ever
                for each in taken:
                    each.refuse(RuntimeError(f"{len(taken)} items were run and {len(answers)} answered"))
                return
            for each, answer in zip(taken, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)
