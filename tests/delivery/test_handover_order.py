"""In any interleaving of processes, each dispatch is sent once and in commit order, and none is left over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.delivery.test_lanes import NOW, lane
from workhook.delivery.lanes import Lane, OfferedDispatch, PendingAttempt

PAGE = 3
QUEUES = 2  # in this process; dispatches of different queues are committed concurrently


@dataclass
class Row:
    """A dispatch. `begun` and `told` are the times at which its commit began and its publisher received the answer."""

    id: int
    begun: int
    told: int | None = None
    committed: bool = False
    done: bool = False
    started: int | None = None
    before: list[int] = field(default_factory=list)


class World:
    """A database, a process that owns the lane of the only hook, and another process that publishes to it too."""

    def __init__(self, slots: int, capacity: int) -> None:
        self.time = 0
        self.rows: list[Row] = []
        self.lane: Lane = lane(0, max_concurrency=str(slots))
        self.lane.connected = True
        self.capacity = capacity
        self.queues: list[Row | None] = [None] * QUEUES
        self.others: list[Row] = []
        self.signals = 0
        self.known: set[int] = set()
        self.found: tuple[list[PendingAttempt], bool] | None = None
        self.handed = 0

    def begin(self) -> Row:
        row = Row(len(self.rows) + 1, self.time)
        self.rows.append(row)
        return row

    def due(self) -> list[Row]:
        return [row for row in self.rows if row.committed and not row.done]

    # --- Steps: each does nothing if it is impossible at the moment ------------------------------------------------

    def begin_own(self, queue: int) -> None:
        if self.queues[queue] is None:
            self.queues[queue] = self.begin()
            self.queues[queue].before = [row.id for row in self.due()]  # type: ignore[union-attr]

    def commit_own(self, queue: int) -> None:
        row = self.queues[queue]
        if row is not None:
            row.committed = True

    def tell_own(self, queue: int) -> None:
        row = self.queues[queue]
        if row is None or not row.committed:
            return
        self.queues[queue] = None
        self.offer(row)
        row.told = self.time

    def offer(self, row: Row) -> None:
        if len(self.lane.ready) + len(self.lane.incoming) >= self.capacity:
            self.lane.may_have_more = True
        else:
            before = None if len(row.before) > 2 * PAGE else row.before
            self.handed += self.lane.offer(OfferedDispatch(work(row), before), 1, self.known.__contains__)

    def begin_other(self, _: int) -> None:
        self.others.append(self.begin())

    def commit_other(self, which: int) -> None:
        """Commit and answer before the signal, which may be lost."""
        if self.others:
            row = self.others.pop(which % len(self.others))
            row.committed, row.told = True, self.time
            self.signals += 1

    def hear(self, which: int) -> None:
        if self.signals:
            self.signals -= 1
            if which:
                self.lane.may_have_more = True

    def search(self, _: int) -> None:
        if self.due():
            self.lane.may_have_more = True

    def begin_fill(self, _: int) -> None:
        if self.lane.may_have_more and not self.lane.reading and len(self.lane.ready) < PAGE:
            busy = {each.id for each in self.lane.ready} | set(self.lane.in_flight)
            self.lane.begin_read(1)
            rows = [row for row in self.due() if row.id not in busy][:PAGE]
            self.found = [work(row) for row in rows], len(rows) == PAGE

    def end_fill(self, fails: int) -> None:
        if self.found is not None:
            works, full = ([], True) if fails == 7 else self.found
            self.found = None
            self.lane.end_read(works, full=full, is_recorded=self.known.__contains__)

    def publish_own(self, queue: int) -> None:
        for step in (self.begin_own, self.commit_own, self.tell_own):
            step(queue)
            self.time += 1

    def publish_other(self, _: int) -> None:
        self.begin_other(0)
        self.time += 1
        self.commit_other(-1)

    def fill(self, _: int) -> None:
        self.begin_fill(0)
        self.end_fill(0)

    def finish(self, _: int) -> None:
        self.start(0)
        self.record(0)

    def put_back(self, keep: int) -> None:
        if not self.lane.reading:
            self.lane.trim_ready(keep)

    def start(self, _: int) -> None:
        taken = self.lane.take(NOW)
        if isinstance(taken, PendingAttempt):
            row = self.rows[taken.id - 1]
            assert row.started is None, "it is sent once"
            missed = [
                each.id
                for each in self.due()
                if each.started is None and each.told is not None and each.told < row.begun
            ]
            assert not missed, f"{missed} were told before {row.id} began"
            row.started = self.time

    def record(self, which: int) -> None:
        if self.lane.in_flight:
            id_ = list(self.lane.in_flight)[which % len(self.lane.in_flight)]
            self.rows[id_ - 1].done = True
            self.known.add(id_)
            del self.lane.in_flight[id_]

    def end(self) -> None:
        for queue in range(QUEUES):
            self.commit_own(queue)
            self.tell_own(queue)
        while self.others:
            self.commit_other(0)
        self.end_fill(0)
        self.lane.may_have_more = True  # the worker's own search
        for _ in range(10 * len(self.rows) + 10):
            self.time += 1
            for step in (self.begin_fill, self.end_fill, self.start, self.record):
                step(0)
        assert all(row.done for row in self.rows)
        handed = self.handed
        self.begin_own(0)
        self.commit_own(0)
        self.tell_own(0)
        assert self.handed == handed + 1, "the lane sent a handed-over dispatch again"


def work(row: Row) -> PendingAttempt:
    return PendingAttempt(row.id, row.id, str(row.id), 0, 0, 0, NOW, "push", None, 1, 10)


STEPS: tuple[Callable[[World, int], None], ...] = (
    World.begin_own,
    World.commit_own,
    World.tell_own,
    World.begin_other,
    World.commit_other,
    World.hear,
    World.search,
    World.begin_fill,
    World.end_fill,
    World.put_back,
    World.start,
    World.record,
    World.publish_own,
    World.publish_other,
    World.fill,
    World.finish,
)
QUEUE_STEPS = (World.begin_own, World.commit_own, World.tell_own, World.publish_own)


@settings(max_examples=600, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=80),
    slots=st.integers(1, 3),
    capacity=st.integers(1, 6),
)
def test_any_interleaving_sends_each_dispatch_once_and_in_order(
    steps: list[tuple[Callable[[World, int], None], int]], slots: int, capacity: int
) -> None:
    world = World(slots, capacity)
    for step, number in steps:
        world.time += 1
        step(world, number % QUEUES if step in QUEUE_STEPS else number)
    world.end()


def test_a_lane_under_constant_publishing_returns_to_delivery_from_memory() -> None:
    """Something is published during every read, which must not cause reads without end."""
    world = World(slots=1, capacity=100)
    for number in range(2 * PAGE):
        world.time += 1
        world.begin_fill(0)
        for step in (world.begin_own, world.commit_own, world.tell_own):
            step(0)
        world.end_fill(0)
        assert world.lane.may_have_more is False, number
    assert world.handed == 2 * PAGE


def test_a_dispatch_that_another_process_committed_earlier_is_sent_first() -> None:
    """Its signal may take long or be lost."""
    world = World(slots=1, capacity=100)
    world.begin_fill(0)
    world.end_fill(0)
    world.begin_other(0)
    world.time += 1
    world.commit_other(0)
    world.time += 1
    for step in (world.begin_own, world.commit_own, world.tell_own):
        step(0)
    assert world.handed == 0
    assert world.lane.may_have_more
    world.end()
