"""When a lane may start its next attempt: slots, rate limit, cold start, end of the lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import permutations
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.delivery.rows import PLAIN_HOOK, columns, fill_lanes
from tests.harness.receiver import Receiver
from tests.harness.waiting import WAIT_S
from tests.harness.world import make_world
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.delivery import leased_lanes, queries
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.lanes import (
    FULL_READ_MS,
    LATE_MS,
    SLOW_MS,
    UNRECORDED,
    Lane,
    OfferedDispatch,
    PendingAttempt,
    signer_until,
)
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.sign import Profile, Signer
from workhook.delivery.worker import Worker
from workhook.events.tables import events
from workhook.hooks.schemas import Hook
from workhook.hooks.tables import dispatches, hooks, workers
from workhook.http.calls import Services
from workhook.identity.queries import find_repository
from workhook.storage import Row
from workhook.storage.metadata import insert_into

NOW = 1_800_000_000_000
LEASE_MS = 30_000


def hook(previous_until: int | None = None, /, **config: str) -> Hook:
    return Hook(
        id=1,
        account_id=1,
        repository_id=1,
        active=True,
        events=["push"],
        config={"url": "http://x/", **config},
        secret=None,
        previous_secret=None,
        previous_secret_until=previous_until,
        password=None,
        version=1,
        created_at=NOW,
        updated_at=NOW,
    )


def lane(waiting: int, *, warm: bool = True, failing_since: int | None = None, **config: str) -> Lane:
    signer = Signer(Profile(hook_id=1, target_id=1, target_type="repository"))
    made = Lane(hook(**config), signer, NOW + LEASE_MS, failing_since)
    if warm:
        made.connected = True
    made.ready.extend(work(number) for number in range(1, waiting + 1))
    return made


def work(number: int) -> PendingAttempt:
    return PendingAttempt(number, number, str(number), 0, 0, 0, NOW, "push", None, 1, 10)


def start(made: Lane, now: int) -> list[int]:
    """Start every attempt that may start at `now`."""
    started = []
    while isinstance(work := made.take(now), PendingAttempt):
        started.append(work.id)
    return started


@pytest.mark.parametrize(("made", "slots"), [(lane(20), 8), (lane(20, max_concurrency="3"), 3)])
def test_a_lane_starts_no_more_attempts_than_it_has_slots(made: Lane, slots: int) -> None:
    assert start(made, NOW) == list(range(1, slots + 1))
    made.in_flight.pop(2)
    assert start(made, NOW) == [slots + 1]
    assert made.mark_throttled(NOW) == 20 - slots - 1
    assert made.mark_throttled(NOW) == 0


def test_a_success_frees_its_slot_before_it_is_recorded() -> None:
    """At most `UNRECORDED` times the slots may wait for their records, because a crash repeats those attempts."""
    made, slots = lane(100, max_concurrency="3"), 3
    started = start(made, NOW)
    for _ in range(UNRECORDED):
        for number in started:
            made.mark_answered(made.in_flight[number])
        assert made.sending == 0
        started = start(made, NOW)
        assert len(started) == slots
    made.mark_answered(made.in_flight[started[0]])
    assert start(made, NOW) == []
    assert made.lacks_records
    assert len(made.in_flight) == (1 + UNRECORDED) * slots
    made.finish(made.in_flight[1])
    assert len(start(made, NOW)) == 1
    assert made.sending == slots


def test_a_slow_record_does_not_make_the_receiver_slow() -> None:
    made = lane(1)
    [number] = start(made, NOW)
    made.in_flight[number].started_at = NOW
    assert made.is_slow(NOW + 10_000)
    made.mark_answered(made.in_flight[number])
    assert not made.is_slow(NOW + 10_000)


def test_a_receiver_is_slow_if_its_last_answer_took_long() -> None:
    made = lane(0)
    for duration_ms, is_slow in ((SLOW_MS, False), (SLOW_MS + 1, True), (1, False)):
        made.mark_recorded(work(1), duration_ms, NOW)
        assert made.is_slow(NOW) is is_slow


def test_only_attempts_held_back_by_the_hooks_own_limits_are_marked_throttled() -> None:
    made = lane(3)
    assert made.mark_throttled(NOW) == 0  # the process is at its limit, or the hook is not loaded yet
    cold = lane(3, warm=False)
    assert start(cold, NOW) == [1]
    assert isinstance(cold.take(NOW), float)
    assert cold.mark_throttled(NOW) == 0


def test_a_cold_lane_starts_attempts_one_by_one_until_the_first_answer() -> None:
    made = lane(4, warm=False)
    assert start(made, NOW) == [1]
    assert start(made, NOW + 10) == []
    assert start(made, NOW + 60) == [2]
    made.connected = True
    assert start(made, NOW + 61) == [3, 4]


def test_a_receiver_that_timed_out_or_failed_starts_with_one_slot() -> None:
    made = lane(4)
    made.timing_out = True
    assert start(made, NOW) == [1]
    known = lane(4, failing_since=NOW - 1000)
    assert start(known, NOW) == [1]
    known.timing_out = False
    assert start(known, NOW) == [2, 3, 4]


@pytest.mark.parametrize("why", ["closed", "needs_reload", "deactivating"])
def test_nothing_starts_while_the_lane_is_unavailable(why: str) -> None:
    made = lane(2)
    setattr(made, why, True)
    assert start(made, NOW) == []


def test_nothing_starts_after_the_end_of_the_lease() -> None:
    made = lane(9, max_concurrency="1")
    assert start(made, NOW + LEASE_MS - 1) == [1]
    made.in_flight.clear()
    assert start(made, NOW + LEASE_MS) == []
    made.lease_until += LEASE_MS
    assert start(made, NOW + LEASE_MS) == [2]


@given(rate=st.integers(1, 1000), steps=st.lists(st.integers(0, 400), min_size=1, max_size=60))
def test_the_rate_limit_is_never_exceeded_in_any_second(rate: int, steps: list[int]) -> None:
    made = lane(4000, max_concurrency="1000", rate_limit=str(rate))
    now, starts = NOW, list[int]()
    made.lease_until = NOW + 10**9
    for step in steps:
        now += step
        starts += [now] * len(start(made, now))
        made.in_flight.clear()
    for first in starts:
        assert sum(first <= each < first + 1000 for each in starts) <= rate + 2


@given(rate=st.integers(1, 10_000))
def test_the_rate_limit_is_reached(rate: int) -> None:
    """Waiting exactly as long as `take` returns is enough for the next start."""
    made = lane(50, max_concurrency="1000", rate_limit=str(rate))
    made.lease_until = NOW + 10**9
    now = float(NOW)
    begun = []
    while made.ready:
        outcome = made.take(int(now))
        if isinstance(outcome, PendingAttempt):
            begun.append(now)
        else:
            assert isinstance(outcome, float)
            now += max(outcome, 0.5)
    assert begun[-1] - begun[0] <= 50 * (1000 / rate + 1) + 1


def test_setting_the_clock_back_does_not_stop_a_lane() -> None:
    made = lane(9, rate_limit="10")
    assert len(start(made, NOW)) >= 1
    assert len(start(made, NOW - 3_600_000)) >= 1
    cold = lane(3, warm=False)
    start(cold, NOW)
    assert start(cold, NOW - 3_600_000) == [2]


def test_a_raised_rate_limit_applies_immediately() -> None:
    made = lane(9, rate_limit="1")
    start(made, NOW)
    made.hook = hook(rate_limit="1000")
    assert start(made, NOW + 2)


def test_the_signer_is_replaced_once_when_the_previous_secret_expires() -> None:
    assert signer_until(hook(NOW + 5), NOW) == NOW + 5
    assert signer_until(hook(NOW), NOW) is None
    made = lane(1)
    made.signer_until = NOW + 5
    assert not made.needs_signer(NOW)
    assert made.needs_signer(NOW + 5)
    made.replace_hook(hook(1), made.signer, None)
    assert not made.needs_signer(NOW + 10**12)


def test_retries_are_ordered_by_due_time() -> None:
    for order in permutations(range(4)):
        made = lane(4)
        waiting = list(made.ready)
        made.ready.clear()
        for work, due_at in zip(waiting, (30, 10, 20, 20), strict=True):
            work.attempts, work.due_at = 1, due_at
        for place in order:
            made.add(waiting[place])
        assert [work.id for work in made.ready] == [2, 3, 4, 1]


def test_a_lane_accepts_a_dispatch_only_for_its_version_of_the_hook() -> None:
    """Otherwise both the hook and the dispatch are read."""

    def offer(made: Lane, version: int) -> bool:
        return made.offer(OfferedDispatch(work(1), ()), version, lambda _: False)

    def with_nothing_due() -> Lane:
        made = lane(0)
        made.begin_read(1)
        made.end_read([], full=False, is_recorded=lambda _: False)
        assert not made.needs_more
        return made

    made = with_nothing_due()
    assert offer(made, 1)
    assert start(made, NOW) == [1]
    for version in (0, 2):
        assert not offer(changed := with_nothing_due(), version)
        assert changed.needs_more
    off, paused = with_nothing_due(), with_nothing_due()
    off.hook, paused.needs_reload = msgspec.structs.replace(off.hook, active=False), True
    for each in (off, paused):
        assert not offer(each, 1)
        assert not each.ready
        assert each.may_have_more


def test_all_due_dispatches_are_read_from_time_to_time() -> None:
    """A commit may become visible later than others that were already seen."""
    made = lane(0)
    assert made.read_from(NOW) == 0
    made.advance_due_since(NOW)
    assert made.read_from(NOW + FULL_READ_MS - 1) == NOW - LATE_MS
    assert made.read_from(NOW + FULL_READ_MS) == 0
    made.advance_due_since(NOW)
    assert made.read_from(NOW - 3_600_000) == 0, "the clock was set back"


# --- Leased lanes ----------------------------------------------------------------------------------------------------
# Many lanes with work: only a few are loaded at a time, and all of them are served.


HOOKS, EVENTS = 30, 3


@pytest.fixture
async def filled(services: Services, receiver: Receiver) -> Services:
    """Give every hook the same number of waiting events."""
    world = await make_world(services)
    now = now_ms()
    async with services.database.transaction() as tx:
        repository = await find_repository(tx, world.organization, world.repository)
        assert repository is not None
        place = {"account_id": repository.owner.id, "repository_id": repository.id}
        await tx.execute_many(
            insert_into(hooks, *columns(hooks)),
            [
                {**place, **PLAIN_HOOK, "id": n, "active": True, "events": '["push"]', "version": 1, "created_at": now,
                 "updated_at": now, "config": json.encode_text({"url": f"{receiver.url}?{n}", "content_type": "json"})}
                for n in range(1, HOOKS + 1)
            ],
        )  # fmt: skip
        await fill_lanes(tx, range(1, HOOKS + 1))
        await tx.execute_many(
            insert_into(events, *columns(events)),
            [
                {**place, "id": 1000 + n, "name": "push", "action": None, "payload": b'{"number":%d}' % n, "size": 12,
                 "created_at": now, "actor_id": None, "installation_id": None, "listed": True, "published": False,
                 "traceparent": None}
                for n in range(EVENTS)
            ],
        )  # fmt: skip
        await tx.execute_many(
            insert_into(dispatches, *(name for name in columns(dispatches) if name != "id")),
            [
                {"event_id": 1000 + n, "hook_id": hook, "guid": new_guid(), "attempts": 0, "retries": 0, "wanted": 0,
                 "next_attempt_at": now, "created_at": now}
                for n in range(EVENTS)
                for hook in range(1, HOOKS + 1)
            ],
        )  # fmt: skip
    return services


@pytest.fixture
async def new_worker(filled: Services) -> AsyncIterator[Callable[[], Worker]]:
    senders: list[Sender] = []
    workers: list[Worker] = []

    def make() -> Worker:
        senders.append(Sender(AddressPolicy(filled.settings.delivery_allow_networks), SendSettings(timeout_s=40)))
        workers.append(Worker(filled, senders[-1]))
        return workers[-1]

    yield make
    for worker in workers:
        await worker.stop(30)
    for sender in senders:
        await sender.close()


async def test_many_lanes_take_turns_when_only_a_few_can_be_loaded(
    new_worker: Callable[[], Worker], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_lanes, "PAGE", 4)
    monkeypatch.setattr(leased_lanes, "PLACES", 5)
    worker = new_worker()
    places = worker._leased._places = 5
    await worker.start()
    end = time.monotonic() + WAIT_S
    while len(receiver.events("push")) < HOOKS * EVENTS:
        assert len(worker._leased.lanes) <= places
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    came = sorted((each.path, each.payload()["number"]) for each in receiver.events("push"))
    assert len(set(came)) == len(came) == HOOKS * EVENTS


async def test_lanes_due_at_nearly_the_same_time_start_together(new_worker: Callable[[], Worker]) -> None:
    """Never early, and only a little late."""
    leased, now = new_worker()._leased, now_ms()
    leased._poll_at = now + leased_lanes.POLL_MS
    assert leased.next_at == leased._poll_at
    begun = set()
    for at in range(now + 400, now, -1):  # each is the first one when it is added
        leased._later.add(1, at)
        assert at <= leased.next_at < at + leased_lanes.TOGETHER_MS
        begun.add(leased.next_at)
    assert len(begun) <= 400 / leased_lanes.TOGETHER_MS + 1


async def test_the_lease_is_renewed_during_a_long_read(
    filled: Services, new_worker: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise other processes would consider this one dead and send again what it has in flight."""
    reads, go_on = asyncio.Event(), asyncio.Event()
    read = queries.due_dispatches

    async def slow(*given: Any) -> Sequence[Row]:
        reads.set()
        await go_on.wait()
        return await read(*given)

    async def lease_ends() -> int:
        row = await filled.database.fetch_one(sa.select(workers.c.seen_until))
        assert row is not None
        return int(row["seen_until"])

    monkeypatch.setattr(queries, "due_dispatches", slow)
    await new_worker().start()
    await asyncio.wait_for(reads.wait(), WAIT_S)
    before, end = await lease_ends(), time.monotonic() + WAIT_S
    try:
        while await lease_ends() <= before:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
    finally:
        go_on.set()
