"""The choice of lanes to read, without a database."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import permutations
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.lane_kit import lane_with
from workhook.delivery.lanes import UNRECORDED, Lane, PendingAttempt
from workhook.delivery.prefetcher import (
    LANE_MAX,
    PAGE_LEAST,
    READY_LOW,
    READY_MAX,
    SLOW_MAX,
    Prefetcher,
    ReadPlan,
    plan,
)
from workhook.delivery.slots import MemoryBudget, Slots
from workhook.hooks.commit import CommittedDispatch

NOW = 0


def lanes(number: int, *, waiting: int, slow: bool = False, first: int = 1) -> list[Lane]:
    made = [lane_with(first + each, waiting=waiting) for each in range(number)]
    for lane in made:
        lane.slow = slow
    return made


def read(pages: list[ReadPlan]) -> dict[int, int]:
    return {lane.hook.id: page.per_lane for page in pages for lane in page.lanes}


def test_a_single_lane_reads_its_maximum() -> None:
    assert read(plan(lanes(1, waiting=0), NOW, idle=True)) == {1: LANE_MAX}


def test_with_many_lanes_some_read_pages_of_a_minimum_size() -> None:
    found = read(plan(lanes(1000, waiting=0), NOW, idle=True))
    assert set(found.values()) == {PAGE_LEAST}
    assert len(found) * PAGE_LEAST == READY_MAX


def test_the_lane_that_has_waited_longest_is_next() -> None:
    all_lanes = lanes(1000, waiting=0)
    served: set[int] = set()
    for turn in range(1, 1 + -(-1000 * PAGE_LEAST // READY_MAX)):
        for lane in (each for page in plan(all_lanes, NOW, idle=True) for each in page.lanes):
            lane.read_turn = turn
            served.add(lane.hook.id)
    assert len(served) == 1000


def test_the_emptiest_lanes_are_read_first() -> None:
    all_lanes = [*lanes(8, waiting=31), *lanes(2, waiting=0, first=100)]
    all_lanes[0].ready.clear()
    [page] = plan(all_lanes, NOW, idle=False)
    assert {lane.hook.id for lane in page.lanes[:3]} == {1, 100, 101}


def test_nothing_is_read_with_enough_in_hand_unless_slots_are_idle() -> None:
    all_lanes = [*lanes(9, waiting=31), *lanes(1, waiting=0, first=100)]
    assert sum(len(lane.ready) for lane in all_lanes) >= READY_LOW
    assert plan(all_lanes, NOW, idle=False) == []
    assert 100 in read(plan(all_lanes, NOW, idle=True))


def test_slow_lanes_give_up_deliveries_to_make_room_for_others() -> None:
    slow, brisk = lanes(100, waiting=8, slow=True), lanes(3, waiting=0, first=1000)
    found = read(plan([*slow, *brisk], NOW, idle=True))
    assert sum(len(lane.ready) for lane in slow) <= SLOW_MAX
    assert all(lane.may_have_more for lane in slow if len(lane.ready) < 8), "what was given back is read again"
    assert found == {1000: LANE_MAX, 1001: LANE_MAX, 1002: LANE_MAX}


@given(
    st.lists(st.tuples(st.integers(0, 80), st.booleans(), st.booleans(), st.booleans()), max_size=120), st.booleans()
)
def test_a_plan_never_exceeds_the_limit_in_memory(shapes: list[tuple[int, bool, bool, bool]], idle: bool) -> None:
    all_lanes = []
    for number, (waiting, slow, more, leaving) in enumerate(shapes, 1):
        lane = lane_with(number, waiting=waiting)
        lane.slow, lane.may_have_more, lane.closed = slow, more, leaving
        all_lanes.append(lane)
    had = sum(len(lane.ready) for lane in all_lanes)
    pages = plan(all_lanes, NOW, idle=idle)
    room = sum(len(page.lanes) * page.per_lane for page in pages)
    assert sum(len(lane.ready) for lane in all_lanes) + room <= max(READY_MAX, had)
    assert not [lane for page in pages for lane in page.lanes if lane.closed or not lane.may_have_more]


def test_what_slow_lanes_read_leaves_less_room_for_others() -> None:
    found = read(plan([*lanes(2, waiting=0, slow=True), *lanes(1000, waiting=0, first=100)], NOW, idle=True))
    assert found[1] == found[2] == PAGE_LEAST
    assert sum(found.values()) == READY_MAX


def test_as_many_slow_lanes_as_fit_have_one_delivery() -> None:
    found = read(plan(lanes(1000, waiting=0, slow=True), NOW, idle=True))
    assert len(found) == SLOW_MAX
    assert set(found.values()) == {1}


def test_the_bytes_of_payloads_in_memory_are_limited() -> None:
    lane = lane_with(1, waiting=0)
    lane.may_have_more = False
    event = {"size": 48, "payload": b"x" * 48, "created_at": 0, "name": "push", "action": None, "repository_id": 1}
    event |= {"installation_id": None, "traceparent": None}
    leased: Any = SimpleNamespace(lanes={1: lane})
    unused: Any = None
    prefetcher = Prefetcher(unused, leased, bytes_max=200)
    for number in range(1, 6):
        assert prefetcher.offer(CommittedDispatch(number, 1, 1, f"{number}", number, event, before=())) is lane
    assert [work.held for work in lane.ready] == [96, 96, 0, 0, 0], "twice the size: it may be sent as a form"
    prefetcher.release(lane.ready[0])
    assert prefetcher.offer(CommittedDispatch(6, 1, 1, "6", 6, event, before=())) is lane
    assert lane.ready[-1].payload == event["payload"]


# --- order within a lane ----------------------------------------------------------------------------------------------
# The order of due deliveries waiting in a lane.


def test_a_retry_between_two_first_attempts_does_not_change_their_order() -> None:
    for order in permutations(range(3)):
        lane = lane_with(1, waiting=3)
        first, repeat, second = waiting = list(lane.ready)
        lane.ready.clear()
        # By the clocks of the committing processes, the order is: second, repeat, first.
        second.due_at, repeat.due_at, first.due_at = 90, 95, 100
        repeat.attempts = 1
        for place in order:
            lane.add(waiting[place])
        numbers = [work.id for work in lane.ready if is_first(work)]
        assert numbers == [first.id, second.id]


def is_first(work: PendingAttempt) -> bool:
    return work.attempts == 0


# --- turns when the process is full -----------------------------------------------------------------------------------
# The next lane to be served once the process has no free slots.


def _drain_turns(slots: Slots) -> list[int]:
    """Serve waiting lanes until the process is full again. Return the hooks that got a slot."""
    served = []
    passed = 0
    while not slots.full and passed < len(slots):
        lane = slots.next()
        work = slots.start_next(lane, now=0)
        if isinstance(work, PendingAttempt):
            served.append(lane.hook.id)
            slots.queue(lane)
            passed = 0
        elif lane.waiting_for_slot:
            passed += 1
    return served


def test_lanes_take_turns_regardless_of_their_backlog() -> None:
    slots = Slots(4)
    long, short = lane_with(1, waiting=100), lane_with(2, waiting=3)
    taken = [slots.start_next(long, 0) for _ in range(5)]
    assert [isinstance(each, PendingAttempt) for each in taken] == [True] * 4 + [False]
    assert slots.start_next(short, 0) is None
    for work in taken[:4]:
        assert isinstance(work, PendingAttempt)
        long.in_flight.pop(work.id)
        slots.free(work)
    slots.queue(long)
    assert Counter(_drain_turns(slots)) == {1: 2, 2: 2}


def test_one_lane_leaves_room_for_others() -> None:
    slots = Slots(40)
    greedy, modest = lane_with(1, waiting=100, max_concurrency="1000"), lane_with(2, waiting=1)
    started = 0
    while isinstance(slots.start_next(greedy, 0), PendingAttempt):
        started += 1
    assert started == 20
    assert isinstance(slots.start_next(modest, 0), PendingAttempt)


def test_slow_receivers_use_at_most_half_of_the_slots() -> None:
    slots = Slots(16)
    slow = [lane_with(number, waiting=10) for number in range(1, 5)]
    for lane in slow:
        lane.slow = True
    started = sum(isinstance(slots.start_next(lane, 0), PendingAttempt) for lane in slow for _ in range(8))
    assert started == 8
    quick = lane_with(9, waiting=10)
    assert sum(isinstance(slots.start_next(quick, 0), PendingAttempt) for _ in range(8)) == 8
    assert slots.full


def test_successes_free_their_slots_while_unrecorded_ones_are_bounded() -> None:
    slots, lanes = Slots(4), [lane_with(number, waiting=100) for number in range(1, 4)]
    taken: list[tuple[Lane, PendingAttempt]] = []
    for lane in lanes:
        while isinstance(work := slots.start_next(lane, 0), PendingAttempt):
            taken.append((lane, work))
            slots.answered(lane, work)
    assert len(taken) == slots.in_flight == (1 + UNRECORDED) * 4
    assert slots.full
    for lane, work in taken:
        lane.finish(work)
        slots.free(work)
    assert slots.in_flight == 0
    assert not slots.full


async def test_a_budget_is_never_overdrawn_and_never_deadlocks() -> None:
    budget = MemoryBudget(100)
    inside = most = 0

    async def hold(size: int) -> None:
        nonlocal inside, most
        async with budget.reserve(size):
            inside += min(size, 100)
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= min(size, 100)

    await asyncio.gather(*(hold(size) for size in (60, 60, 500, 10, 90, 100, 1) * 5))
    assert inside == 0
    assert 0 < most <= 100
