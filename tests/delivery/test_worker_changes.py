"""Changing, turning off and deleting a hook while there is work for it; what another process changes."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from tests.delivery.site import Site, numbers
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.core.vault import Vault
from workhook.hooks.tables import hooks
from workhook.http.calls import Services


class Valve:
    """A reply that holds pushes while it is closed."""

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


def test_turning_a_hook_off_drops_what_waits(site: Site, receiver: Receiver, valve: Valve) -> None:
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


def test_what_was_in_flight_when_the_hook_went_off_is_not_repeated(site: Site, receiver: Receiver) -> None:
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
    site.ok("POST", f"{hook.path}/pings")  # what is asked for by hand is sent although the hook is off
    hook.attempts("ping", 2)
    assert numbers(receiver) == [1]


def test_a_hook_that_is_off_gets_what_is_asked_for_by_hand(site: Site, receiver: Receiver) -> None:
    hook = site.hook(receiver)
    site.publish(1)
    (first,) = hook.attempts("push", 1)
    hook.patch(active=False)
    assert hook.redeliver(first).status_code == 202
    site.ok("POST", f"{hook.path}/tests")
    assert len(hook.attempts("push", 3)) == 3
    assert numbers(receiver) == [1, 1, 1]


def test_deleting_a_hook_in_flight_ends_it(site: Site, receiver: Receiver, other: Receiver, valve: Valve) -> None:
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


def test_a_change_of_the_url_counts_for_what_waits(
    site: Site, receiver: Receiver, other: Receiver, valve: Valve
) -> None:
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
    assert urls == [receiver.url] + [other.url] * 3  # each where it was really sent


def test_a_change_of_the_secret_counts_at_once(site: Site, receiver: Receiver) -> None:
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


def test_a_previous_secret_signs_until_it_expires_and_deliveries_go_on(site: Site, receiver: Receiver) -> None:
    first, second, third = (f"whsec_{name}" for name in ("Zmlyc3Rs", "c2Vjb25k", "dGhpcmRz"))
    hook = site.hook(receiver, secret=first, header_style="standard")
    hook.configure(secret=second, previous_secret_expires_in=3600)
    site.publish(0)
    receiver.wait_for(2)
    assert len(receiver.events("push")[0].headers["webhook-signature"].split()) == 2
    hook.configure(secret=third, previous_secret_expires_in=1)

    def once_more() -> bool:
        site.publish(1)
        hook.attempts("push", len(receiver.events("push")))
        return len(receiver.events("push")[-1].headers["webhook-signature"].split()) == 1

    until(once_more)
    site.publish(2)
    until(lambda: 2 in numbers(receiver))


def test_more_slots_are_used_as_soon_as_they_are_given(site: Site, receiver: Receiver, valve: Valve) -> None:
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
    """The same place by way of two servers, of which only the first delivers."""
    site = Site(new_server())
    yield site, site.at(new_server(command=("serve", "--no-worker", "--port", "0")))
    site.close()


def test_what_another_process_changes_counts_soon(pair: tuple[Site, Site], receiver: Receiver, other: Receiver) -> None:
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


def test_a_secret_that_cannot_be_read_is_never_replaced_by_none(
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
    other.wait_for(2)  # a hook without a secret is none the worse
    until(lambda: "secret_unreadable" in second.server.log())
    assert second.server.stop() == 0
    assert numbers(receiver) == []
    first.run(lambda services: exchange(services, good[0]))
    site.at(new_server())
    receiver.wait_for(2)
    assert signed_with(receiver.events("push")[0], "signed")
    site.close()


def test_a_server_does_not_start_with_another_key(new_server: Callable[..., Server]) -> None:
    new_server(secret_key="the right key").stop()
    with pytest.raises(AssertionError, match="another key"):
        new_server(secret_key="another key")
