"""What is read for which lanes. No database."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.lane_kit import lane_with
from workhook.delivery.lanes import Lane
from workhook.delivery.prefetcher import LANE_MAX, PAGE_LEAST, READY_LOW, READY_MAX, SLOW_MAX, ReadPlan, plan

NOW = 0


def lanes(number: int, *, waiting: int, slow: bool = False, first: int = 1) -> list[Lane]:
    made = [lane_with(first + each, waiting=waiting) for each in range(number)]
    for lane in made:
        lane.slow = slow
    return made


def read(pages: list[ReadPlan]) -> dict[int, int]:
    return {lane.hook.id: page.per_lane for page in pages for lane in page.lanes}


def test_one_lane_reads_as_much_as_a_lane_may_have() -> None:
    assert read(plan(lanes(1, waiting=0), NOW, idle=True)) == {1: LANE_MAX}


def test_of_many_lanes_some_read_pages_that_are_worth_it() -> None:
    found = read(plan(lanes(1000, waiting=0), NOW, idle=True))
    assert set(found.values()) == {PAGE_LEAST}
    assert len(found) * PAGE_LEAST == READY_MAX


def test_who_has_waited_longest_is_next() -> None:
    all_lanes = lanes(1000, waiting=0)
    served: set[int] = set()
    for turn in range(1, 1 + -(-1000 * PAGE_LEAST // READY_MAX)):
        for lane in (each for page in plan(all_lanes, NOW, idle=True) for each in page.lanes):
            lane.read_turn = turn
            served.add(lane.hook.id)
    assert len(served) == 1000


def test_the_emptiest_come_first() -> None:
    all_lanes = [*lanes(8, waiting=31), *lanes(2, waiting=0, first=100)]
    all_lanes[0].ready.clear()
    [page] = plan(all_lanes, NOW, idle=False)
    assert {lane.hook.id for lane in page.lanes[:3]} == {1, 100, 101}


def test_with_enough_in_hand_nothing_is_read_unless_slots_are_idle() -> None:
    all_lanes = [*lanes(9, waiting=31), *lanes(1, waiting=0, first=100)]
    assert sum(len(lane.ready) for lane in all_lanes) >= READY_LOW
    assert plan(all_lanes, NOW, idle=False) == []
    assert 100 in read(plan(all_lanes, NOW, idle=True))


def test_slow_lanes_give_back_what_others_could_have() -> None:
    slow, brisk = lanes(100, waiting=8, slow=True), lanes(3, waiting=0, first=1000)
    found = read(plan([*slow, *brisk], NOW, idle=True))
    assert sum(len(lane.ready) for lane in slow) <= SLOW_MAX
    assert all(lane.may_have_more for lane in slow if len(lane.ready) < 8), "what was given back is read again"
    assert found == {1000: LANE_MAX, 1001: LANE_MAX, 1002: LANE_MAX}


@given(
    st.lists(st.tuples(st.integers(0, 80), st.booleans(), st.booleans(), st.booleans()), max_size=120), st.booleans()
)
def test_never_more_than_may_wait(shapes: list[tuple[int, bool, bool, bool]], idle: bool) -> None:
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


def test_of_slow_lanes_as_many_as_there_is_room_for_have_something() -> None:
    found = read(plan(lanes(1000, waiting=0, slow=True), NOW, idle=True))
    assert len(found) == SLOW_MAX
    assert set(found.values()) == {1}
