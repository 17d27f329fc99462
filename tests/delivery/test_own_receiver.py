"""Deliveries to a receiver on the server itself, which may reach that one path only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.delivery.receivers import Names, forever, receiver
from tests.delivery.sending import PREPARED, failure
from workhook.core.urls import OwnAddress, new_receiver_key
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import REFUSED, Sender, SendSettings

KEY = "k" * 43
MakeOwn = Callable[..., Sender]


@pytest.fixture
async def sender_of() -> AsyncIterator[MakeOwn]:
    """Return a function that creates a sender for a server with the given base URL.

    Only public addresses are allowed.
    """
    made: list[Sender] = []

    def make(base: str | None, resolver: Names | None = None, proxy: str | None = None) -> Sender:
        settings = SendSettings(proxy=proxy)
        made.append(Sender(AddressPolicy(), settings, resolver=resolver, own=OwnAddress(base)))
        return made[-1]

    yield make
    for sender in made:
        await sender.close()


def test_new_receiver_keys_have_the_expected_form() -> None:
    own = OwnAddress("http://127.0.0.1:8000")
    keys = {new_receiver_key() for _ in range(100)}
    assert len(keys) == 100
    for each in keys:
        url = own.receiver_url(each)
        assert url is not None
        assert own.is_receiver(url)
    assert OwnAddress().receiver_url(KEY) is None
    assert not OwnAddress().is_receiver(f"/receive/{KEY}")


async def test_the_own_receiver_is_reached_at_a_private_address(sender_of: MakeOwn) -> None:
    async with receiver(forever()) as there:
        base = f"http://127.0.0.1:{there.port}"
        outcome = await sender_of(base).send(f"{base}/receive/{KEY}", PREPARED, insecure_ssl=False)
        assert (outcome.ok, outcome.status_code) == (True, 200)
        refused = await sender_of(None).send(f"{base}/receive/{KEY}", PREPARED, insecure_ssl=False)
    assert failure(refused) == (REFUSED, 403)
    assert [each.line for each in there.requests] == [f"POST /receive/{KEY} HTTP/1.1"]


@pytest.mark.parametrize(
    "changed",
    [
        "{base}/",
        "{base}/admin",
        "{base}/receive/",
        "{base}/receive/short",
        "{base}/receive/{key}x",
        "{base}/receive/{key}/",
        "{base}/receive/{key}?x=1",
        "{base}/receive/{key}#x",
        "{base}/receive/{key}\n",
        "{base}/receive/../{key}",
        "{base}/receive/%2e%2e/" + "k" * 36,
        "{base}//receive/{key}",
        "{base}/Receive/{key}",
        "http://127.0.0.1:{other}/receive/{key}",
        "https://127.0.0.1:{port}/receive/{key}",
        "http://localhost:{port}/receive/{key}",
        "http://127.1:{port}/receive/{key}",
        "http://[::ffff:127.0.0.1]:{port}/receive/{key}",
        "http://127.0.0.1/receive/{key}",
        "http://user@127.0.0.1:{port}/receive/{key}",
        "http://127.0.0.1:{port}@127.0.0.1:{other}/receive/{key}",
    ],
)
async def test_any_other_url_of_the_own_address_is_refused(sender_of: MakeOwn, changed: str) -> None:
    async with receiver(forever()) as there, receiver(forever()) as other:
        base = f"http://127.0.0.1:{there.port}"
        url = changed.format(base=base, key=KEY, port=there.port, other=other.port)
        assert not OwnAddress(base).is_receiver(url)
        outcome = await sender_of(base).send(url, PREPARED, insecure_ssl=False)
    assert not outcome.ok
    assert outcome.status_code in (403, 502)
    assert (there.connections, other.connections) == ([], [])


async def test_a_redirect_by_the_own_receiver_is_not_followed(sender_of: MakeOwn) -> None:
    async with receiver(forever()) as elsewhere:
        answer = b"HTTP/1.1 307 X\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % elsewhere.url.encode()
        async with receiver(forever(answer)) as there:
            base = f"http://127.0.0.1:{there.port}"
            outcome = await sender_of(base).send(f"{base}/receive/{KEY}", PREPARED, insecure_ssl=False)
    assert outcome.status_code == 307
    assert elsewhere.connections == []


async def test_a_kept_connection_to_the_own_receiver_serves_no_other_url(sender_of: MakeOwn) -> None:
    """The URL check does not resolve names, so only the check at connect time remains."""
    async with receiver(forever()) as there:
        base = f"http://work.example:{there.port}"
        sender = sender_of(base, Names(["127.0.0.1"]))
        for _ in range(2):
            assert (await sender.send(f"{base}/receive/{KEY}", PREPARED, insecure_ssl=False)).ok
        outcome = await sender.send(f"{base}/admin", PREPARED, insecure_ssl=False)
        assert failure(outcome) == (REFUSED, 403)
        assert (await sender.send(f"{base}/receive/{KEY}", PREPARED, insecure_ssl=False)).ok
    assert len(there.connections) == 1
    assert {each.line for each in there.requests} == {f"POST /receive/{KEY} HTTP/1.1"}


async def test_the_own_receiver_is_reached_without_the_proxy(sender_of: MakeOwn) -> None:
    async with receiver(forever()) as there, receiver(forever()) as proxy:
        base = f"http://127.0.0.1:{there.port}"
        sender = sender_of(base, proxy=f"http://127.0.0.1:{proxy.port}")
        assert (await sender.send(f"{base}/receive/{KEY}", PREPARED, insecure_ssl=False)).ok
    assert proxy.connections == []
