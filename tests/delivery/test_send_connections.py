"""Deliveries that are not sent at all, TLS, proxies, and many concurrent deliveries."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from pathlib import Path

import pytest

from tests.delivery import sending
from tests.delivery.receivers import OK, Certificate, Connection, Names, closed_port, forever, once, receiver
from tests.delivery.sending import CLOSED, LOOPBACK, PREPARED, MakeSender, failure, no_descriptor_left, refusal, send
from tests.harness.waiting import WAIT_S
from workhook.delivery.address_policy import AddressPolicy, GuardedResolver, ResourceExhausted
from workhook.delivery.client import CONTEXTS
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.sign import SignedRequest

make_sender = pytest.fixture(sending.make_sender)


# --- Not sent ---------------------------------------------------------------------------------------------------


async def test_a_closed_port_is_a_failed_connection(make_sender: MakeSender) -> None:
    with closed_port() as port:
        assert await refusal(make_sender(), f"http://127.0.0.1:{port}/") == ("failed to connect to host", 502)


@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_AGAIN])
async def test_an_unknown_host_is_a_failed_connection(make_sender: MakeSender, code: int) -> None:
    sender = make_sender(resolver=Names(socket.gaierror(code, "no")))
    assert await refusal(sender, "http://receiver.example/") == ("failed to connect to host", 502)


async def test_a_host_unknown_to_the_system_is_a_failed_connection(make_sender: MakeSender) -> None:
    assert await refusal(make_sender(), "http://nobody.invalid/") == ("failed to connect to host", 502)


async def test_an_unreachable_network_is_reported(make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unplugged(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr("workhook.delivery.address_policy.socket.socket", Unplugged)
    assert await refusal(make_sender(("192.0.2.0/24",)), "http://192.0.2.1/") == ("failed to connect to network", 502)


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}/", "http://[::ffff:127.0.0.1]:{}/", "http://localhost:{}/"])
async def test_a_refused_address_literal_is_never_connected_to(make_sender: MakeSender, url: str) -> None:
    async with receiver(forever()) as there:
        assert await refusal(make_sender(()), url.format(there.port)) == ("address not allowed", 403)
    assert there.connections == []


@pytest.mark.parametrize(
    "answers", [["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["::1"], ["127.0.0.1", "::ffff:10.0.0.1"]]
)
async def test_a_name_with_one_refused_address_is_never_connected_to(
    make_sender: MakeSender, answers: list[str]
) -> None:
    async with receiver(forever()) as there:
        sender = make_sender(("127.0.0.0/8",), resolver=Names(answers))
        assert await refusal(sender, there.url_for("receiver.example")) == ("address not allowed", 403)
    assert there.connections == []


async def test_the_address_is_checked_again_when_the_socket_connects(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However an address was obtained, it is checked when the socket is about to connect."""
    names = Names(["127.0.0.1"])
    sender = make_sender((), resolver=names)
    monkeypatch.setattr(GuardedResolver, "resolve", lambda self, host, port: names.resolve(host))
    async with receiver(forever()) as there:
        assert await refusal(sender, there.url_for("receiver.example")) == ("address not allowed", 403)
    assert there.connections == []


async def test_a_rebound_name_is_checked_again(make_sender: MakeSender) -> None:
    """DNS rebinding: the first answer is allowed, the one at connect time is not."""
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    sender = make_sender(("127.0.0.2/32",), resolver=names)
    async with receiver(once(OK), host="127.0.0.2") as there:
        url = there.url_for("receiver.example")
        assert (await sender.send(url, PREPARED, insecure_ssl=False)).ok
        await there.connections[0].closed.wait()
        assert await refusal(sender, url) == ("address not allowed", 403)
    assert names.asked == ["receiver.example"] * 2


async def test_a_payload_over_the_limit_is_not_sent(make_sender: MakeSender) -> None:
    async with receiver(forever()) as there:
        sender = make_sender(settings=SendSettings(max_payload_bytes=1))
        assert await refusal(sender, there.url) == ("payload too large, not sent", 413)
        grown = SignedRequest(PREPARED.headers, b"payload=x", payload_size=1)  # the limit ignores the encoding
        assert (await sender.send(there.url, grown, insecure_ssl=False)).ok
    assert len(there.requests) == 1


async def test_an_invalid_url_is_a_failed_connection(make_sender: MakeSender) -> None:
    assert await refusal(make_sender(), "http://a..b/") == ("failed to connect to host", 502)


# --- No descriptor left ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "two.example"])
@pytest.mark.parametrize("proxied", [False, True])
async def test_a_lack_of_descriptors_is_not_the_receivers_failure(
    make_sender: MakeSender, host: str, proxied: bool
) -> None:
    names = Names(["127.0.0.1", "127.0.0.2"]) if host == "two.example" else None
    async with receiver(forever(), host="0.0.0.0") as there:
        settings = SendSettings(proxy=f"http://{host}:{there.port}") if proxied else SendSettings()
        sender = make_sender(settings=settings, resolver=names)
        url = there.url_for(host)
        with no_descriptor_left(), pytest.raises(ResourceExhausted, match="Too many open files"):
            await sender.send(url, PREPARED, insecure_ssl=False)
        assert (await sender.send(url, PREPARED, insecure_ssl=False)).ok


# --- TLS --------------------------------------------------------------------------------------------------------


def trust(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the certificate as an authority, as the client's context for system authorities is created on import."""
    monkeypatch.setitem(CONTEXTS, True, ssl.create_default_context(cafile=str(certificate.file)))


async def test_an_untrusted_certificate_is_rejected(make_sender: MakeSender, tmp_path: Path) -> None:
    async with receiver(forever(), tls=Certificate(tmp_path, "127.0.0.1").server()) as there:
        sender = make_sender()
        assert failure(await send(sender, there)) == ("self-signed certificate", 502)
        assert (await send(sender, there, insecure_ssl=True)).ok
        # The connection made without verification must not serve a hook that requires it.
        assert failure(await send(sender, there)) == ("self-signed certificate", 502)
    assert len(there.requests) == 1


async def test_a_certificate_of_a_trusted_authority_is_accepted(
    make_sender: MakeSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path, "127.0.0.1")
    trust(certificate, monkeypatch)
    async with receiver(forever(), tls=certificate.server()) as there:
        sender = make_sender()
        assert (await send(sender, there)).ok
        assert (await send(sender, there)).ok
    assert len(there.connections) == 1


async def test_a_certificate_for_another_host_is_rejected(
    make_sender: MakeSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path, "other.example")
    trust(certificate, monkeypatch)
    async with receiver(forever(), tls=certificate.server()) as there:
        sender = make_sender()
        status, code = failure(await send(sender, there))
    assert code == 502
    assert status == "IP address mismatch, certificate is not valid for '127.0.0.1'."


async def test_the_certificate_is_verified_for_the_name_in_the_url(
    make_sender: MakeSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path, "receiver.example")
    trust(certificate, monkeypatch)
    async with receiver(forever(), tls=certificate.server()) as there:
        sender = make_sender(resolver=Names(["127.0.0.1"]))
        assert (await sender.send(there.url_for("receiver.example"), PREPARED, insecure_ssl=False)).ok


async def test_another_address_is_tried_if_the_first_has_a_wrong_certificate(
    make_sender: MakeSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = Certificate(tmp_path / "good", "receiver.example"), Certificate(tmp_path / "bad", "other.example")
    trust(good, monkeypatch)
    async with (
        receiver(forever(), tls=good.server(), host="127.0.0.3") as there,
        receiver(forever(), tls=bad.server(), host="127.0.0.2", port=there.port) as elsewhere,
    ):
        sender = make_sender(resolver=Names(["127.0.0.2", "127.0.0.3"]))
        assert (await sender.send(there.url_for("receiver.example"), PREPARED, insecure_ssl=False)).ok
    assert (len(there.requests), len(elsewhere.requests)) == (1, 0)


async def test_a_receiver_without_tls_fails_an_https_url(make_sender: MakeSender) -> None:
    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await connection.wait_closed_by_sender()

    async with receiver(script) as there:
        url = there.url.replace("http:", "https:")
        status, code = await refusal(make_sender(), url)
    assert code == 502
    assert status.startswith("TLS error: ")


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_an_aborted_handshake_is_a_failure(make_sender: MakeSender, how: str) -> None:
    async def script(connection: Connection) -> None:
        if how == "reset":
            connection.reset()

    async with receiver(script) as there:
        status, code = await refusal(make_sender(), there.url.replace("http:", "https:"))
    assert code == 502
    assert status == CLOSED[0] or status.startswith("TLS error")


async def test_a_hanging_handshake_times_out(make_sender: MakeSender) -> None:
    async with receiver(Connection.wait_closed_by_sender) as there:
        outcome = await make_sender(settings=SendSettings(timeout_s=0.2)).send(
            there.url.replace("http:", "https:"), PREPARED, insecure_ssl=False
        )
    assert failure(outcome) == ("timed out", 504)


async def test_a_receiver_that_requires_a_client_certificate_is_a_failure(
    make_sender: MakeSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path, "127.0.0.1")
    trust(certificate, monkeypatch)
    context = certificate.server()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate.file)
    async with receiver(forever(), tls=context) as there:
        status, code = await refusal(make_sender(), there.url)
    assert code == 502
    assert status == CLOSED[0] or status.startswith("TLS error: ")  # the alert and the reset race with each other


# --- Through a proxy --------------------------------------------------------------------------------------------


async def test_a_proxy_gets_the_full_url_and_its_own_address_is_not_checked(make_sender: MakeSender) -> None:
    async with receiver(forever()) as proxy:
        sender = make_sender((), SendSettings(proxy=f"http://127.0.0.1:{proxy.port}"), resolver=Names(["8.8.8.8"]))
        assert (await sender.send("http://receiver.example/hook", PREPARED, insecure_ssl=False)).ok
    assert proxy.requests[0].line == "POST http://receiver.example/hook HTTP/1.1"


@pytest.mark.parametrize("url", ["http://receiver.example/", "http://10.0.0.1/", "https://receiver.example/"])
async def test_a_proxy_does_not_bypass_the_address_check(make_sender: MakeSender, url: str) -> None:
    async with receiver(forever()) as proxy:
        sender = make_sender(
            (), SendSettings(proxy=f"http://127.0.0.1:{proxy.port}"), resolver=Names(["8.8.8.8", "10.0.0.1"])
        )
        assert await refusal(sender, url) == ("address not allowed", 403)
    assert proxy.connections == []


async def test_an_unreachable_or_refusing_proxy_is_a_failure(make_sender: MakeSender) -> None:
    names = Names(["8.8.8.8"])
    with closed_port() as port:
        sender = make_sender((), SendSettings(proxy=f"http://127.0.0.1:{port}"), resolver=names)
        assert await refusal(sender, "http://receiver.example/") == ("failed to connect to network", 502)

    async def refuse(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        await connection.wait_closed_by_sender()

    async with receiver(refuse) as proxy:
        sender = make_sender((), SendSettings(proxy=f"http://127.0.0.1:{proxy.port}"), resolver=names)
        assert await refusal(sender, "https://receiver.example/") == ("failed to connect to host", 502)


# --- Many deliveries --------------------------------------------------------------------------------------------


async def test_a_hanging_receiver_does_not_delay_others(make_sender: MakeSender) -> None:
    going_on = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.request()
        await going_on.wait()
        await connection.send(OK)

    sender = make_sender(settings=SendSettings(timeout_s=2 * WAIT_S))
    async with receiver(hang) as hung, receiver(forever()) as healthy:
        waiting = [asyncio.create_task(send(sender, hung)) for _ in range(40)]
        outcomes = await asyncio.gather(*(send(sender, healthy) for _ in range(40)))
        assert not any(task.done() for task in waiting)
        assert all(outcome.ok for outcome in outcomes)
        going_on.set()
        assert all(outcome.ok for outcome in await asyncio.gather(*waiting))


async def test_concurrent_deliveries_to_a_refused_name_are_all_refused(make_sender: MakeSender) -> None:
    names = Names(["10.0.0.1"])
    sender = make_sender((), resolver=names)
    url = "http://receiver.example/"
    outcomes = await asyncio.gather(*(sender.send(url, PREPARED, insecure_ssl=False) for _ in range(20)))
    assert {failure(outcome) for outcome in outcomes} == {("address not allowed", 403)}


async def test_closing_the_sender_ends_deliveries_in_progress(make_sender: MakeSender) -> None:
    arrived = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer()
        await connection.request()
        arrived.set()
        await connection.wait_closed_by_sender()

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        waiting = asyncio.create_task(send(sender, there))
        await asyncio.wait_for(arrived.wait(), WAIT_S)
        await sender.close()
        assert failure(await waiting) == CLOSED
    assert len(there.connections) == 1


# --- Unexpected failures ----------------------------------------------------------------------------------------


async def test_an_internal_error_is_counted_and_reported_separately() -> None:
    sender = Sender(AddressPolicy(LOOPBACK))
    async with receiver(forever()) as there:
        broken = SignedRequest({"X-A": "a\r\nb"}, b"{}")
        outcome = await sender.send(there.url, broken, insecure_ssl=False)
    assert failure(outcome) == ("delivery failed", 502)
    assert sender.unexpected_failures == 1
    await sender.close()
