"""Several worker processes on one database: nothing is sent twice, limits apply, lanes are shared and taken over."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tests.delivery.site import Site, numbers
from tests.harness.databases import Databases
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook.delivery.lanes import UNRECORDED
from workhook.hooks.tables import workers
from workhook.http.calls import Services

# A process that is slow on a busy machine must not lose its lanes, except in the tests of exactly that.
LEASE_S = 120
SHORT_LEASE_S = 3


@pytest.fixture
def group(backend: Databases, new_server: Callable[..., Server]) -> Iterator[Callable[..., Site]]:
    """Return a function that creates a site on a server which may share its deliveries with other processes."""
    sites: list[Site] = []

    def make(**settings: Any) -> Site:
        sites.append(Site(new_server(**{"delivery_lease_s": LEASE_S, **settings})))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def new_worker(new_server: Callable[..., Server]) -> Callable[..., Server]:
    return lambda **settings: new_server(command=("worker",), **{"delivery_lease_s": LEASE_S, **settings})


def delivered_by(server: Server) -> int:
    """Return the number of successful attempts that a process has recorded."""
    with server.client(None) as client:
        found = re.search(r'^workhook_deliveries_total\{outcome="success"\} (\d+)', client.get("/metrics").text, re.M)
    return int(found[1]) if found else 0


async def expire_lease(services: Services, pid: int) -> None:
    """Expire the lease of a dead process.

    If leases were short enough to wait for, live processes would lose theirs too.
    """
    async with services.database.transaction() as tx:
        await tx.execute(sa.update(workers).where(workers.c.owner.like(f"%/{pid}/%")).values(seen_until=0))


async def count_workers(services: Services) -> int:
    return len(await services.database.fetch_all(sa.select(workers.c.owner)))


def test_two_workers_deliver_everything_once(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    site = group()
    new_worker()
    hooks = [site.hook(f"{receiver.url}?{number}", max_concurrency=4) for number in range(6)]
    site.publish_many(range(200))
    receiver.wait_for(6 * 201)
    for hook in hooks:
        hook.attempts("push", 200)
    assert Counter(Counter(numbers(receiver)).values()) == {6: 200}
    assert len({each.guid for each in receiver.requests}) == 6 * 201


def test_concurrency_limits_apply_across_processes(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    site = group()
    second = site.at(new_worker())
    flying, most = 0, 0
    lock, full = threading.Lock(), threading.Event()

    def count(received: Received) -> Reply:
        nonlocal flying, most
        if received.event == "push":
            with lock:
                flying += 1
                most = max(most, flying)
                if flying == 3:
                    full.set()
            full.wait(20)
            with lock:
                flying -= 1
        return Reply()

    receiver.reply = count
    hook = site.hook(receiver, max_concurrency=3)
    site.publish_many(range(150))
    hook.attempts("push", 150)
    assert most == 3
    assert second.server.stop() == 0


def test_rate_limits_apply_across_processes(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    site = group()
    new_worker()
    arrivals: list[float] = []

    def note(received: Received) -> Reply:
        if received.event == "push":
            arrivals.append(time.monotonic())
        return Reply()

    receiver.reply = note
    site.hook(receiver, rate_limit=20)
    began = time.monotonic()
    site.publish_many(range(50))
    receiver.wait_for(51)
    for number, each in enumerate(sorted(arrivals), 1):  # late arrivals may bunch up, but none may be early
        assert each >= began + (number - 5) / 20


@pytest.mark.whole
def test_new_workers_get_their_share_and_give_it_up_again(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    """Under load, each dispatch is sent once and each lane stays in order, whichever process joins or leaves."""
    site = group()
    # Enough hooks that each of three processes gets some. Their random names decide which.
    hooks = [site.hook(f"{receiver.url}?{number}", max_concurrency=1) for number in range(30)]
    for hook in hooks:
        hook.attempts("ping", 1)
    published = 0

    def more() -> None:
        nonlocal published
        site.publish(published)
        published += 1

    def delivers(server: Server) -> bool:
        more()
        return delivered_by(server) > 0

    until(lambda: delivers(site.server))
    newcomers = [new_worker(worker_listen="127.0.0.1:0") for _ in range(2)]
    for each in newcomers:
        until(partial(delivers, each))
    had = delivered_by(site.server)
    assert newcomers[0].stop() == 0
    more()
    newcomers[1].kill()
    process = newcomers[1].process
    assert process is not None
    site.server.run(lambda services: expire_lease(services, process.pid))
    for _ in range(5):
        more()
    for hook in hooks:
        assert len(hook.attempts("push", published)) == published
    assert delivered_by(site.server) > had
    by_lane: dict[str, list[int]] = {}
    for arrived in receiver.events("push"):
        by_lane.setdefault(arrived.path, []).append(arrived.payload()["number"])
    assert len(by_lane) == len(hooks)
    repeated = 0
    for came in by_lane.values():
        assert list(dict.fromkeys(came)) == list(range(published))
        repeated += len(came) - published
    assert repeated <= (1 + UNRECORDED) * len(hooks)  # in flight at the killed process, or not yet recorded by it


def test_a_new_hook_is_served_while_other_receivers_hang(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    going_on = threading.Event()
    patient = {"delivery_timeout_s": 300}  # hanging receivers hang until the end of the test
    site = group(**patient)
    new_worker(**patient)

    def hold(received: Received) -> Reply:
        if "hang" in received.path:
            going_on.wait(300)
        return Reply()

    receiver.reply = hold
    receiver_url = receiver.url
    for number in range(5):
        site.hook(f"{receiver_url}?hang{number}")
    until(lambda: len(receiver.requests) == 5)
    try:
        for number in range(8):
            site.hook(f"{receiver_url}?{number}").attempts("ping", 1)
        assert len(receiver.requests) == 5 + 8  # while the others still hang
    finally:
        going_on.set()


def first_attempts(recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in recorded if not each["redelivery"]]


@pytest.mark.variants("how")
@pytest.mark.parametrize("how", ["killed", "stopped", "stalled"])
def test_another_worker_takes_over(
    group: Callable[..., Site],
    new_worker: Callable[..., Server],
    new_server: Callable[..., Server],
    receiver: Receiver,
    how: str,
) -> None:
    """A process owns the lane and waits for an answer; then it is gone or stalls for longer than its lease."""
    site = group(drain_s=0, delivery_lease_s=SHORT_LEASE_S)
    going_on = threading.Event()
    seen: list[int] = []

    def hold_the_first(received: Received) -> Reply:
        if received.event == "push":
            number = received.payload()["number"]
            seen.append(number)
            if number == 5 and seen.count(5) == 1:
                going_on.wait(60)
        return Reply()

    receiver.reply = hold_the_first
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(10):
        site.publish(number)
    until(lambda: 5 in seen)
    hook.attempts("push", 5)
    # A process that has just joined waits for a lease period before it removes others.
    survivor = new_worker(delivery_lease_s=SHORT_LEASE_S)
    process = site.server.process
    assert process is not None
    if how == "killed":
        site.server.kill()
    elif how == "stopped":
        assert site.server.stop() == 0
    else:
        process.send_signal(signal.SIGSTOP)
    try:
        receiver.wait_for(12)
        assert seen == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]  # only the attempt in flight arrives twice
    finally:
        going_on.set()
        if how == "stalled":
            process.send_signal(signal.SIGCONT)
    view = site.at(new_server(command=("serve", "--no-worker", "--port", "0")) if how != "stalled" else site.server)
    view.publish(10)
    until(lambda: seen[-1] == 10)
    hook.site = view
    recorded = until(lambda: found if len(first_attempts(found := hook.deliveries(event="push"))) == 11 else [])
    # A delivery that was sent twice may be recorded twice, once as a redelivery.
    assert len(recorded) <= (12 if how == "stalled" else 11)
    assert seen.count(10) == 1
    assert survivor.stop() == 0


def test_attempts_of_a_stalled_process_are_recorded_as_redeliveries(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    """The other process has sent the same dispatches as first attempts, so these are recorded as redeliveries."""
    hooks_number, slots, events = 4, 3, 12
    site = group(delivery_lease_s=SHORT_LEASE_S)
    answer_now = threading.Event()

    def hold(received: Received) -> Reply:
        if received.event == "push":
            answer_now.wait(60)
        return Reply()

    receiver.reply = hold
    hooks = [site.hook(f"{receiver.url}?{number}", max_concurrency=slots) for number in range(hooks_number)]
    for number in range(events):
        site.publish(number)
    until(lambda: len(receiver.events("push")) == hooks_number * slots)
    in_flight = {each.guid for each in receiver.events("push")}
    process = site.server.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        survivor = new_worker(delivery_lease_s=SHORT_LEASE_S)
        until(lambda: len(receiver.events("push")) == 2 * hooks_number * slots)
        answer_now.set()
        receiver.wait_for(lambda requests: len({each.guid for each in requests if each.event == "push"}) == 4 * events)
    finally:
        answer_now.set()
        process.send_signal(signal.SIGCONT)
    for hook in hooks:
        recorded = hook.attempts("push", events + slots)
        first = [each["guid"] for each in recorded if not each["redelivery"]]
        assert len(first) == len(set(first)) == events
        assert {each["guid"] for each in recorded if each["redelivery"]} <= in_flight
    arrived = Counter(each.guid for each in receiver.events("push"))
    assert {guid for guid, count in arrived.items() if count > 1} == in_flight
    assert max(arrived.values()) == 2
    assert survivor.stop() == 0


def test_deliveries_continue_when_one_worker_dies_under_load(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    site = group()
    dying = new_worker()
    hooks = [site.hook(f"{receiver.url}?{number}", max_concurrency=4) for number in range(6)]
    publisher = threading.Thread(target=site.publish_many, args=(range(300),))
    publisher.start()
    receiver.wait_for(400)
    dying.kill()
    process = dying.process
    assert process is not None
    site.server.run(lambda services: expire_lease(services, process.pid))
    publisher.join()
    for hook in hooks:
        assert len(hook.attempts("push", 300)) == 300
    arrived = Counter(each.guid for each in receiver.events("push"))
    assert len(arrived) == 6 * 300
    # In flight at the killed process, or not yet recorded by it.
    assert sum(arrived.values()) - len(arrived) <= (1 + UNRECORDED) * 6 * 4


@pytest.mark.variants("dies")
@pytest.mark.parametrize("dies", [False, True])
def test_others_serve_the_lanes_of_a_worker_that_is_draining(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver, *, dies: bool
) -> None:
    patient = {"delivery_timeout_s": 300, "drain_s": 300}
    site = group(**patient)
    other = new_worker(**patient)
    process = other.process
    assert process is not None
    until(lambda: site.server.run(count_workers) == 2)
    go_on = threading.Event()

    def hold(received: Received) -> Reply:
        if received.event == "push" and received.payload()["number"] == 0:
            go_on.wait(300)
        return Reply()

    receiver.reply = hold
    hooks = [site.hook(f"{receiver.url}?{number}", events=["push"], max_concurrency=1) for number in range(8)]
    site.publish(0)
    until(lambda: len(numbers(receiver)) == len(hooks))
    process.send_signal(signal.SIGTERM)
    idle = [site.hook(f"{receiver.url}?idle{number}", events=["fork"]) for number in range(8)]
    site.publish(1, event="fork")
    try:
        for hook in idle:
            hook.attempts("fork", 1)
        site.publish(2)  # behind the hanging delivery
        assert Counter(numbers(receiver))[0] == len(hooks)
        if dies:
            other.kill()
            site.server.run(lambda services: expire_lease(services, process.pid))
    finally:
        go_on.set()
    for hook in hooks:
        first = [each["guid"] for each in first_attempts(hook.attempts("push", 2))]
        assert len(first) == len(set(first)) == 2
    came = Counter((each.path, each.payload()["number"]) for each in receiver.events("push"))
    assert len(came) == 2 * len(hooks)
    process.wait(WAIT_S)
    assert all(count == 1 or (dies and count == 2 and number == 0) for (_, number), count in came.items())
