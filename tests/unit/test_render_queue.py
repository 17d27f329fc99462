"""Organizations take turns at rendering, and no turn is lost."""

from __future__ import annotations

import asyncio

import pytest

from workhook.core.fair_queue import FairQueue, QueueFull


class Room:
    """Renders that run until they are told to end. `order` is the order in which they started."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        """Start renders. `a1` is the first render of organization `a`."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._render(name))
            await settle()

    async def _render(self, name: str) -> None:
        async with self._queue.slot(ord(name[0])):
            self.order.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._tasks[name]
            await settle()

    def cancel(self, name: str) -> asyncio.Task[None]:
        self._tasks[name].cancel()
        return self._tasks[name]


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_organization_has_one_slot_and_all_take_turns() -> None:
    room = Room(FairQueue(2, 9, 9))
    await room.ask("a1", "a2", "a3", "b1", "b2", "c1")
    assert room.order == ["a1", "b1"]
    await room.end("a1")
    assert room.order == ["a1", "b1", "a2"], "a has waited longest"
    await room.end("b1")
    assert room.order[3:] == ["b2"], "b came before c"
    await room.end("a2")
    assert room.order[4:] == ["c1"], "a has had its turn"
    await room.end("b2")
    assert room.order[5:] == ["a3"]
    await room.end("c1", "a3")


async def test_the_queue_is_bounded_per_organization_and_in_total() -> None:
    queue = FairQueue(1, 3, 2)
    room = Room(queue)
    await room.ask("a1", "a2", "a3")
    with pytest.raises(QueueFull):
        async with queue.slot(ord("a")):
            pass
    await room.ask("b1")
    with pytest.raises(QueueFull):
        async with queue.slot(ord("c")):
            pass
    assert len(queue) == 3
    await room.end("a1", "a2", "b1", "a3")
    assert len(queue) == 0


async def test_a_canceled_render_passes_on_its_turn() -> None:
    room = Room(FairQueue(1, 9, 9))
    await room.ask("a1", "b1", "c1", "d1", "e1")
    for name in ("b1", "a1"):  # first one that waits, then one that runs
        with pytest.raises(asyncio.CancelledError):
            await room.cancel(name)
    await settle()
    assert room.order == ["a1", "c1"]
    gone = room.cancel("d1")  # canceled, but its turn comes before it can notice
    room._ends["c1"].set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await settle()
    assert room.order == ["a1", "c1", "e1"]
    await room.end("e1")


async def test_a_turn_granted_during_a_cancellation_is_not_lost() -> None:
    queue = FairQueue(1, 9, 9)
    room = Room(queue)
    await room.ask("a1", "b1", "c1")
    running = room.cancel("a1")
    for _ in range(20):
        if running.done():
            break
        await asyncio.sleep(0)
    gone = room.cancel("b1")  # it has its turn, but has not started
    with pytest.raises(asyncio.CancelledError):
        await gone
    await settle()
    assert room.order[-1] == "c1"
    await room.end("c1")
