"""The next due time of each hook: `delivery.leased_lanes`, compared with a search in a dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workhook.delivery.leased_lanes import KNOWN_MAX, Schedule

HOOKS = st.integers(1, 5)
TIMES = st.integers(0, 30)


def test_a_due_time_is_returned_once() -> None:
    schedule = Schedule()
    schedule.add(1, 100)
    schedule.add(2, 50)
    assert schedule.next_at == 50
    assert schedule.pop_due(49) == {}
    assert schedule.pop_due(100) == {1: 100, 2: 50}
    assert schedule.pop_due(1000) == {}
    assert schedule.next_at is None


def test_every_time_of_a_hook_is_returned() -> None:
    schedule = Schedule()
    for at in (100, 50, 70, 50):
        schedule.add(1, at)
    assert schedule.pop_due(60) == {1: 50}
    assert schedule.next_at == 70
    assert schedule.pop_due(100) == {1: 70}, "both have come"
    assert schedule.next_at is None


@given(st.lists(st.one_of(st.tuples(st.just("add"), HOOKS, TIMES), st.tuples(st.just("come"), TIMES, TIMES))))
def test_the_schedule_matches_a_search(steps: list[tuple[str, int, int]]) -> None:
    schedule, searched = Schedule(), set[tuple[int, int]]()
    for what, hook_id, at in steps:
        if what == "add":
            schedule.add(hook_id, at)
            searched.add((at, hook_id))
        else:
            found = {each for each in searched if each[0] <= at}
            assert schedule.pop_due(at) == {
                hook: min(due for due, other in found if other == hook) for _, hook in found
            }
            searched -= found
        assert schedule.next_at == min((due for due, _ in searched), default=None)


def test_the_number_of_times_per_hook_is_bounded() -> None:
    schedule = Schedule()
    for at in range(KNOWN_MAX + 10):
        schedule.add(1, at)
    assert schedule.pop_due(KNOWN_MAX + 10) == {1: 0}
    schedule.add(1, 5)
    assert schedule.next_at == 5
