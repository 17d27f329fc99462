"""Whose turn it is when the process has no more room."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.unit.lane_kit import lane_with
from workhook.delivery.lanes import Work
from workhook.delivery.slots import MemoryBudget, Slots


def _drain_turns(slots: Slots) -> list[int]:
    """Serve who waits until the process is full again; the hooks that got a slot."""
    served = []
    passed = 0
    while not slots.full and passed < len(slots):
        lane = slots.next()
        work = slots.take(lane, now=0)
        if isinstance(work, Work):
            served.append(lane.hook.id)
            slots.queue(lane)
            passed = 0
        elif lane.waiting_for_slot:
            passed += 1
    return served


def test_lanes_take_turns_whatever_their_queues() -> None:
    slots = Slots(4)
    long, short = lane_with(1, waiting=100), lane_with(2, waiting=3)
    taken = [slots.take(long, 0) for _ in range(5)]
    assert [isinstance(each, Work) for each in taken] == [True] * 4 + [False]
    assert slots.take(short, 0) is None
    for work in taken[:4]:
        assert isinstance(work, Work)
        long.in_flight.pop(work.id)
        slots.free(work)
    slots.queue(long)
    assert Counter(_drain_turns(slots)) == {1: 2, 2: 2}


def test_one_lane_leaves_room_for_others() -> None:
    slots = Slots(40)
    greedy, modest = lane_with(1, waiting=100, max_concurrency="1000"), lane_with(2, waiting=1)
    started = 0
    while isinstance(slots.take(greedy, 0), Work):
        started += 1
    assert started == 20
    assert isinstance(slots.take(modest, 0), Work)


def test_slow_receivers_have_half_of_the_process_at_most() -> None:
    slots = Slots(16)
    slow = [lane_with(number, waiting=10) for number in range(1, 5)]
    for lane in slow:
        lane.slow = True
    started = sum(isinstance(slots.take(lane, 0), Work) for lane in slow for _ in range(8))
    assert started == 8
    quick = lane_with(9, waiting=10)
    assert sum(isinstance(slots.take(quick, 0), Work) for _ in range(8)) == 8
    assert slots.full


async def test_a_budget_is_never_overdrawn_and_never_deadlocks() -> None:
    budget = MemoryBudget(100)
    inside = most = 0

    async def hold(size: int) -> None:
        nonlocal inside, most
        async with budget.of(size):
            inside += min(size, 100)
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= min(size, 100)

    await asyncio.gather(*(hold(size) for size in (60, 60, 500, 10, 90, 100, 1) * 5))
    assert inside == 0
    assert 0 < most <= 100
