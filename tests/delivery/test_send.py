"""The outcome of a single delivery for every kind of response. All tests use real sockets."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import sys
import zlib
from collections.abc import Callable
from typing import Any

import aiohappyeyeballs
import pytest
import uvloop

from tests.delivery import sending
from tests.delivery.receivers import OK, Connection, Names, closed_port, forever, once, receiver
from tests.delivery.sending import CLOSED, LOOPBACK, MALFORMED, PREPARED, Deliver, MakeSender, failure, send
from tests.harness.waiting import WAIT_S
from workhook.delivery import client
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.client import MAX_BODY_BYTES, Client, Response
from workhook.delivery.send import Outcome, Sender, SendSettings
from workhook.delivery.sign import SignedRequest

make_sender = pytest.fixture(sending.make_sender)
deliver = pytest.fixture(sending.deliver)


@pytest.fixture(params=["direct", "proxy"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


PATIENT = SendSettings(timeout_s=WAIT_S)  # anything that ends sooner has not waited for the timeout


# --- Requests ---------------------------------------------------------------------------------------------------


async def test_the_request_has_the_given_headers_and_no_others(make_sender: MakeSender) -> None:
    async with receiver(forever()) as there:
        await make_sender().send(there.url, SignedRequest(PREPARED.headers, b'{"a":1}'), insecure_ssl=False)
    [request] = there.requests
    assert request.line == "POST /hook?x=1 HTTP/1.1"
    assert request.body == b'{"a":1}'
    assert request.headers == {**PREPARED.headers, "Host": f"127.0.0.1:{there.port}", "Content-Length": "7"}


async def test_a_large_body_arrives_whole(make_sender: MakeSender) -> None:
    body = bytes(range(256)) * 16_384
    async with receiver(forever()) as there:
        outcome = await make_sender().send(there.url, SignedRequest(PREPARED.headers, body), insecure_ssl=False)
    assert outcome.ok
    assert there.requests[0].body == body


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1: NOT TESTED.")
async def test_an_ipv6_address_is_reached(make_sender: MakeSender) -> None:
    async with receiver(forever(), host="::1") as there:
        outcome = await make_sender().send(there.url_for("[::1]"), PREPARED, insecure_ssl=False)
    assert outcome.ok


# --- Responses --------------------------------------------------------------------------------------------------


async def test_the_response_is_part_of_the_outcome(deliver: Deliver) -> None:
    outcome = await deliver(once(b"HTTP/1.1 202 Accepted\r\nX-A: 1\r\nContent-Type: text/plain\r\n\r\nthanks"))
    assert (outcome.ok, outcome.status, outcome.status_code) == (True, "OK", 202)
    assert outcome.response_headers == {"X-A": "1", "Content-Type": "text/plain"}
    assert outcome.response_body == b"thanks"
    assert outcome.retry_after is None
    assert outcome.duration_ms >= 0


@pytest.mark.parametrize("code", [300, 304, 400, 403, 404, 410, 500, 503, 599])
async def test_a_status_code_outside_2xx_is_a_failure(deliver: Deliver, code: int) -> None:
    outcome = await deliver(once(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nretry-after: 7\r\n\r\n" % code))
    assert failure(outcome) == (f"Invalid HTTP Response: {code}", code)
    assert outcome.retry_after == "7"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(make_sender: MakeSender, code: int) -> None:
    async with receiver(forever()) as elsewhere:
        answer = b"HTTP/1.1 %d X\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (code, elsewhere.url.encode())
        async with receiver(forever(answer)) as there:
            outcome = await send(make_sender(), there)
    assert failure(outcome) == (f"Invalid HTTP Response: {code}", code)
    assert outcome.response_headers["Location"] == elsewhere.url
    assert elsewhere.connections == []


async def test_cookies_are_not_kept(make_sender: MakeSender) -> None:
    sender = make_sender(resolver=Names(["127.0.0.1"]))  # a name, because cookies of bare addresses are ignored anyway
    async with receiver(forever(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n")) as there:
        for _ in range(2):
            outcome = await sender.send(there.url_for("receiver.example"), PREPARED, insecure_ssl=False)
            assert outcome.response_headers["Set-Cookie"] == "a=b; Path=/"
    assert "Cookie" not in there.requests[1].headers


@pytest.mark.parametrize("code", [0, 99, 101, 199, 600, 999])
async def test_a_status_code_outside_http_is_malformed(deliver: Deliver, code: int) -> None:
    head = b"HTTP/1.1 %03d X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" % code
    outcome = await deliver(once(head))
    assert failure(outcome) == (CLOSED if code == 199 else MALFORMED)  # 199 announces a further response


async def test_interim_responses_are_skipped(deliver: Deliver) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    outcome = await deliver(once(interim + b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert (outcome.ok, outcome.status_code, outcome.response_headers) == (True, 204, {})


async def test_the_number_of_interim_responses_is_bounded(deliver: Deliver) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        while True:
            await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    assert failure(await deliver(script)) == MALFORMED


async def test_repeated_and_undecodable_headers_become_text(deliver: Deliver) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nX-U: \xc3\xa9\r\nX-L: \xe9\xff\r\nContent-Length: 0\r\n\r\n"
    outcome = await deliver(once(head))
    assert outcome.response_headers == {"X-A": "1, 2", "X-U": "é", "X-L": "éÿ", "Content-Length": "0"}


async def test_a_single_header_may_use_the_whole_limit(deliver: Deliver) -> None:
    outcome = await deliver(once(b"HTTP/1.1 200 OK\r\nX-A: %b\r\nContent-Length: 0\r\n\r\n" % (b"a" * 60_000)))
    assert outcome.ok
    assert len(outcome.response_headers["X-A"]) == 60_000


async def test_a_long_reason_phrase_is_accepted(deliver: Deliver) -> None:
    outcome = await deliver(once(b"HTTP/1.1 200 %b\r\nContent-Length: 0\r\n\r\n" % (b"a" * 60_000)))
    assert (outcome.ok, outcome.status) == (True, "OK")


async def test_many_small_headers_fit(deliver: Deliver) -> None:
    fields = b"".join(b"X-%d: a\r\n" % number for number in range(2000))
    outcome = await deliver(once(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 0\r\n\r\n"))
    assert len(outcome.response_headers) == 2001


async def test_a_repeated_content_length_is_accepted(make_sender: MakeSender) -> None:
    """RFC 9110, 8.6. The proxy client refuses it."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\ncontent-length:2\r\n\r\nok"
    sender = make_sender()
    async with receiver(forever(answer)) as there:
        for _ in range(2):
            outcome = await send(sender, there)
            assert (outcome.ok, outcome.response_body) == (True, b"ok")
            assert outcome.response_headers == {"X-A": "1", "Content-Length": "2"}
    assert len(there.connections) == 1


@pytest.mark.parametrize(
    "field",
    [b"X-A: " + b"a" * 66_000, b"X-A: aaaaa\r\n" * 9000 + b"X-A: a", b"\r\n".join([b"X-A: " + b"a" * 40_000] * 2)],
    ids=["one", "many", "two"],
)
async def test_a_head_over_the_limit_is_malformed(deliver: Deliver, field: bytes) -> None:
    assert failure(await deliver(once(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\n"))) == MALFORMED


async def test_an_endless_head_is_cut_off(deliver: Deliver) -> None:
    sent = 0

    async def script(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await connection.send(b"X-A: aaaaa\r\n" * 1000)
            sent += 12_000

    assert failure(await deliver(script)) == MALFORMED
    assert sent < 16_000_000  # besides what the kernel's buffers hold


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.example.com ESMTP\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"<html>hello</html>",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_garbage_is_malformed(deliver: Deliver, answer: bytes) -> None:
    assert failure(await deliver(once(answer))) == MALFORMED


Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def connect_when_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay the client's reader until the receiver's first bytes have arrived."""
    connect = aiohappyeyeballs.start_connection

    async def connect_and_wait(**options: Any) -> socket.socket:
        connected = await connect(**options)
        readable = asyncio.Event()
        running = asyncio.get_running_loop()
        running.add_reader(connected.fileno(), readable.set)
        await readable.wait()
        running.remove_reader(connected.fileno())
        return connected

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", connect_and_wait)


def deliver_to_hasty_receiver(loop: Loop, monkeypatch: pytest.MonkeyPatch, hasty: bytes) -> Outcome:
    """Deliver to a receiver that sends `hasty` before the connection has a reader."""

    async def script(connection: Connection) -> None:
        await connection.send(hasty)
        await connection.wait_closed_by_sender()

    async def run() -> Outcome:
        sender = Sender(AddressPolicy(LOOPBACK))
        async with receiver(script) as there:
            outcome = await send(sender, there)
        await sender.close()
        return outcome

    connect_when_readable(monkeypatch)
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(run())


@LOOPS
def test_a_banner_before_the_request_is_malformed(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = deliver_to_hasty_receiver(loop, monkeypatch, b"220 mail.example.com ESMTP\r\n")
    assert failure(outcome) == MALFORMED


@LOOPS
def test_a_response_sent_before_the_request_is_read_is_accepted(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = deliver_to_hasty_receiver(loop, monkeypatch, b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    assert outcome.status_code == 413


async def test_ended_connections_and_failed_deliveries_leave_no_reference_cycles(
    make_sender: MakeSender,
) -> None:
    body = b"x" * 100_000
    sender, before = make_sender(), sys.getrefcount(body)
    gc.collect()
    gc.disable()
    try:
        for answer in (OK, b"", b"garbage", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"):
            async with receiver(once(answer)) as there:
                for _ in range(2):
                    await sender.send(there.url, SignedRequest(PREPARED.headers, body), insecure_ssl=False)
                await there.connections[-1].closed.wait()
        with closed_port() as port:
            url, large = f"http://127.0.0.1:{port}/", SignedRequest(PREPARED.headers, body)
            assert failure(await sender.send(url, large, insecure_ssl=False)) == ("failed to connect to host", 502)
            del large
        await sender.close()
        await asyncio.sleep(0)  # the loop's callbacks for closed connections
        assert sys.getrefcount(body) == before
        assert [each for each in gc.get_objects() if type(each) is client._Connection] == []
    finally:
        gc.enable()


async def test_a_large_body_is_not_written_to_a_closed_connection(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs a warning for each write to a closed connection."""
    connect_when_readable(monkeypatch)

    async def script(connection: Connection) -> None:
        connection.reset()

    async with receiver(script) as there:
        large = SignedRequest(PREPARED.headers, bytes(8_000_000))
        assert failure(await make_sender().send(there.url, large, insecure_ssl=False)) == CLOSED
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


async def test_canceling_an_answered_request_does_not_end_another(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = make_sender()
    second: list[asyncio.Task[Outcome]] = []
    left = sender._client.release

    def release_to_second(connection: Any, *, is_reusable: bool) -> None:
        left(connection, is_reusable=is_reusable)
        if not second:  # the second request starts before the first caller is resumed
            second.append(asyncio.create_task(send(sender, there)))
            asyncio.get_running_loop().call_soon(first.cancel)

    async with receiver(forever()) as there:
        assert (await send(sender, there)).ok
        monkeypatch.setattr(sender._client, "release", release_to_second)
        first = asyncio.create_task(send(sender, there))
        await asyncio.wait([first])
        assert (await second[0]).ok
    assert len(there.connections) == 1


@LOOPS
def test_a_deadline_in_the_present_is_accepted(loop: Loop) -> None:
    """uvloop then returns another kind of handle."""

    async def run() -> None:
        sender = Sender(AddressPolicy(LOOPBACK), SendSettings(timeout_s=WAIT_S))
        now = asyncio.get_running_loop().time()
        for deadline in (now, now + WAIT_S):
            sender._client._set_timer(deadline)
        async with receiver(forever()) as there:
            assert (await send(sender, there)).ok
        await sender.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


# --- Bodies -----------------------------------------------------------------------------------------------------


async def test_a_body_of_exactly_the_limit_is_kept(deliver: Deliver) -> None:
    outcome = await deliver(once(b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * 65_536))
    assert (outcome.ok, len(outcome.response_body)) == (True, MAX_BODY_BYTES)


@pytest.mark.parametrize("code", [200, 500])
async def test_an_endless_body_is_cut_off_and_its_status_code_counts(deliver: Deliver, code: int) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer(b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n" % code)
        while True:
            await connection.send(b"2710\r\n" + b"y" * 10_000 + b"\r\n")

    outcome = await deliver(script)
    assert (outcome.ok, outcome.status_code) == (code == 200, code)
    assert outcome.response_body == b"y" * MAX_BODY_BYTES


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "raw deflate"])
async def test_an_encoded_body_is_decoded(deliver: Deliver, encoding: str) -> None:
    text = b"hello " * 100
    packed = gzip.compress(text) if "gzip" in encoding else zlib.compress(text, wbits=-15 if " " in encoding else 15)
    name = encoding.removeprefix("raw ").encode()
    outcome = await deliver(
        once(b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (name, len(packed), packed))
    )
    assert (outcome.ok, outcome.response_body) == (True, text)


@pytest.mark.parametrize("length", [30_000_000, 200_000_000])
async def test_a_compression_bomb_is_decoded_up_to_the_limit(deliver: Deliver, length: int) -> None:
    packed = gzip.compress(bytes(1_000_000), 9)
    bomb = gzip.compress(bytes(length), 1) if length < 100_000_000 else packed * 200
    outcome = await deliver(
        once(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(bomb), bomb))
    )
    assert (outcome.ok, outcome.response_body) == (True, bytes(MAX_BODY_BYTES))


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"\xff"])
async def test_a_body_that_cannot_be_decoded_is_kept_unchanged(deliver: Deliver, encoding: bytes) -> None:
    outcome = await deliver(
        once(b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: 3\r\n\r\n\x1fab" % encoding)
    )
    assert (outcome.ok, outcome.response_body) == (True, b"\x1fab")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    ],
)
async def test_a_truncated_body_is_a_failure(deliver: Deliver, answer: bytes) -> None:
    assert failure(await deliver(once(answer))) == CLOSED


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"1;", b"a" * 65_536),
        (b"1;a=", b"b;c=" * 16_384),
        (b"0\r\n", b"X-A: aaaaa\r\n" * 5000),
        (b"0\r\nX-A: ", b"a" * 65_536),
    ],
    ids=["extension", "extensions", "trailers", "trailer"],
)
async def test_endless_chunk_framing_is_cut_off(make_sender: MakeSender, begun: bytes, more: bytes) -> None:
    sent = 0

    async def script(connection: Connection) -> None:
        nonlocal sent
        await connection.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + begun)
        while True:
            await connection.send(more)
            sent += len(more)

    async with receiver(script) as there:
        outcome = await send(make_sender(settings=PATIENT), there)
    assert failure(outcome) == MALFORMED
    assert sent < 16_000_000  # besides what the kernel's buffers hold
    assert outcome.duration_ms < PATIENT.timeout_s * 1000


async def test_a_body_in_one_byte_chunks_arrives_complete(deliver: Deliver) -> None:
    body = b"1\r\nx\r\n" * MAX_BODY_BYTES + b"0\r\n\r\n"
    outcome = await deliver(once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body))
    assert (outcome.ok, outcome.response_body) == (True, b"x" * MAX_BODY_BYTES)


async def test_a_body_with_invalid_chunks_fails_immediately(make_sender: MakeSender) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await connection.send(b"nonsense\r\n")
        await connection.wait_closed_by_sender()

    async with receiver(script) as there:
        outcome = await send(make_sender(settings=PATIENT), there)
    assert failure(outcome) == MALFORMED
    assert outcome.duration_ms < PATIENT.timeout_s * 1000


# --- Endings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partial", [b"", b"HTT", b"HTTP/1.1 200 OK\r\nX-A: 1"])
@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
async def test_a_connection_that_ends_early_is_a_failure(deliver: Deliver, partial: bytes, how: str) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        if partial:
            await connection.send(partial)
        if how == "reset":
            connection.reset()
        elif how == "half-close":
            connection.half_close()
            await connection.wait_closed_by_sender()

    assert failure(await deliver(script)) == CLOSED


async def test_a_response_delimited_by_a_half_close_is_complete(deliver: Deliver) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer(b"HTTP/1.0 200 OK\r\n\r\nall of it")
        connection.half_close()
        await connection.wait_closed_by_sender()

    outcome = await deliver(script)
    assert (outcome.ok, outcome.response_body) == (True, b"all of it")


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nab"]
)
async def test_a_silent_receiver_times_out(make_sender: MakeSender, begun: bytes) -> None:
    ended = asyncio.Event()

    async def script(connection: Connection) -> None:
        try:
            await connection.answer(begun)
            await connection.wait_closed_by_sender()
        finally:
            ended.set()

    async with receiver(script) as there:
        outcome = await send(make_sender(settings=SendSettings(timeout_s=0.5)), there)
        assert failure(outcome) == ("timed out", 504)
        assert outcome.duration_ms >= 500
        await asyncio.wait_for(ended.wait(), WAIT_S)


@pytest.mark.parametrize("where", ["head", "body"])
async def test_a_slowly_dripping_response_times_out(make_sender: MakeSender, where: str) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if where == "body" else b""))
        while True:
            await connection.send(b"a")
            await asyncio.sleep(0.02)  # the slow drip itself

    async with receiver(script) as there:
        assert failure(await send(make_sender(settings=SendSettings(timeout_s=0.3)), there)) == ("timed out", 504)


async def test_cancellation_propagates(make_sender: MakeSender) -> None:
    arrived = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        arrived.set()
        await connection.wait_closed_by_sender()

    async with receiver(script) as there:
        task = asyncio.create_task(send(make_sender(), there))
        await asyncio.wait_for(arrived.wait(), WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(there.connections[0].closed.wait(), WAIT_S)


# --- Kept connections ------------------------------------------------------------------------------------------------
# Connections that are reused for later deliveries: stray bytes, and connections that end between deliveries.


async def test_a_connection_is_reused(make_sender: MakeSender) -> None:
    sender = make_sender()
    async with receiver(forever()) as there:
        for _ in range(3):
            assert (await send(sender, there)).ok
    assert len(there.connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\nstray",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nstray",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nstray",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstray\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokstray",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nokstray",
        OK + b"HTTP/1.1 500 Stale\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n" + b"HTTP/1.1 500 Stale\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_stray_bytes_after_a_response_are_ignored(make_sender: MakeSender, answer: bytes) -> None:
    sender = make_sender()
    expected = int(answer[9:12])
    async with receiver(forever(answer)) as there:
        for _ in range(3):
            outcome = await send(sender, there)
            assert outcome.status_code == expected
            assert outcome.response_body == (b"ok" if expected == 200 else b"")


@pytest.mark.parametrize("stray", [b"stray", b"HTTP/1.1 500 Stale\r\nContent-Length: 0\r\n\r\n"])
async def test_late_bytes_on_a_kept_connection_are_not_a_response(make_sender: MakeSender, stray: bytes) -> None:
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer(b"HTTP/1.1 204 No Content\r\n\r\n")
        if connection.number == 1:
            await go_on.wait()
            await connection.send(stray)
            await connection.wait_closed_by_sender()

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).status_code == 204
        go_on.set()
        await asyncio.wait_for(there.connections[0].closed.wait(), WAIT_S)
        assert (await send(sender, there)).status_code == 204


async def test_a_connection_closed_while_idle_causes_no_failure(make_sender: MakeSender) -> None:
    sender = make_sender()
    async with receiver(once(OK)) as there:
        for _ in range(5):
            assert (await send(sender, there)).ok
            await there.connections[-1].closed.wait()
    assert len(there.requests) == 5


@pytest.mark.parametrize("how", ["close", "reset", "stray"])
async def test_a_kept_connection_that_ends_without_a_response_is_replaced_once(
    make_sender: MakeSender, how: str
) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer()
        if connection.number == 1:
            await connection.request()  # the request was read: delivery is at least once
            if how == "reset":
                connection.reset()
            elif how == "stray":
                await connection.send(b"</body>\n")

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert (await send(sender, there)).ok
    assert len(there.connections) == 2
    assert len(there.requests) == 3


async def test_a_replacement_connection_is_not_replaced_again(make_sender: MakeSender) -> None:
    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
        await connection.request()

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert failure(await send(sender, there)) == CLOSED
    assert len(there.requests) == 3


@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_kept_connection_that_ends_during_a_response_is_not_replaced(
    make_sender: MakeSender, begun: bytes
) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer()
        await connection.answer(begun)

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert failure(await send(sender, there)) == CLOSED
    assert len(there.requests) == 2


async def test_a_replacement_is_a_new_connection(make_sender: MakeSender) -> None:
    """When a receiver restarts, all kept connections to it end."""
    both_open = asyncio.Barrier(2)

    async def script(connection: Connection) -> None:
        await connection.request()
        if connection.number <= 2:
            await both_open.wait()
        await connection.send(OK)
        await connection.request()

    sender = make_sender()
    async with receiver(script) as there:
        assert all(outcome.ok for outcome in await asyncio.gather(send(sender, there), send(sender, there)))
        assert (await send(sender, there)).ok
    assert len(there.requests) == 4


async def test_a_replacement_keeps_the_deadline(make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, given = Client._exchange, list[float]()

    async def record_deadline(self: Client, connection: Any, head: bytes, body: bytes, deadline: float) -> Response:
        given.append(deadline)
        return await exchange(self, connection, head, body, deadline)

    monkeypatch.setattr(Client, "_exchange", record_deadline)

    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
            await connection.request()
            return
        await connection.request()
        await connection.wait_closed_by_sender()

    sender = make_sender(settings=SendSettings(timeout_s=0.5))
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert failure(await send(sender, there)) == ("timed out", 504)
    assert len(there.connections) == 2
    assert given[1] == given[2]


# --- Kept connections to a failing proxy -----------------------------------------------------------------------------
# A failed tunnel must not change the number of counted connections, or the limit would no longer apply.


MOST = 10


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Act as a proxy that answers plain requests itself and closes the connection at `CONNECT`."""
    try:
        while not (await reader.readuntil(b"\r\n\r\n")).startswith(b"CONNECT"):
            await reader.readexactly(2)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def test_failed_tunnels_do_not_lift_the_connection_limit() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = SendSettings(proxy=f"http://127.0.0.1:{port}", timeout_s=30.0, connections_max=MOST)
    sender = Sender(AddressPolicy(("127.0.0.0/8",)), settings)
    prepared = SignedRequest(body=b"{}", headers={"Content-Length": "2"})
    try:
        for _ in range(30):
            refused = await sender.send("https://127.0.0.1:9/x", prepared, insecure_ssl=True)
            assert not refused.ok
        for number in range(1, 41):
            assert (await sender.send(f"http://127.0.0.{number}/x", prepared, insecure_ssl=True)).ok
            assert len(sender._connections._idle) <= MOST  # the proxy sees a close only later
    finally:
        await sender.close()
        server.close()
