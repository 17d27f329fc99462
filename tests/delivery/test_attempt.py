"""A single attempt: it must not block the event loop, and it bounds the headers it stores."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import threading
from typing import Any

import pytest

from tests.delivery.receivers import forever, receiver
from tests.delivery.sending import LOOPBACK
from tests.harness.waiting import WAIT_S
from tests.unit.lane_kit import lane_with
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.attempt import SIGN_HERE_MAX, RetryPolicy, attempt
from workhook.delivery.client import MAX_HEAD_BYTES
from workhook.delivery.queries import DELIVERY_COLUMNS
from workhook.delivery.send import Outcome, Sender
from workhook.delivery.sign import Profile, SignedRequest, Signer, form_encode


class WaitingSigner(Signer):
    """A signer that waits until the event loop has run, which it cannot do on the loop's own thread."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.turned = threading.Event()

    def prepare(self, *given: Any, **more: Any) -> SignedRequest:
        assert self.turned.wait(WAIT_S), "the loop stands still"
        return super().prepare(*given, **more)


async def test_signing_a_large_payload_does_not_block_the_event_loop() -> None:
    payload = b'{"a": "b"}' * (SIGN_HERE_MAX // 2)
    sender = Sender(AddressPolicy(LOOPBACK))
    async with receiver(forever()) as there:
        lane = lane_with(1, waiting=1, url=there.url)
        lane.signer = signer = WaitingSigner(Profile(hook_id=1, target_id=1, target_type="organization", secret=b"s"))
        attempting = asyncio.create_task(attempt(lane, lane.ready[0], payload, sender, RetryPolicy()))
        asyncio.get_running_loop().call_later(0.05, signer.turned.set)
        finished = await attempting
    await sender.close()
    assert finished.outcome.ok
    [request] = there.requests
    assert request.body == form_encode(payload)
    expected = "sha256=" + hmac.new(b"s", request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Hub-Signature-256"] == expected


@pytest.mark.parametrize(
    ("config", "insecure"), [({}, False), ({"insecure_ssl": "0"}, False), ({"insecure_ssl": "1"}, True)]
)
async def test_a_certificate_is_ignored_only_if_the_hook_says_so(config: dict[str, str], insecure: bool) -> None:
    told = []

    class Told(Sender):
        async def send(self, url: str, prepared: SignedRequest, *, insecure_ssl: bool) -> Outcome:
            told.append(insecure_ssl)
            return Outcome("OK", 200, 1, {}, b"", None, True)

    sender = Told(AddressPolicy(LOOPBACK))
    lane = lane_with(1, waiting=1, **config)
    await attempt(lane, lane.ready[0], b"{}", sender, RetryPolicy())
    await sender.close()
    assert told == [insecure]


async def test_the_stored_size_of_response_headers_is_bounded() -> None:
    """Control characters take six bytes each in JSON; they are invalid in a field value (RFC 9110, 5.5)."""
    sender = Sender(AddressPolicy(LOOPBACK))
    evil = b"a\x01\x02\x7f\tb" + b"\x01" * 60_000
    async with receiver(forever(b"HTTP/1.1 200 OK\r\nX-A: %b\r\nContent-Length: 0\r\n\r\n" % evil)) as there:
        lane = lane_with(1, waiting=1, url=there.url)
        finished = await attempt(lane, lane.ready[0], b"{}", sender, RetryPolicy())
    await sender.close()
    assert finished.outcome.response_headers["X-A"].startswith("a   \tb ")
    stored = finished.delivery()[DELIVERY_COLUMNS.index("response_headers")]
    assert isinstance(stored, bytes)
    assert len(stored) < 2 * MAX_HEAD_BYTES
