"""SIGKILL: everything acknowledged arrives, and only what was in flight or not yet recorded arrives twice."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import httpx
import pytest
import sqlalchemy as sa

from tests.crash.conftest import Life
from tests.delivery.site import Hook, Site, numbers
from tests.harness.depth import deep
from tests.harness.forge import Forged
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook.core.clock import now_ms
from workhook.delivery.lanes import UNRECORDED
from workhook.hooks.tables import dispatches, workers
from workhook.http.calls import Services

ROUNDS = deep(2, 8)
EVENTS = deep(400, 2000)
CLIENTS = 8
SLOTS = 8


def publish_until_it_dies(site: Site, coming: list[int], acknowledged: set[int], die_after: int) -> None:
    """Publish from several clients and kill the server after `die_after` answers."""
    lock = threading.Lock()
    goal = len(acknowledged) + die_after

    def client() -> None:
        with httpx.Client(base_url=site.server.url, headers=site.client.headers, timeout=60, verify=False) as own:
            while True:
                with lock:
                    if not coming:
                        return
                    number = coming.pop()
                body = {"event": "push", "payload": {"number": number}}
                try:
                    answer = own.post(f"{site.world.repo_path}/events", json=body)
                except httpx.TransportError:
                    return  # it is unknown whether this event was committed
                assert answer.status_code == 202, answer.text
                with lock:
                    acknowledged.add(number)
                    if len(acknowledged) == goal:
                        site.server.kill()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def recorded(hook: Hook) -> Counter[str]:
    """Return the number of deliveries by GUID."""
    return Counter(each["guid"] for each in hook.deliveries(event="push"))


async def _count_pending(services: Services) -> int:
    statement = sa.select(sa.func.count().label("number")).where(dispatches.c.next_attempt_at.is_not(None))
    row = await services.database.fetch_one(statement)
    return int(row["number"]) if row else 0


def is_idle(server: Server) -> bool:
    return bool(server.run(_count_pending) == 0)


def test_many_events_survive_several_kills(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    hooks = [life.site.hook(f"{receiver.url}?{number}", max_concurrency=SLOTS) for number in range(2)]
    for hook in hooks:
        hook.attempts("ping", 1)
    coming, acknowledged = list(range(EVENTS)), set[int]()
    for _ in range(ROUNDS):
        publish_until_it_dies(life.site, coming, acknowledged, random.randint(40, EVENTS // (ROUNDS + 1)))
        life.again()
    publish_until_it_dies(life.site, coming, acknowledged, EVENTS)
    until(lambda: is_idle(life.site.server), 60)
    arrived = Counter(each.guid for each in receiver.events("push"))
    came = Counter(numbers(receiver))
    assert acknowledged <= came.keys(), "acknowledged, and never sent"
    assert all(count >= len(hooks) for count in came.values()), "one of the hooks went without"
    assert len(acknowledged) >= EVENTS - ROUNDS * CLIENTS
    written: Counter[str] = Counter()
    for hook in hooks:
        hook.site = life.site
        written += recorded(hook)
    assert written.keys() == arrived.keys()
    assert set(written.values()) == {1}, "what is recorded as delivered was sent again"
    repeated = sum(arrived.values()) - len(arrived)
    most = ROUNDS * (1 + UNRECORDED) * SLOTS * len(hooks)
    assert repeated <= most, "more came twice than was in flight or not recorded"


def test_events_survive_a_kill_before_they_are_sent(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    hook = life.site.hook(receiver)
    life.kill()
    site = life.again(command=("serve", "--no-worker", "--port", "0"))
    for number in range(20):
        assert site.publish(number) == 1
    life.kill()
    hook.site = life.again()
    hook.attempts("push", 20)
    assert sorted(numbers(receiver)) == list(range(20))


def test_events_survive_a_kill_right_after_the_answer(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    hook = life.site.hook(receiver)
    for number in range(5):
        life.site.publish(number)
        life.kill()
        life.again()
    hook.site = life.site
    hook.attempts("push", 5)
    assert set(numbers(receiver)) == set(range(5))


def test_a_delivery_not_yet_recorded_at_a_kill_is_repeated(new_life: Callable[..., Life], receiver: Receiver) -> None:
    """The receiver itself kills the sending server before it answers."""
    life = new_life()
    deaths = [5, 2]

    def running() -> Forged | None:
        process = life.site.server.process
        return process if process is not None and process.poll() is None else None

    def kill(received: Received) -> Reply:
        if received.event == "push" and received.payload()["number"] in deaths:
            deaths.remove(received.payload()["number"])
            process = until(running)  # the server delivers before it reports that it is ready
            assert process is not None
            process.kill()
        return Reply()

    receiver.reply = kill
    hook = life.site.hook(receiver, max_concurrency=1)
    life.kill()
    site = life.again(command=("serve", "--no-worker", "--port", "0"))
    for number in range(8):
        site.publish(number)
    life.kill()
    for _ in (2, 5):
        process = life.again().server.process
        assert process is not None
        assert process.wait(WAIT_S) == -signal.SIGKILL
    hook.site = life.again()
    hook.attempts("push", 8)
    lives: list[list[int]] = [[]]
    for number in numbers(receiver):
        if lives[-1] and number != lives[-1][-1] + 1:
            lives.append([])
        lives[-1].append(number)
    assert [each[-1] for each in lives] == [2, 5, 7]
    assert lives[0][0] == 0
    for before, after in pairwise(lives):  # in order again, starting with the unrecorded ones
        assert before[-1] - UNRECORDED <= after[0] <= before[-1]
    assert set(recorded(hook).values()) == {1}


def test_a_delivery_recorded_before_a_kill_is_not_repeated(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    hook = life.site.hook(receiver)
    for number in range(10):
        life.site.publish(number)
    hook.attempts("push", 10)
    life.kill()
    hook.site = life.again()
    hook.site.publish(10)
    hook.attempts("push", 11)
    until(lambda: is_idle(life.site.server))
    assert sorted(numbers(receiver)) == list(range(11))


@pytest.mark.whole
def test_a_retry_survives_a_kill(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life(delivery_retry_first_s=1.5)
    status = 500
    receiver.reply = lambda received: Reply(status) if received.event == "push" else Reply()
    hook = life.site.hook(receiver)
    life.site.publish(1)
    hook.attempts("push", 1)
    life.kill()
    hook.site = life.again()
    hook.attempts("push", 2)
    life.kill()
    status = 200
    hook.site = life.again()
    attempts = until(lambda: found if (found := hook.attempts("push", 3))[-1]["status_code"] == 200 else [])
    # If it was killed late, there was one more attempt.
    assert [each["status_code"] for each in attempts] == [500] * (len(attempts) - 1) + [200]
    assert [each["redelivery"] for each in attempts] == [False] + [True] * (len(attempts) - 1)
    assert len({each["guid"] for each in attempts}) == 1


def test_a_requested_redelivery_survives_a_kill(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    hook = life.site.hook(receiver)
    life.site.publish(1)
    (first,) = hook.attempts("push", 1)
    life.kill()
    hook.site = life.again(command=("serve", "--no-worker", "--port", "0"))
    assert hook.redeliver(first).status_code == 202
    life.kill()
    hook.site = life.again()
    assert len(hook.attempts("push", 2)) == 2
    assert numbers(receiver) == [1, 1]


def test_a_created_hook_and_its_ping_survive_a_kill(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    site = life.site
    body = {"config": {"url": receiver.url, "content_type": "json"}}
    created = site.ok("POST", f"{site.world.repo_path}/hooks", json=body)
    life.kill()
    site = life.again()
    assert site.ok("GET", f"{site.world.repo_path}/hooks/{created['id']}")["id"] == created["id"]
    receiver.wait_for(lambda requests: any(each.event == "ping" for each in requests))


@pytest.mark.parametrize("lease_s", [1])
def test_a_process_stalled_beyond_its_lease_continues(
    new_life: Callable[..., Life], receiver: Receiver, lease_s: int
) -> None:
    life = new_life(delivery_lease_s=lease_s)
    going_on = threading.Event()

    def hold(received: Received) -> Reply:
        if received.event == "push":
            going_on.wait(60)
        return Reply()

    receiver.reply = hold
    hook = life.site.hook(receiver, max_concurrency=2)
    for number in range(10):
        life.site.publish(number)
    until(lambda: len(receiver.events("push")) == 2)
    process = life.site.server.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)

    async def over(services: Services) -> bool:
        row = await services.database.fetch_one(sa.select(workers.c.seen_until))
        return row is not None and row["seen_until"] < now_ms()

    until(lambda: life.site.server.run(over))
    going_on.set()
    process.send_signal(signal.SIGCONT)
    hook.attempts("push", 10)
    until(lambda: is_idle(life.site.server))
    assert sorted(numbers(receiver)) == list(range(10))  # no other process had the lane in the meantime
