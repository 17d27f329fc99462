"""A memory budget that is handed out in turn."""

from __future__ import annotations

import asyncio

from workhook.delivery.slots import MemoryBudget


async def hold(budget: MemoryBudget, size: int) -> None:
    async with budget.reserve(size):
        await asyncio.Event().wait()


async def test_all_waiters_can_be_canceled_at_once() -> None:
    budget = MemoryBudget(10)
    tasks = [asyncio.create_task(hold(budget, 10)) for _ in range(4)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    async with asyncio.timeout(60), budget.reserve(10):  # everything was returned
        pass
