"""A hook's own limits (order, concurrency, rate), and the isolation of receivers from each other."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from tests.delivery.site import Site, numbers
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import MANUAL_MOST, Server
from tests.harness.waiting import WAIT_S, until
from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.vault import Vault
from workhook.hooks.tables import hooks
from workhook.http.calls import Services


class Gate:
    """A reply that withholds the answer to an event until it is opened, and counts the requests withheld at a time."""

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
    """Make the receiver withhold its answers to pushes."""
    gate = Gate()
    receiver.reply = gate
    yield gate
    gate.opened.set()


def test_with_one_slot_events_arrive_in_commit_order(site: Site, receiver: Receiver) -> None:
    site.hook(receiver, max_concurrency=1)
    for number in range(120):
        assert site.publish(number) == 1
    receiver.wait_for(121)
    assert numbers(receiver) == list(range(120))


def test_a_backlog_read_in_batches_keeps_its_order(site: Site, receiver: Receiver, gate: Gate) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(200):
        site.publish(number)
    gate.opened.set()
    receiver.wait_for(201)
    assert numbers(receiver) == list(range(200))
    assert len(hook.attempts("push", 200)) == 200


@pytest.mark.parametrize("slots", [1, 3, 20])
def test_all_slots_are_used_and_never_exceeded(
    site: Site, receiver: Receiver, other: Receiver, gate: Gate, slots: int
) -> None:
    site.hook(receiver, max_concurrency=slots)
    site.hook(other)
    site.publish_many(range(2 * slots + 10))
    until(lambda: gate.held == slots)
    other.wait_for(1 + 2 * slots + 10)  # by now everything that may be sent has been sent
    assert gate.most == slots
    gate.opened.set()
    receiver.wait_for(1 + 2 * slots + 10)
    assert gate.most <= slots


def test_a_hook_has_eight_slots_by_default(site: Site, receiver: Receiver, gate: Gate) -> None:
    site.hook(receiver)
    site.publish_many(range(20))
    until(lambda: gate.held == 8)
    gate.opened.set()
    receiver.wait_for(21)
    assert gate.most == 8


def test_a_rate_limit_applies_as_the_receiver_measures_it(
    new_server: Callable[..., Server], receiver: Receiver
) -> None:
    """All events are waiting when delivery starts, however long publishing takes."""
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
    for number, each in enumerate(sorted(arrivals), 1):  # late arrivals may bunch up, but none may be early
        assert each >= began + (number - rate / 4) / rate, f"{number} within {each - began} s"
    held_back = [each for each in hook.attempts("push", total) if each["throttled_at"]]
    assert len(held_back) >= total / 2
    site.close()


def test_only_deliveries_held_back_by_their_own_hook_are_marked_as_throttled(
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


def test_a_hanging_receiver_uses_only_its_own_slots(
    site: Site, receiver: Receiver, other: Receiver, gate: Gate
) -> None:
    site.hook(receiver)
    site.hook(other)
    site.publish_many(range(100))
    other.wait_for(101)
    until(lambda: gate.held == 8)
    assert gate.most == 8


def test_many_hanging_receivers_leave_room_for_others(
    new_server: Callable[..., Server], receiver: Receiver, other: Receiver
) -> None:
    """There are more hanging receivers than the process has slots."""
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
    until(lambda: set(numbers(other)) == set(range(50)))  # one second is short: events may be repeated
    assert len(receiver.events("push")) < 24 * 50 / 2, "it took turns with those that hang"
    hanging.set()
    site.close()


def test_a_slow_delivery_is_recorded_when_it_ends(site: Site, receiver: Receiver, gate: Gate) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    site.publish(1)
    until(lambda: gate.held == 1)
    assert hook.deliveries(event="push") == []  # only finished attempts are listed
    gate.opened.set()
    (done,) = hook.attempts("push", 1)
    assert (done["status"], done["status_code"], done["redelivery"]) == ("OK", 200, False)
    assert done["guid"] == receiver.events("push")[0].guid


def test_concurrent_events_keep_their_order_of_acknowledgment(site: Site, receiver: Receiver) -> None:
    """Concurrent events for several organizations do not disturb the order within each."""
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


# --- Changes to a hook -----------------------------------------------------------------------------------------------
# Updating, deactivating and deleting a hook with pending work, also from another process.


class Valve:
    """A reply that withholds answers to pushes until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, received: Received) -> Reply:
        if received.event == "push":
            self.open.wait(60)
        return Reply()


@pytest.fixture
def valve(receiver: Receiver) -> Iterator[Valve]:
    valve = Valve()
    receiver.reply = valve
    yield valve
    valve.open.set()


def signed_with(received: Received, secret: str) -> bool:
    digest = hmac.new(secret.encode(), received.body, hashlib.sha256).hexdigest()
    return received.headers.get("x-hub-signature-256") == f"sha256={digest}"


def test_deactivating_a_hook_drops_pending_deliveries(site: Site, receiver: Receiver, valve: Valve) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(5):
        site.publish(number)
    until(lambda: numbers(receiver) == [0])
    hook.patch(active=False)
    valve.open.set()
    hook.attempts("push", 1)
    assert site.publish(5) == 0
    hook.patch(active=True)
    assert site.publish(6) == 1
    hook.attempts("push", 2)
    assert numbers(receiver) == [0, 6]
    assert [each.event for each in receiver.requests] == ["ping", "push", "push"]  # no ping for the activation


def test_an_attempt_in_flight_at_deactivation_is_not_retried(site: Site, receiver: Receiver) -> None:
    answer = threading.Event()

    def fail(received: Received) -> Reply:
        if received.event == "push":
            answer.wait(60)
            return Reply(500)
        return Reply()

    receiver.reply = fail
    hook = site.hook(receiver)
    site.publish(1)
    until(lambda: numbers(receiver) == [1])
    hook.patch(active=False)
    answer.set()
    hook.attempts("push", 1)
    site.ok("POST", f"{hook.path}/pings")  # manually requested deliveries are sent even if the hook is inactive
    hook.attempts("ping", 2)
    assert numbers(receiver) == [1]


def test_an_inactive_hook_gets_manually_requested_deliveries(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver)
    site.publish(1)
    (first,) = hook.attempts("push", 1)
    hook.patch(active=False)
    assert hook.redeliver(first).status_code == 202
    site.ok("POST", f"{hook.path}/tests")
    assert len(hook.attempts("push", 3)) == 3
    assert numbers(receiver) == [1, 1, 1]


def test_deleting_a_hook_with_an_attempt_in_flight_ends_its_deliveries(
    site: Site, receiver: Receiver, other: Receiver, valve: Valve
) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(3):
        site.publish(number)
    until(lambda: numbers(receiver) == [0])
    hook.delete()
    valve.open.set()
    assert site.client.get(f"{hook.path}/deliveries").status_code == 404
    following = site.hook(other)
    site.publish(9)
    following.attempts("push", 1)
    assert numbers(receiver) == [0]


def test_a_new_url_applies_to_pending_deliveries(site: Site, receiver: Receiver, other: Receiver, valve: Valve) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(4):
        site.publish(number)
    until(lambda: numbers(receiver) == [0])
    hook.configure(url=other.url)
    valve.open.set()
    other.wait_for(3)
    assert numbers(receiver) == [0]
    assert numbers(other) == [1, 2, 3]
    urls = [hook.detail(each)["url"] for each in hook.attempts("push", 4)]
    assert urls == [receiver.url] + [other.url] * 3  # each record shows the URL that it was sent to


def test_a_new_secret_applies_immediately(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver, secret="first")
    for number, secret in enumerate(["first", "second", "third"]):
        hook.configure(secret=secret)
        site.publish(number)
        receiver.wait_for(number + 2)
        assert signed_with(receiver.events("push")[number], secret)
    hook.patch(config={"url": receiver.url, "content_type": "json"})
    site.publish(3)
    receiver.wait_for(5)
    assert "x-hub-signature-256" not in receiver.events("push")[3].headers


def test_a_previous_secret_signs_until_it_expires(site: Site, receiver: Receiver) -> None:
    first, second, third = (f"whsec_{name}" for name in ("Zmlyc3Rs", "c2Vjb25k", "dGhpcmRz"))
    hook = site.hook(receiver, secret=first, header_style="standard")
    hook.configure(secret=second, previous_secret_expires_in=3600)
    site.publish(0)
    receiver.wait_for(2)
    assert len(receiver.events("push")[0].headers["webhook-signature"].split()) == 2
    hook.configure(secret=third, previous_secret_expires_in=1)

    def publish_again() -> bool:
        site.publish(1)
        hook.attempts("push", len(receiver.events("push")))
        return len(receiver.events("push")[-1].headers["webhook-signature"].split()) == 1

    until(publish_again)
    site.publish(2)
    until(lambda: 2 in numbers(receiver))


def test_added_slots_are_used_immediately(site: Site, receiver: Receiver, valve: Valve) -> None:
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(6):
        site.publish(number)
    until(lambda: len(receiver.events("push")) == 1)
    hook.configure(max_concurrency=3)
    until(lambda: len(receiver.events("push")) == 3)
    valve.open.set()
    receiver.wait_for(7)


@pytest.fixture
def pair(new_server: Callable[..., Server]) -> Iterator[tuple[Site, Site]]:
    """Yield the same organization as served by two servers, of which only the first runs a worker."""
    site = Site(new_server())
    yield site, site.at(new_server(command=("serve", "--no-worker", "--port", "0")))
    site.close()


def test_changes_by_another_process_apply_soon(pair: tuple[Site, Site], receiver: Receiver, other: Receiver) -> None:
    here, there = pair
    hook = here.hook(receiver, secret="first")
    here.publish(0)
    hook.attempts("push", 1)
    there.ok("PATCH", f"{hook.path}/config", json={"url": other.url, "secret": "second"})
    there.publish(1)
    other.wait_for(1)
    assert signed_with(other.events("push")[0], "second")
    there.ok("PATCH", hook.path, json={"active": False})
    assert here.publish(2) == 0
    there.ok("PATCH", hook.path, json={"active": True})
    there.publish(3)
    other.wait_for(2)
    assert numbers(other) == [1, 3]
    assert numbers(receiver) == [0]


def test_an_unreadable_secret_never_leads_to_unsigned_deliveries(
    new_server: Callable[..., Server], receiver: Receiver, other: Receiver
) -> None:
    first = new_server()
    site = Site(first)
    hook = site.hook(receiver, secret="signed")
    site.hook(other)
    receiver.wait_for(1)
    good: list[bytes] = []

    async def exchange(services: Services, sealed: bytes | None = None) -> None:
        async with services.database.transaction() as tx:
            row = await tx.fetch_one(sa.select(hooks.c.secret).where(hooks.c.id == hook.id))
            assert row is not None
            good.append(bytes(row["secret"]))
            foreign = Vault([Fernet.generate_key()]).seal("signed") if sealed is None else sealed
            await tx.execute(sa.update(hooks).where(hooks.c.id == hook.id).values(secret=foreign))

    first.stop()
    first.run(exchange)
    second = site.at(new_server())
    assert second.publish(1) == 2
    other.wait_for(2)  # a hook without a secret is not affected
    until(lambda: "secret_unreadable" in second.server.log())
    assert second.server.stop() == 0
    assert numbers(receiver) == []
    first.run(lambda services: exchange(services, good[0]))
    site.at(new_server())
    receiver.wait_for(2)
    assert signed_with(receiver.events("push")[0], "signed")
    site.close()


def test_a_server_does_not_start_with_a_wrong_key(new_server: Callable[..., Server]) -> None:
    new_server(secret_key="the-right-secret-key").stop()
    with pytest.raises(AssertionError, match="encrypted with a key that is not in"):
        new_server(secret_key="another-secret-key")


# --- Redelivery ------------------------------------------------------------------------------------------------------
# Redelivering one or many, also while an attempt is in flight, and payloads of every size.


def test_a_redelivery_repeats_the_same_request(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver, secret="s")
    site.publish(1)
    (first,) = hook.attempts("push", 1)
    answer = hook.redeliver(first)
    assert (answer.status_code, answer.json()) == (202, {})
    _, again = hook.attempts("push", 2)
    assert again["guid"] == first["guid"]
    assert again["id"] != first["id"]
    assert (first["redelivery"], again["redelivery"]) == (False, True)
    one, two = receiver.events("push")
    assert one.body == two.body
    assert one.headers["x-hub-signature-256"] == two.headers["x-hub-signature-256"]
    assert hook.redeliver(again).status_code == 202
    assert len({each["guid"] for each in hook.attempts("push", 3)}) == 1


def test_every_requested_redelivery_is_made(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver)
    site.publish(1)
    (first,) = hook.attempts("push", 1)
    with ThreadPoolExecutor(8) as clients:
        codes = list(clients.map(lambda _: hook.redeliver(first).status_code, range(12)))
    assert codes == [202] * 12
    assert len(hook.attempts("push", 13)) == 13
    site.publish(2)
    hook.attempts("push", 14)
    assert Counter(numbers(receiver)) == {1: 13, 2: 1}


def test_a_redelivery_requested_during_an_attempt_follows_it(site: Site, receiver: Receiver) -> None:
    arrived, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def step(received: Received) -> Reply:
        if received.event == "push":
            arrived.release()
            go_on.acquire(timeout=60)
        return Reply()

    receiver.reply = step
    hook = site.hook(receiver)
    site.publish(1)
    go_on.release()
    (first,) = hook.attempts("push", 1)
    assert arrived.acquire(timeout=WAIT_S)
    hook.redeliver(first)
    assert arrived.acquire(timeout=WAIT_S)  # the second attempt is in flight
    hook.redeliver(first)
    go_on.release()
    assert arrived.acquire(timeout=WAIT_S)  # the third attempt follows
    go_on.release()
    assert len(hook.attempts("push", 3)) == 3
    site.ok("POST", f"{hook.path}/pings")
    hook.attempts("ping", 2)
    assert numbers(receiver) == [1, 1, 1]


def test_a_redelivery_requested_during_a_retry_follows_it(site: Site, receiver: Receiver) -> None:
    repeating, go_on = threading.Event(), threading.Event()
    pushes = count(1)

    def step(received: Received) -> Reply:
        if received.event != "push":
            return Reply()
        match next(pushes):
            case 1:
                return Reply(500)
            case 2:
                repeating.set()
                go_on.wait(WAIT_S)
        return Reply()

    receiver.reply = step
    hook = site.hook(receiver)
    site.publish(1)
    assert repeating.wait(WAIT_S)
    hook.redeliver(hook.attempts("push", 1)[0])
    go_on.set()
    assert [each["status_code"] for each in hook.attempts("push", 3)] == [500, 200, 200]
    assert numbers(receiver) == [1, 1, 1]


def test_a_failed_redelivery_is_retried_automatically(site: Site, receiver: Receiver) -> None:
    answers = iter([200, 500, 500, 200])
    receiver.reply = lambda received: Reply(next(answers)) if received.event == "push" else Reply()
    hook = site.hook(receiver)
    site.publish(1)
    (first,) = hook.attempts("push", 1)
    hook.redeliver(first)
    assert [each["status_code"] for each in hook.attempts("push", 4)] == [200, 500, 500, 200]


def test_a_delivery_without_retries_left_can_be_redelivered(site: Site, receiver: Receiver) -> None:
    working = threading.Event()
    receiver.reply = lambda received: Reply(200 if working.is_set() or received.event == "ping" else 500)
    hook = site.hook(receiver)
    for number in range(5):
        site.publish(number)
    hook.attempts("push", 20)
    working.set()
    site.publish(5)
    hook.attempts("push", 21)
    assert hook.redeliver_many(status="failure", event="push") == 5
    done = hook.attempts("push", 5, status="success", redelivery=True)
    assert len(done) == 5
    assert Counter(numbers(receiver)) == {0: 5, 1: 5, 2: 5, 3: 5, 4: 5, 5: 1}
    assert hook.redeliver_many(ids=[done[0]["id"], done[1]["id"]]) == 2
    hook.attempts("push", 28)


def test_manual_deliveries_are_limited_per_minute(site: Site, receiver: Receiver) -> None:
    while True:  # repeat with another hook if the minute ends in the meantime
        until(lambda: now_ms() % MINUTE_MS < MINUTE_MS - 10_000)
        hook = site.hook(receiver, max_concurrency=1)
        (ping,) = hook.attempts("ping", 1)
        minute = now_ms() // MINUTE_MS
        answers = [hook.redeliver(ping) for _ in range(MANUAL_MOST + 1)]
        answers += [site.client.post(f"{hook.path}/{what}") for what in ("pings", "tests")]
        answers.append(site.client.post(f"{hook.path}/deliveries/redeliver", json={}))
        if now_ms() // MINUTE_MS == minute:
            break
        hook.delete()
    assert [each.status_code for each in answers] == [202] * MANUAL_MOST + [403] * 4
    assert all(1 <= int(each.headers["retry-after"]) <= 61 for each in answers[MANUAL_MOST:])
    site.publish(1)  # automatic deliveries are not limited
    hook.attempts("push", 1)
    assert len(hook.attempts("ping", 1 + MANUAL_MOST)) == 1 + MANUAL_MOST


@pytest.mark.parametrize("size", [64 * 1024 - 200, 64 * 1024 + 200, 3_000_000])
def test_payloads_below_and_above_the_limit_for_inline_payloads_arrive_complete(
    site: Site, receiver: Receiver, size: int
) -> None:
    hook = site.hook(receiver)
    text = "Größe \u2603 " * (size // 12)
    site.publish(1, text=text)
    receiver.wait_for(2)
    assert receiver.events("push")[0].payload()["text"] == text
    (done,) = hook.attempts("push", 1)
    assert hook.detail(done)["request"]["payload"]["text"] == text


def test_a_payload_of_20_mb_arrives_and_does_not_block_others(
    new_server: Callable[..., Server], receiver: Receiver
) -> None:
    site = Site(new_server())
    hook = site.hook(receiver, max_concurrency=2)
    text = "x" * 20_000_000
    site.publish(1, text=text)
    for number in range(2, 12):
        site.publish(number)
    receiver.wait_for(12)
    (large,) = [each for each in receiver.events("push") if each.payload()["number"] == 1]
    assert large.payload()["text"] == text
    assert len(hook.attempts("push", 11)) == 11
    assert {each["status"] for each in hook.deliveries(event="push")} == {"OK"}
    site.close()


def test_a_large_payload_arrives_as_a_form(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver, content_type="form")
    site.publish(1, text="ä & b" * 40_000)
    receiver.wait_for(2)
    assert receiver.events("push")[0].payload()["text"] == "ä & b" * 40_000
    until(lambda: hook.deliveries(event="push"))
