"""What a hook's own limits promise: order, concurrency, rate; and that one receiver's trouble stays its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests.delivery.site import Site, numbers
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until


class Gate:
    """A reply that holds every request of an event until it is opened, and counts how many are held at once."""

    def __init__(self, event: str = "push") -> None:
        self.event = event
        self.held = self.most = 0
        self.opened = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, received: Received) -> Reply:
        if received.event != self.event:
            return Reply()
        with self._lock:
            self.held += 1
            self.most = max(self.most, self.held)
        self.opened.wait(60)
        with self._lock:
            self.held -= 1
        return Reply()


@pytest.fixture
def gate(receiver: Receiver) -> Iterator[Gate]:
    """The receiver holds what is pushed to it."""
    gate = Gate()
    receiver.reply = gate
    yield gate
    gate.opened.set()


def test_with_one_slot_they_come_in_the_order_of_their_commits(site: Site, receiver: Receiver) -> None:
    site.hook(receiver, max_concurrency=1)
    for number in range(120):
        assert site.publish(number) == 1
    receiver.wait_for(121)
    assert numbers(receiver) == list(range(120))


def test_a_backlog_that_is_read_in_pieces_keeps_its_order(site: Site, receiver: Receiver, gate: Gate) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(200):
        site.publish(number)
    gate.opened.set()
    receiver.wait_for(201)
    assert numbers(receiver) == list(range(200))
    assert len(hook.attempts("push", 200)) == 200


@pytest.mark.parametrize("slots", [1, 3, 20])
def test_as_many_as_allowed_are_in_flight_and_never_one_more(
    site: Site, receiver: Receiver, other: Receiver, gate: Gate, slots: int
) -> None:
    site.hook(receiver, max_concurrency=slots)
    site.hook(other)
    site.publish_many(range(2 * slots + 10))
    until(lambda: gate.held == slots)
    other.wait_for(1 + 2 * slots + 10)  # whatever could be sent was sent meanwhile
    assert gate.most == slots
    gate.opened.set()
    receiver.wait_for(1 + 2 * slots + 10)
    assert gate.most <= slots


def test_eight_are_in_flight_unless_the_hook_says_otherwise(site: Site, receiver: Receiver, gate: Gate) -> None:
    site.hook(receiver)
    site.publish_many(range(20))
    until(lambda: gate.held == 8)
    gate.opened.set()
    receiver.wait_for(21)
    assert gate.most == 8


def test_a_rate_limit_holds_by_the_receivers_clock(new_server: Callable[..., Server], receiver: Receiver) -> None:
    """Everything waits when the delivering begins, however long it took to publish."""
    rate, total = 20, 80
    site = Site(new_server(command=("serve", "--no-worker", "--port", "0")))
    arrivals: list[float] = []

    def note(received: Received) -> Reply:
        if received.event == "push":
            arrivals.append(time.monotonic())
        return Reply()

    receiver.reply = note
    hook = site.hook(receiver.url, rate_limit=rate)
    site.publish_many(range(total))
    began = time.monotonic()
    new_server(command=("worker",))
    receiver.wait_for(total + 1)
    for number, each in enumerate(sorted(arrivals), 1):  # late arrivals may come together, none may come early
        assert each >= began + (number - rate / 4) / rate, f"{number} within {each - began} s"
    held_back = [each for each in hook.attempts("push", total) if each["throttled_at"]]
    assert len(held_back) >= total / 2
    site.close()


def test_only_what_its_own_hook_held_back_is_marked_as_throttled(
    site: Site, receiver: Receiver, other: Receiver, gate: Gate
) -> None:
    hook, free = site.hook(receiver, max_concurrency=2), site.hook(other)
    site.publish(0)
    site.publish(1)
    until(lambda: gate.held == 2)
    for number in range(2, 6):
        site.publish(number)
    other.wait_for(7)
    gate.opened.set()
    marked = {}
    for each in hook.attempts("push", 6):
        marked[hook.detail(each)["request"]["payload"]["number"]] = each["throttled_at"]
        assert each["throttled_at"] is None or each["throttled_at"] <= each["delivered_at"]
    assert [number for number in range(6) if marked[number]] == [2, 3, 4, 5]
    assert not [each for each in free.attempts("push", 6) if each["throttled_at"]]


def test_a_hung_receiver_takes_only_its_own_slots(site: Site, receiver: Receiver, other: Receiver, gate: Gate) -> None:
    site.hook(receiver)
    site.hook(other)
    site.publish_many(range(100))
    other.wait_for(101)
    until(lambda: gate.held == 8)
    assert gate.most == 8


def test_many_hung_receivers_leave_room_for_the_others(
    new_server: Callable[..., Server], receiver: Receiver, other: Receiver
) -> None:
    """There are more of them than the process has slots."""
    site = Site(new_server(concurrency=16, delivery_timeout_s=1, delivery_retry_first_s=0.05, delivery_retries=3))
    hanging = threading.Event()

    def hang(received: Received) -> Reply:
        hanging.wait(60)
        return Reply()

    receiver.reply = hang
    hung = [site.hook(f"{receiver.url}?{number}", retries=0) for number in range(24)]
    site.hook(other)
    for each in hung:
        assert each.attempts("ping", 1)[0]["status"] == "timed out"
    site.publish_many(range(50))
    until(lambda: set(numbers(other)) == set(range(50)))  # a second may be short for the sender itself: it may repeat
    assert len(receiver.events("push")) < 24 * 50 / 2, "it took turns with those that hang"
    hanging.set()
    site.close()


def test_deliveries_of_a_slow_answer_are_recorded_in_full(site: Site, receiver: Receiver, gate: Gate) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    site.publish(1)
    until(lambda: gate.held == 1)
    assert hook.deliveries(event="push") == []  # only finished attempts are listed
    gate.opened.set()
    (done,) = hook.attempts("push", 1)
    assert (done["status"], done["status_code"], done["redelivery"]) == ("OK", 200, False)
    assert done["guid"] == receiver.events("push")[0].guid


def test_events_of_one_moment_keep_their_order_of_acknowledgement(site: Site, receiver: Receiver) -> None:
    """Several places at once do not disturb the order in each."""
    sites = [site, *(site.another() for _ in range(3))]
    hooks = [(each, Receiver()) for each in sites]
    try:
        for each, own in hooks:
            each.hook(own, max_concurrency=1)
        threads = [
            threading.Thread(target=lambda each=each: [each.publish(number) for number in range(40)])
            for each, _ in hooks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _, own in hooks:
            own.wait_for(41)
            assert all(before < after for before, after in pairwise(numbers(own)))
    finally:
        for _, own in hooks:
            own.close()
