"""DNS lookups for many owners, some of whose name servers never answer. Only the system's resolver is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.delivery import sending
from tests.delivery.receivers import forever, receiver
from tests.delivery.sending import PREPARED, MakeSender, failure, no_descriptor_left, refusal
from tests.harness.waiting import WAIT_S
from workhook.delivery import dns
from workhook.delivery.address_policy import ResourceExhausted
from workhook.delivery.dns import LOOKUPS_AT_ONCE, LOOKUPS_OF_A_DOMAIN, SystemResolver
from workhook.delivery.send import SendSettings

make_sender = pytest.fixture(sending.make_sender)


class System:
    """A substitute for `getaddrinfo`: names with "dead" hang until released, all others resolve to 127.0.0.1."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.hanging = self.most = 0
        self._released = threading.Event()
        self._changed = threading.Condition()

    def getaddrinfo(self, name: bytes, *_: object, **__: object) -> list[dns._Found]:
        host = name.decode()
        with self._changed:
            self.asked[host] += 1
            self.hanging += 1
            self.most = max(self.most, self.hanging)
            self._changed.notify_all()
        if "dead" in host:
            self._released.wait(30)
        with self._changed:
            self.hanging -= 1
            self._changed.notify_all()
        if "dead" in host:
            raise socket.gaierror(socket.EAI_AGAIN, "no")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    def release(self) -> None:
        self._released.set()

    async def hang(self, number: int) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: self.hanging == number, 30)

        assert await asyncio.to_thread(wait), self.hanging


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    made = System()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    yield made
    made.release()


def start_lookups(resolver: SystemResolver, names: list[str]) -> list[asyncio.Task[object]]:
    return [asyncio.create_task(resolver.resolve(name)) for name in names]


async def assert_all_fail(tasks: list[asyncio.Task[object]]) -> None:
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, socket.gaierror) for outcome in outcomes), outcomes


async def test_unresponsive_names_of_one_domain_do_not_delay_another(make_sender: MakeSender, system: System) -> None:
    sender = make_sender(settings=SendSettings(timeout_s=WAIT_S))
    async with receiver(forever()) as there:
        dead = [
            asyncio.create_task(sender.send(f"http://n{number}.dead.example/", PREPARED, insecure_ssl=False))
            for number in range(2 * LOOKUPS_AT_ONCE)
        ]
        await system.hang(LOOKUPS_OF_A_DOMAIN)
        outcome = await sender.send(there.url_for("alive.example"), PREPARED, insecure_ssl=False)
        assert outcome.ok
        assert system.hanging == LOOKUPS_OF_A_DOMAIN  # still hanging
        system.release()
        assert {failure(each) for each in await asyncio.gather(*dead)} == {("failed to connect to host", 502)}


async def test_slow_domains_together_use_at_most_half_of_the_slots(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns, "SLOW_S", 0.0)
    resolver = SystemResolver()
    domains = [f"dead{number}.example" for number in range(2 * LOOKUPS_AT_ONCE)]
    first = start_lookups(resolver, domains)
    await system.hang(LOOKUPS_AT_ONCE)  # nothing is known about them yet
    system.release()
    await assert_all_fail(first)
    system._released.clear()
    again = start_lookups(resolver, [f"again.{domain}" for domain in domains])
    await system.hang(LOOKUPS_AT_ONCE // 2)
    monkeypatch.setattr(dns, "SLOW_S", 10.0)
    assert await resolver.resolve("alive.example")
    system.release()
    await assert_all_fail(again)
    assert system.most == LOOKUPS_AT_ONCE


async def test_abandoned_lookups_count_toward_the_limit(system: System) -> None:
    resolver = SystemResolver()
    waiting = start_lookups(resolver, [f"dead{number}.example" for number in range(50)])
    await system.hang(LOOKUPS_AT_ONCE)
    for task in waiting[:10]:
        task.cancel()  # their threads still run and keep their slots
    await asyncio.gather(*waiting[:10], return_exceptions=True)
    system.release()
    await assert_all_fail(waiting[10:])
    assert system.most == LOOKUPS_AT_ONCE


async def test_concurrent_lookups_of_one_name_share_a_query(system: System) -> None:
    resolver = SystemResolver()
    waiting = start_lookups(resolver, ["dead.example"] * 50)
    await system.hang(1)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    system.release()
    await assert_all_fail(waiting[1:])
    assert system.asked == {"dead.example": 1}


async def test_answers_and_failures_are_cached_for_a_while(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.release()
    resolver = SystemResolver()
    for name in ("alive.example", "dead.example") * 3:
        with contextlib.suppress(socket.gaierror):
            await resolver.resolve(name)
    assert system.asked == {"alive.example": 1, "dead.example": 1}
    monkeypatch.setattr(dns, "FOUND_S", 0.0)
    monkeypatch.setattr(dns, "FAILED_S", (0.0, 0.0))
    resolver = SystemResolver()
    for name in ("alive.example", "dead.example") * 3:
        with contextlib.suppress(socket.gaierror):
            await resolver.resolve(name)
    assert system.asked == {"alive.example": 4, "dead.example": 4}


async def test_a_lookup_that_times_out_fails_and_is_cached(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "LONGEST_S", 0.1)
    resolver = SystemResolver()
    names = [f"n{number}.dead.example" for number in range(2 * LOOKUPS_OF_A_DOMAIN)]
    await assert_all_fail(start_lookups(resolver, names))  # the second half got no slot
    await system.hang(LOOKUPS_OF_A_DOMAIN)  # a thread may start after its caller has given up
    await assert_all_fail(start_lookups(resolver, names[:LOOKUPS_OF_A_DOMAIN]))
    assert system.asked == dict.fromkeys(names[:LOOKUPS_OF_A_DOMAIN], 1)


async def test_the_cache_is_bounded(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "_REMEMBERED", 10)
    resolver = SystemResolver()
    for number in range(25):
        await resolver.resolve(f"alive{number}.example")
    await resolver.resolve("alive24.example")
    await resolver.resolve("alive0.example")
    assert (len(resolver._kept), len(resolver._running)) == (10, 0)
    assert (system.asked["alive24.example"], system.asked["alive0.example"]) == (1, 2)


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        (b"localhost", b"localhost"),
        (b"example.com", b"example.com"),
        (b"a.b.Example.com.", b"example.com"),
        (b"a.abc.de", b"abc.de"),
        (b"a.co.uk", b"a.co.uk"),
        (b"x.y.a.co.uk", b"a.co.uk"),
        (b"co.uk", b"co.uk"),
    ],
)
def test_lookups_are_counted_per_registrable_domain(name: bytes, domain: bytes) -> None:
    assert dns._domain_of(name) == domain


async def test_localhost_is_resolved_by_the_system() -> None:
    resolver = SystemResolver()
    found = await resolver.resolve("localhost", 8080)
    assert {answer["host"] for answer in found} <= {"127.0.0.1", "::1"}
    assert {answer["port"] for answer in found} == {8080}


@pytest.mark.parametrize("name", ["nobody.invalid", "a" * 64 + ".example", "bücher.example", "a..b"])
async def test_an_unknown_name_is_an_error(name: str) -> None:
    with pytest.raises(socket.gaierror):
        await SystemResolver().resolve(name, 80)


async def test_an_empty_answer_is_refused_like_an_unknown_host(
    make_sender: MakeSender, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    assert await refusal(make_sender(), "http://receiver.example/") == ("failed to connect to host", 502)


async def test_a_lookup_that_fails_for_lack_of_descriptors_is_not_cached() -> None:
    resolver = SystemResolver()
    for name in ("localhost", "nobody.invalid"):
        with no_descriptor_left(), pytest.raises(ResourceExhausted):
            await resolver.resolve(name, 80)
    assert await resolver.resolve("localhost", 80)  # the failure is not cached


async def test_a_lookup_that_fails_for_lack_of_threads_is_not_cached(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = SystemResolver()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more)
        for _ in range(2 * LOOKUPS_AT_ONCE):
            with pytest.raises(ResourceExhausted):
                await resolver.resolve("alive.example")
    assert await resolver.resolve("alive.example")
