"""Helpers for the tests of sending: a sender that is closed at teardown, and one delivery per call.

`make_sender` and `deliver` become fixtures in the modules that use them.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Protocol

from tests.delivery.receivers import Names, Receiver, Script, receiver
from workhook.core import json
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import Outcome, Sender, SendSettings
from workhook.delivery.sign import SignedRequest

LOOPBACK = ("127.0.0.0/8", "::1")
PREPARED = SignedRequest(
    {"User-Agent": "Service-Hookshot/test", "Accept": "*/*", "content-type": "application/json"}, b"{}"
)
CLOSED = ("connection closed before a response", 502)
MALFORMED = ("malformed response", 502)

Deliver = Callable[[Script], Awaitable[Outcome]]


class MakeSender(Protocol):
    def __call__(
        self, allow: tuple[str, ...] = LOOPBACK, settings: SendSettings = ..., *, resolver: Names | None = None
    ) -> Sender: ...


async def make_sender() -> AsyncIterator[MakeSender]:
    made: list[Sender] = []

    def make(
        allow: tuple[str, ...] = LOOPBACK,
        settings: SendSettings = SendSettings(),  # noqa: B008 - it is frozen
        *,
        resolver: Names | None = None,
    ) -> Sender:
        sender = Sender(AddressPolicy(allow), settings, resolver=resolver)
        made.append(sender)
        return sender

    yield make
    for sender in made:
        await sender.close()
        assert sender.unexpected_failures == 0


async def deliver(make_sender: MakeSender, way: str) -> Deliver:
    """Return a function that makes one delivery to a scripted receiver or, with `proxy`, through a scripted proxy."""

    async def run(script: Script) -> Outcome:
        async with receiver(script) as there:
            proxy = f"http://127.0.0.1:{there.port}" if way == "proxy" else None
            outcome = await send(make_sender(settings=SendSettings(proxy=proxy)), there)
            json.encode([outcome.response_headers, outcome.status])  # a recorded outcome must be text
            return outcome

    return run


async def send(sender: Sender, there: Receiver, *, insecure_ssl: bool = False) -> Outcome:
    return await sender.send(there.url, PREPARED, insecure_ssl=insecure_ssl)


async def refusal(sender: Sender, url: str) -> tuple[str, int]:
    """Return the status and code of a delivery that reached no receiver."""
    outcome = await sender.send(url, PREPARED, insecure_ssl=False)
    assert (outcome.ok, outcome.response_headers, outcome.response_body) == (False, {}, b"")
    return outcome.status, outcome.status_code


def failure(outcome: Outcome) -> tuple[str, int]:
    assert not outcome.ok
    return outcome.status, outcome.status_code


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Lower the limit on open files until no descriptor is left."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
