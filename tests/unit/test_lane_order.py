"""The order in which what is due waits in a lane."""

from __future__ import annotations

from itertools import permutations

from tests.unit.lane_kit import lane_with
from workhook.delivery.lanes import Work


def test_a_repeat_between_two_first_attempts_does_not_hide_their_order() -> None:
    for order in permutations(range(3)):
        lane = lane_with(1, waiting=3)
        first, repeat, second = waiting = list(lane.ready)
        lane.ready.clear()
        # By the clocks of those who committed them: the second, the repeat, the first.
        second.due_at, repeat.due_at, first.due_at = 90, 95, 100
        repeat.attempts = 1
        for place in order:
            lane.add(waiting[place])
        numbers = [work.id for work in lane.ready if is_first(work)]
        assert numbers == [first.id, second.id]


def is_first(work: Work) -> bool:
    return work.attempts == 0
