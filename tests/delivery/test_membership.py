"""Membership: no lane is ever worked on by two processes, whatever comes between what they see and what they do.

The processes and the rows of `workers` stand in memory here. Time passes by steps; a process reads all rows at one
moment, and acts by what it has read whenever it comes to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.harness.depth import deep
from workhook.delivery.membership import VIEWS_MAX, LaneAssignment, Seen, View, WorkerRow

LANES = range(1, 13)
LEASE = 10
PROCESSES = 3


@dataclass
class Row:
    epoch: int
    until: int
    acknowledged: int
    finishing: frozenset[int] = frozenset()
    leaving: bool = False


@dataclass
class Process:
    """What `Leases` and `LeasedLanes` are in a real one."""

    owner: str
    membership: LaneAssignment
    epoch: int = 0
    good_until: int = 0
    in_flight: Counter[int] = field(default_factory=Counter)  # of this life
    left_over: Counter[int] = field(default_factory=Counter)  # of earlier ones: they end by themselves
    read: Seen | None = None  # and not acted by yet
    leaving: bool = False

    def lose(self) -> None:
        self.epoch = self.good_until = 0
        self.membership.lose()
        self.left_over += self.in_flight
        self.in_flight.clear()
        self.read = None


class Processes(RuleBasedStateMachine):
    """`rows` is the table, `generation` its other one."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.generation = 0
        self.rows: dict[str, Row] = {}
        self.processes: list[Process] = []

    def _seen(self) -> Seen:
        members = [
            WorkerRow(owner, row.epoch, row.until - self.now, row.acknowledged, row.finishing, row.leaving)
            for owner, row in self.rows.items()
        ]
        return Seen(self.generation, members)

    def _row(self, process: Process) -> Row | None:
        row = self.rows.get(process.owner)
        return row if row is not None and process.epoch and row.epoch == process.epoch else None

    @precondition(lambda self: len(self.processes) < PROCESSES)
    @rule(target=made)
    def a_process_starts(self) -> Process:
        owner = f"p{len(self.processes)}"
        self.processes.append(Process(owner, LaneAssignment(owner)))
        return self.processes[-1]

    @rule(process=made)
    def beat(self, process: Process) -> None:
        """The heartbeat, or a new life if others have ended the last one."""
        may = process.membership.may_work_on
        finishing = frozenset(lane for lane in process.in_flight if not may(lane))
        row = self._row(process)
        if row is None and process.leaving:
            process.lose()
            return
        if row is None:
            process.lose()
            self.generation += 1
            process.epoch = self.generation
            self.rows[process.owner] = Row(self.generation, self.now + LEASE, self.generation)
        else:
            row.until, row.acknowledged, row.finishing = self.now + LEASE, process.membership.generation, finishing
        process.good_until = self.now + LEASE
        process.read = self._seen()

    @rule(process=made)
    def look(self, process: Process) -> None:
        process.read = self._seen()

    @rule(process=made)
    def act(self, process: Process) -> None:
        """By what was read, which may be long ago."""
        seen, process.read = process.read, None
        if seen is None or process.epoch == 0:
            return
        if not any((each.owner, each.epoch) == (process.owner, process.epoch) for each in seen.members):
            process.lose()
        else:
            process.membership.see(seen)

    @rule(process=made)
    def turn(self, process: Process) -> None:
        """One that nothing holds up."""
        self.beat(process)
        self.act(process)

    @rule(process=made)
    def remove_dead(self, process: Process) -> None:
        dead = [owner for owner, row in self.rows.items() if row.until < self.now and owner != process.owner]
        for owner in dead:
            del self.rows[owner]
        if dead:
            self.generation += 1

    @rule(process=made)
    def leave_soon(self, process: Process) -> None:
        row = self._row(process)
        if row is not None and not process.leaving:
            process.leaving = row.leaving = True
            self.generation += 1

    @rule(process=made)
    def leave(self, process: Process) -> None:
        """When nothing is in flight."""
        if not process.in_flight and self._row(process) is not None:
            del self.rows[process.owner]
            self.generation += 1
            process.lose()

    @rule(process=made, lanes=st.sets(st.sampled_from(LANES)))
    def start(self, process: Process, lanes: set[int]) -> None:
        for lane in lanes:
            good = self.now < process.good_until and not process.leaving
            if good and process.membership.may_work_on(lane) and not process.left_over[lane]:
                process.in_flight[lane] += 1

    @rule(process=made, lanes=st.sets(st.sampled_from(LANES)))
    def land(self, process: Process, lanes: set[int]) -> None:
        for lane in lanes:
            process.in_flight[lane] -= 1
            process.left_over[lane] -= 1
        process.in_flight, process.left_over = +process.in_flight, +process.left_over

    @rule(steps=st.integers(1, LEASE))
    def time_passes(self, steps: int) -> None:
        self.now += steps

    @invariant()
    def no_lane_is_worked_on_by_two(self) -> None:
        """Nor may be, with leases that are good. What is in flight of a life that others have ended does not count."""
        for lane in LANES:
            workers = [
                each.owner
                for each in self.processes
                if self.now < each.good_until and (each.in_flight[lane] or each.membership.may_work_on(lane))
            ]
            assert len(workers) <= 1, (lane, workers)

    def teardown(self) -> None:
        """When nothing more changes, every lane is somebody's."""
        living = [each for each in self.processes if each.epoch and self._row(each) is not None]
        for each in living:
            each.in_flight.clear()
        for _ in range(3):
            for each in living:
                self.beat(each)
                self.act(each)
        for owner in set(self.rows) - {each.owner for each in living}:
            raise AssertionError(f"nobody is {owner}")
        if any(not each.leaving for each in living):
            assert all(sum(each.membership.may_work_on(lane) for each in living) == 1 for lane in LANES)


def test_no_lane_is_ever_worked_on_by_two() -> None:
    run_state_machine_as_test(Processes, settings=settings(max_examples=deep(200, 3000), stateful_step_count=50))


OWNERS = st.lists(st.text("abcdef", min_size=1), min_size=2, max_size=6, unique=True)


@given(OWNERS, st.data())
def test_only_the_lanes_of_who_goes_change_hands(owners: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(owners))
    before, after = View(1, owners), View(2, [each for each in owners if each != gone])
    for lane in LANES:
        if before.owner_of(lane) != gone:
            assert after.owner_of(lane) == before.owner_of(lane)


def test_lanes_are_shared_about_evenly() -> None:
    view = View(1, [f"host/{number}/x" for number in range(4)])
    shares = Counter(view.owner_of(lane) for lane in range(10_000))
    assert all(2200 < share < 2800 for share in shares.values())


def two() -> tuple[LaneAssignment, LaneAssignment]:
    """One that has been there, and one that comes."""
    here, newcomer = LaneAssignment("a"), LaneAssignment("b")
    here.see(Seen(1, [WorkerRow("a", 1, 10, 1, frozenset())]))
    return here, newcomer


def test_a_newcomer_waits_for_what_is_in_flight() -> None:
    here, newcomer = two()
    lane = next(lane for lane in LANES if View(2, ["a", "b"]).owner_of(lane) == "b")
    other = next(each for each in LANES if View(2, ["a", "b"]).owner_of(each) == "b" and each != lane)
    coming = [WorkerRow("a", 1, 10, 1, frozenset()), WorkerRow("b", 2, 10, 2, frozenset())]
    newcomer.see(Seen(2, coming))
    assert not newcomer.may_work_on(lane)
    assert newcomer.is_own(lane)
    here.see(Seen(2, coming))
    assert not here.may_work_on(lane)
    finishing = [WorkerRow("a", 1, 10, 2, frozenset({lane})), WorkerRow("b", 2, 10, 2, frozenset())]
    newcomer.see(Seen(2, finishing))
    assert not newcomer.may_work_on(lane)
    assert newcomer.may_work_on(other)
    assert not newcomer.settled
    newcomer.see(Seen(2, [WorkerRow("a", 1, 10, 2, frozenset()), WorkerRow("b", 2, 10, 2, frozenset())]))
    assert newcomer.may_work_on(lane)
    assert newcomer.settled


def test_who_stops_ends_what_is_in_flight_and_others_have_the_rest() -> None:
    here, other = two()
    both = [WorkerRow("a", 1, 10, 2, frozenset()), WorkerRow("b", 2, 10, 2, frozenset())]
    for each in (here, other):
        each.see(Seen(2, both))
    lane, further = [lane for lane in LANES if here.is_own(lane)][:2]
    other.see(Seen(3, [WorkerRow("a", 1, 10, 3, frozenset({lane}), leaving=True), both[1]]))
    assert not other.may_work_on(lane)
    assert other.may_work_on(further)


def test_who_is_never_answered_keeps_nothing_for_ever() -> None:
    here, _ = two()
    for generation in range(2, 3 * VIEWS_MAX):
        here.see(
            Seen(generation, [WorkerRow("a", 1, 10, generation, frozenset()), WorkerRow("b", 2, 10, 1, frozenset())])
        )
    assert not any(here.may_work_on(lane) for lane in LANES)


def test_beside_an_earlier_version_nothing_is_worked_on() -> None:
    here, _ = two()
    here.held_up = True
    assert not any(here.may_work_on(lane) for lane in LANES)
