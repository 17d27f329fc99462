"""SIGTERM: attempts in flight end, everything else waits for the next start, and the exit status is 0."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from tests.crash.conftest import Life
from tests.delivery.site import numbers
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook.hooks.tables import workers
from workhook.http.calls import Services


class Valve:
    """A reply that withholds answers to pushes until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, received: Received) -> Reply:
        if received.event == "push":
            self.open.wait(300)
        return Reply()


@pytest.fixture
def valve(receiver: Receiver) -> Iterator[Valve]:
    valve = Valve()
    receiver.reply = valve
    yield valve
    valve.open.set()


async def _count_workers(services: Services) -> int:
    return len(await services.database.fetch_all(sa.select(workers.c.owner)))


def test_attempts_in_flight_end_and_the_rest_waits(
    new_life: Callable[..., Life], receiver: Receiver, valve: Valve
) -> None:
    life = new_life()
    hook = life.site.hook(receiver, max_concurrency=3)
    for number in range(9):
        life.site.publish(number)
    until(lambda: len(receiver.events("push")) == 3)
    server = life.site.server
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    until(server.refuses)
    valve.open.set()
    assert server.process.wait(WAIT_S) == 0
    assert len(receiver.events("push")) == 3  # nothing new was started
    assert server.run(_count_workers) == 0
    hook.site = life.again()
    hook.attempts("push", 9)
    assert sorted(numbers(receiver)) == list(range(9))  # the ended attempts were recorded, so nothing arrived twice


def test_stopping_waits_no_longer_than_the_drain_time(
    new_life: Callable[..., Life], receiver: Receiver, valve: Valve
) -> None:
    life = new_life(drain_s=1, delivery_timeout_s=300)
    hook = life.site.hook(receiver, max_concurrency=2)
    for number in range(4):
        life.site.publish(number)
    until(lambda: len(receiver.events("push")) == 2)
    assert life.site.server.stop() == 0  # the server does not wait for the hanging attempts
    assert life.site.server.run(_count_workers) == 0
    valve.open.set()
    hook.site = life.again()
    assert len(hook.attempts("push", 4)) == 4
    assert len(receiver.events("push")) == 6  # the two aborted attempts were repeated


def test_an_idle_server_stops_immediately(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life(drain_s=600)
    life.site.hook(receiver)
    assert life.site.server.stop() == 0  # an idle server does not use up the time it has
    assert life.site.server.run(_count_workers) == 0
    assert "Traceback" not in life.site.server.log()


def test_a_worker_stops_like_a_server(
    new_life: Callable[..., Life], new_server: Callable[..., Server], receiver: Receiver, valve: Valve
) -> None:
    life = new_life(command=("serve", "--no-worker", "--port", "0"))
    worker = new_server(command=("worker",))
    hook = life.site.hook(receiver, max_concurrency=1)
    for number in range(3):
        life.site.publish(number)
    until(lambda: len(receiver.events("push")) == 1)
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    valve.open.set()
    assert worker.process.wait(WAIT_S) == 0
    assert "Traceback" not in worker.log()
    assert worker.run(_count_workers) == 0
    new_server(command=("worker",))
    hook.attempts("push", 3)
    assert numbers(receiver) == [0, 1, 2]
