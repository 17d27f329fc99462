"""Sending again: one, many, while it is in flight; and payloads of every size."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.delivery.site import Site, numbers
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import MANUAL_MOST, Server
from tests.harness.waiting import WAIT_S, until
from workhook.core.clock import MINUTE_MS, now_ms


def test_a_redelivery_is_the_same_thing_again(site: Site, receiver: Receiver) -> None:
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


def test_each_of_many_redeliveries_of_one_thing_is_made(site: Site, receiver: Receiver) -> None:
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


def test_a_redelivery_asked_for_in_flight_follows(site: Site, receiver: Receiver) -> None:
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
    assert arrived.acquire(timeout=WAIT_S)  # the second is in flight
    hook.redeliver(first)
    go_on.release()
    assert arrived.acquire(timeout=WAIT_S)  # the third follows
    go_on.release()
    assert len(hook.attempts("push", 3)) == 3
    site.ok("POST", f"{hook.path}/pings")
    hook.attempts("ping", 2)
    assert numbers(receiver) == [1, 1, 1]


def test_a_redelivery_that_fails_is_repeated_by_itself(site: Site, receiver: Receiver) -> None:
    answers = iter([200, 500, 500, 200])
    receiver.reply = lambda received: Reply(next(answers)) if received.event == "push" else Reply()
    hook = site.hook(receiver)
    site.publish(1)
    (first,) = hook.attempts("push", 1)
    hook.redeliver(first)
    assert [each["status_code"] for each in hook.attempts("push", 4)] == [200, 500, 500, 200]


def test_what_has_used_up_its_repeats_can_be_sent_again(site: Site, receiver: Receiver) -> None:
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


def test_too_many_in_a_minute_by_hand_are_refused_for_the_rest_of_it(site: Site, receiver: Receiver) -> None:
    while True:  # with another hook, if the minute ends meanwhile
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
    site.publish(1)  # what happens by itself is not limited
    hook.attempts("push", 1)
    assert len(hook.attempts("ping", 1 + MANUAL_MOST)) == 1 + MANUAL_MOST


@pytest.mark.parametrize("size", [64 * 1024 - 200, 64 * 1024 + 200, 3_000_000])
def test_payloads_on_both_sides_of_the_bound_arrive_whole(site: Site, receiver: Receiver, size: int) -> None:
    hook = site.hook(receiver)
    text = "Größe \u2603 " * (size // 12)
    site.publish(1, text=text)
    receiver.wait_for(2)
    assert receiver.events("push")[0].payload()["text"] == text
    (done,) = hook.attempts("push", 1)
    assert hook.detail(done)["request"]["payload"]["text"] == text


def test_a_payload_of_20_mb_arrives_and_delays_nobody_for_long(
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


def test_a_form_of_a_large_payload_arrives_too(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver, content_type="form")
    site.publish(1, text="ä & b" * 40_000)
    receiver.wait_for(2)
    assert receiver.events("push")[0].payload()["text"] == "ä & b" * 40_000
    until(lambda: hook.deliveries(event="push"))
