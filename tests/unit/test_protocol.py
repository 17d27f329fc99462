"""The limits of one connection, tested on real sockets with short timeouts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from tests.harness.waiting import WAIT_S, until
from workhook.http import protocol
from workhook.http.protocol import HEADERS_MAX, PIPELINED_MAX, BoundedProtocol

SOON_S = WAIT_S
GO_ON: dict[str, asyncio.Event] = {}  # awaited by `/slow`, in the running loop


class Patient(BoundedProtocol):
    """A protocol for tests not concerned with timeouts, so that a stalled machine is not mistaken for a slow client."""

    head_timeout_s = body_timeout_s = read_timeout_s = WAIT_S


class HastyHead(Patient):
    head_timeout_s = 0.5


class HastyBody(Patient):
    body_timeout_s = 0.5


class HastyRead(Patient):
    read_timeout_s = 0.5


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the number of bytes received.

    `/early` does not wait for the body, `/big` sends a large response, and `/slow` sends its head immediately.
    """
    size = 0
    while scope["path"] != "/early":
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        if not message["more_body"]:
            break
    body = b"x" * 50_000_000 if scope["path"] == "/big" else str(size).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/slow":
        await GO_ON["now"].wait()
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def serving(protocol: type[BoundedProtocol], **options: Any) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_config=None, loop="none", **options)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]  # pytest's handlers stay
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1], server
    finally:
        server.should_exit = server.force_exit = True
        await running


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving(Patient) as (port, _):
        yield port


@pytest.fixture
async def hasty_head() -> AsyncIterator[int]:
    async with serving(HastyHead) as (port, _):
        yield port


@pytest.fixture
async def hasty_body() -> AsyncIterator[int]:
    async with serving(HastyBody) as (port, _):
        yield port


class Connection:
    """A client connection, which reads up to the end of a response or of the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(SOON_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = int(head.split("content-length: ")[1].split("\r\n")[0])
            return int(head.split()[1]), await self.reader.readexactly(size)

    async def closed(self) -> bytes:
        """Return everything received until the server closes the connection."""
        async with asyncio.timeout(SOON_S):
            try:
                return await self.reader.read(-1)
            except ConnectionResetError:
                return b""


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def refused(made: Connection, status: int, *, area_a: bool = False, reset: bool = False) -> None:
    """Assert that the request is refused. With `reset`, the connection may be closed before the response is read."""
    try:
        answered, body = await made.answer()
    except (ConnectionError, asyncio.IncompleteReadError):
        assert reset
        return
    assert answered == status
    shown = json.loads(body)
    if area_a:
        assert shown["success"] is False
    else:
        assert shown["status"] == str(status)
    assert await made.closed() == b""


async def test_requests_within_the_limits_are_accepted(port: int) -> None:
    async with connection(port) as made:
        headers = b"".join(b"h%d: x\r\n" % number for number in range(HEADERS_MAX - 2))
        for _ in range(3):
            target = b"/" + b"x" * 8000
            await made.send(
                b"POST " + target + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + headers + b"\r\nhello"
            )
            assert await made.answer() == (200, b"5")


async def test_too_many_tiny_headers_are_refused(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 1_000_000)
        await refused(made, 431, reset=True)


async def test_headers_of_a_large_total_size_are_refused(port: int) -> None:
    async with connection(port) as made:
        await made.send(
            b"GET /api/v1/x HTTP/1.1\r\n" + b"".join(b"h%d: %s\r\n" % (n, b"x" * 8000) for n in range(9)) + b"\r\n"
        )
        await refused(made, 431, area_a=True)


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nh: ",
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nh: ",
    ],
    ids=["value", "name", "chunk extension", "trailer"],
)
async def test_an_endless_line_is_refused(port: int, start: bytes) -> None:
    async with connection(port) as made:
        await made.send(start)
        for _ in range(400):
            await made.send(b"x" * 4096)
        await refused(made, 431, reset=True)


async def test_too_many_trailers_are_refused(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 10_000)
        await refused(made, 431, reset=True)


async def test_endless_blank_lines_are_refused(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"\r\n" * 100_000)
        await refused(made, 431, reset=True)


async def test_a_long_target_is_refused(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"GET /" + b"x" * 8192 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        await refused(made, 414)


async def test_a_connection_without_a_request_is_closed(hasty_head: int) -> None:
    async with connection(hasty_head) as made:
        assert await made.closed() == b""


async def test_a_dripping_head_times_out(hasty_head: int) -> None:
    """Each byte arrives in time, but the head as a whole does not."""
    async with connection(hasty_head) as made:

        async def drip() -> None:
            await made.send(b"GET / HTTP/1.1\r\nh: ")
            while True:
                await made.send(b"x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        await refused(made, 408)
        dripping.cancel()


async def test_the_head_of_a_second_request_times_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connection(port) as made:
        await made.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await made.answer() == (200, b"0")
        monkeypatch.setattr(Patient, "head_timeout_s", 0.5)
        await made.send(b"GET /")
        await refused(made, 408)


async def test_a_missing_body_times_out(hasty_body: int) -> None:
    async with connection(hasty_body) as made:
        await made.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
        await refused(made, 408)


async def test_a_connection_closes_if_the_rest_of_an_answered_body_is_missing(hasty_body: int) -> None:
    async with connection(hasty_body) as made:
        await made.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
        assert await made.answer() == (200, b"0")
        assert await made.closed() == b"", "it has its answer"


async def test_a_body_with_steady_progress_is_accepted(hasty_body: int) -> None:
    """The body takes longer than a slow one is allowed to."""
    async with connection(hasty_body) as made:
        await made.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 640000\r\n\r\n")
        for _ in range(64):
            await made.send(b"x" * 10_000)
            await asyncio.sleep(0.01)
        assert await made.answer() == (200, b"640000")


async def test_a_connection_stays_open_between_requests(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stays open for `timeout_keep_alive`, here 5 s, which exceeds the limit for a head, even after an
    early response."""
    async with connection(port) as made:
        for path in (b"/", b"/early", b"/"):
            await made.send(b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1")
            if path == b"/early":
                assert (await made.answer())[0] == 200
            await made.send(b"2")
            if path != b"/early":
                assert await made.answer() == (200, b"2")
            with monkeypatch.context() as patch, pytest.raises(TimeoutError):
                patch.setattr(Patient, "head_timeout_s", 0.5)
                async with asyncio.timeout(0.8):
                    await made.reader.read(1)


async def test_a_connection_closes_if_the_response_is_not_read() -> None:
    async with serving(HastyRead) as (port, server), connection(port) as made:
        await made.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.to_thread(until, lambda: server.server_state.connections)
        await asyncio.to_thread(until, lambda: not server.server_state.connections)
        assert len(await made.closed()) < 50_000_000


async def test_too_many_pipelined_requests_close_the_connection(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 15)
        for _ in range(15):
            assert await made.answer() == (200, b"0")
        await made.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2000)
        await made.closed()


@pytest.mark.parametrize("count", [2, 40, PIPELINED_MAX + 1])
async def test_pipelined_requests_are_answered_in_order(port: int, count: int) -> None:
    async with connection(port) as made:
        await made.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" * count)
        for _ in range(count):
            assert await made.answer() == (200, b"3")


async def test_pipelined_requests_up_to_the_limit_are_answered(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * (PIPELINED_MAX + 100))
        answers = [await made.answer() for _ in range(PIPELINED_MAX + 2)]
        assert {status for status, _ in answers[:-1]} == {200}
        assert answers[-1][0] == 400
        assert b"Too many requests are pending" in answers[-1][1]
        assert await made.closed() == b""


async def test_too_many_connections_are_refused() -> None:
    async with serving(BoundedProtocol, limit_concurrency=4) as (port, _), contextlib.AsyncExitStack() as stack:
        made = [await stack.enter_async_context(connection(port)) for _ in range(3)]
        await made[0].send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await made[0].answer() == (200, b"0")
        made += [await stack.enter_async_context(connection(port)) for _ in range(3)]
        await made[0].send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        head = await made[0].reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2\r\n" in head
        assert json.loads(await made[0].closed())["status"] == "503"
        made += [await stack.enter_async_context(connection(port)) for _ in range(2)]
        await refused(made[-1], 503)


async def test_an_invalid_request_is_refused(port: int) -> None:
    async with connection(port) as made:
        await made.send(b"\x16\x03\x01 what\r\n\r\n")
        await refused(made, 400)


async def test_the_amount_discarded_after_a_response_is_bounded(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that keeps sending at full speed is disconnected before the timeout."""
    monkeypatch.setattr(protocol, "LINGER_S", WAIT_S * 10)
    monkeypatch.setattr(protocol, "LINGER_MAX_BYTES", 1024 * 1024)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /early HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 999999999999\r\n\r\nab")
    async with asyncio.timeout(WAIT_S):
        assert (await reader.read(-1)).startswith(b"HTTP/1.1 200 ")  # the complete response
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
    writer.close()


async def test_head_and_body_are_sent_in_one_write() -> None:
    written: list[int] = []

    class Counting(Patient):
        def write(self, data: bytes) -> None:
            written.append(len(data))
            super().write(data)

    async with serving(Counting) as (port, _), connection(port) as made:
        await made.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await made.answer() == (200, b"0")
    assert [size for size in written if size] == [1]  # the body, until which the head was buffered


async def test_a_head_does_not_wait_for_a_later_body(port: int) -> None:
    GO_ON["now"] = asyncio.Event()
    async with connection(port) as made:
        await made.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(SOON_S):
            head = await made.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        GO_ON["now"].set()
        async with asyncio.timeout(SOON_S):
            assert await made.reader.readexactly(1) == b"0"


async def test_responses_without_a_body_stay_in_order(port: int) -> None:
    """The refusal of a later request must not overtake the earlier heads."""
    async with connection(port) as made:
        await made.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" * (PIPELINED_MAX + 2))
        said = await made.closed()
    codes = [int(line.split()[1]) for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert codes == [200] * (len(codes) - 1) + [400]
    assert len(codes) > PIPELINED_MAX
