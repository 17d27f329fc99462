"""Several processes that deliver from one database: nothing twice, limits hold, lanes are shared and taken over."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from tests.delivery.site import Site, numbers
from tests.harness.databases import Databases
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.hooks.tables import lanes, workers
from workhook.http.calls import Services

# A process that a busy machine lets wait must not lose its lanes, except in the tests that are about that.
LEASE_S = 120
SHORT_LEASE_S = 3


@pytest.fixture
def group(backend: Databases, new_server: Callable[..., Server]) -> Iterator[Callable[..., Site]]:
    """Makes a site on a server beside which others can deliver."""
    sites: list[Site] = []

    def make(**settings: object) -> Site:
        sites.append(Site(new_server(**{"delivery_lease_s": LEASE_S, **settings})))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def new_worker(new_server: Callable[..., Server]) -> Callable[..., Server]:
    return lambda **settings: new_server(command=("worker",), **{"delivery_lease_s": LEASE_S, **settings})


def owners(server: Server) -> Counter[str]:
    """How many lanes each process has."""

    async def read(services: Services) -> Counter[str]:
        rows = await services.database.fetch_all(sa.select(lanes.c.owner).where(lanes.c.owner.is_not(None)))
        return Counter(row["owner"] for row in rows)

    found: Counter[str] = server.run(read)
    return found


async def run_out(services: Services, pid: int) -> None:
    """The leases of a dead process. Leases so short that a test could wait for them, the living lose as well."""
    async with services.database.transaction() as tx:
        for table, column in ((lanes, lanes.c.lease_until), (workers, workers.c.seen_until)):
            await tx.execute(sa.update(table).where(table.c.owner.like(f"%/{pid}/%")).values({column.name: 0}))


def test_everything_arrives_once(
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


def test_limits_hold_across_processes(
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


def test_a_rate_holds_across_processes(
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
    for number, each in enumerate(sorted(arrivals), 1):  # late arrivals may come together, none may come early
        assert each >= began + (number - 5) / 20


def test_lanes_are_shared_about_evenly_and_a_newcomer_gets_its_share(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    """While receivers hang, every lane has work, so that nobody's is idle. A lane is given away between two sends."""
    going_on = threading.Event()
    settings = {"delivery_timeout_s": 3, "delivery_retries": 0}
    site = group(**settings)

    def hold(received: Received) -> Reply:
        if received.event == "push":
            going_on.wait(60)
        return Reply()

    receiver.reply = hold
    hooks = [site.hook(f"{receiver.url}?{number}", max_concurrency=1) for number in range(10)]
    for number in range(10):
        site.publish(number)
    until(lambda: len(receiver.events("push")) >= 10)
    until(lambda: list(owners(site.server).values()) == [10])
    new_worker(**settings)
    try:
        until(lambda: sorted(owners(site.server).values()) in ([4, 6], [5, 5]))
    finally:
        going_on.set()
    for hook in hooks:
        assert len(hook.attempts("push", 10)) == 10
    arrived = [(each.path, each.guid) for each in receiver.events("push")]
    assert len(set(arrived)) == len(arrived)  # one that timed out before it was sent does not come


def test_a_hook_that_nobody_has_is_served_though_all_are_busy(
    group: Callable[..., Site], new_worker: Callable[..., Server], receiver: Receiver
) -> None:
    going_on = threading.Event()
    patient = {"delivery_timeout_s": 300}  # those that hang do so to the end of the test
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


@pytest.mark.parametrize("how", ["killed", "stopped", "stalled"])
def test_another_takes_over(
    group: Callable[..., Site],
    new_worker: Callable[..., Server],
    new_server: Callable[..., Server],
    receiver: Receiver,
    how: str,
) -> None:
    """One has the lane and holds a delivery; then it is gone, or does not run for longer than its lease."""
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
    survivor = new_worker()
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
        assert seen == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]  # only what was in flight comes twice
    finally:
        going_on.set()
        if how == "stalled":
            process.send_signal(signal.SIGCONT)
    view = site.at(new_server(command=("serve", "--no-worker", "--port", "0")) if how != "stalled" else site.server)
    view.publish(10)
    until(lambda: seen[-1] == 10)
    hook.site = view
    recorded = hook.attempts("push", 11)
    assert 11 <= len(recorded) <= (12 if how == "stalled" else 11)  # what was sent twice may be recorded twice
    assert seen.count(10) == 1
    assert survivor.stop() == 0


def test_one_of_two_dies_under_load(
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
    site.server.run(lambda services: run_out(services, process.pid))
    publisher.join()
    for hook in hooks:
        assert len(hook.attempts("push", 300)) == 300
    arrived = Counter(each.guid for each in receiver.events("push"))
    assert len(arrived) == 6 * 300
    assert sum(arrived.values()) - len(arrived) <= 6 * 4  # what it had in flight
