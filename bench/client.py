"""A small HTTP client over persistent connections that records exactly when a response has been read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import uvloop

from bench.processes import CannotMeasure

Answered = tuple[int, float]
"""Status, and when the whole response had been read (seconds of the monotonic clock)."""


class Connection(asyncio.Protocol):
    """A connection that handles one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answered: asyncio.Future[Answered] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(rest) < length:
            return
        self._received = b""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result((int(head.split(b" ", 2)[1]), time.monotonic()))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(CannotMeasure(f"the connection was closed: {error}"))

    async def request(self, data: bytes) -> Answered:
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._answered

    def close(self) -> None:
        self._transport.close()


class Pool:
    """Connections to one server, each used for one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._idle: list[Connection] = []

    async def request(self, data: bytes) -> Answered:
        if self._idle:
            connection = self._idle.pop()
        else:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(Connection, self._host, self._port)
        answer = await connection.request(data)
        self._idle.append(connection)
        return answer

    def close(self) -> None:
        for connection in self._idle:
            connection.close()


def get(path: str, token: str) -> bytes:
    """Return the bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def post(path: str, body: bytes, token: str | None = None, method: str = "POST") -> bytes:
    """Return the bytes of a request with a body."""
    who = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\n{who}Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Exchange(NamedTuple):
    """When a request was sent, and when its whole response had been read (seconds of the monotonic clock)."""

    sent_s: float
    read_s: float

    @property
    def ms(self) -> float:
        return (self.read_s - self.sent_s) * 1000


def send_all(
    url: str, requests: Sequence[bytes], *, expected: int, at_once: int = 1, per_s: float | None = None
) -> list[Exchange]:
    """Send all requests over persistent connections.

    `at_once` are in flight at a time, or `per_s` are sent each second without waiting for responses.

    Raises `CannotMeasure` for any status other than `expected`.
    """
    found: dict[int, Exchange] = {}

    async def run() -> None:
        pool = Pool(url)

        async def send(number: int) -> None:
            sent_s = time.monotonic()
            status, read_s = await pool.request(requests[number])
            if status != expected:
                raise CannotMeasure(f"the server answered {status} to {requests[number].split(b' HTTP', 1)[0]!r}")
            found[number] = Exchange(sent_s, read_s)

        count = len(requests)
        await (closed_loop(send, count, at_once) if per_s is None else open_loop(send, count, per_s))
        pool.close()

    uvloop.run(run())
    return [found[number] for number in range(len(requests))]


Send = Callable[[int], Awaitable[None]]


async def closed_loop(send: Send, count: int, workers: int) -> None:
    """Call `send` once for each number, `workers` at a time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await send(number)

    await asyncio.gather(*(work() for _ in range(workers)))


async def open_loop(send: Send, count: int, per_s: float) -> None:
    """Call `send` for each number at its scheduled time, whether or not earlier calls have finished."""
    started = time.monotonic()
    tasks = []
    for number in range(count):
        wait_s = started + number / per_s - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        tasks.append(asyncio.ensure_future(send(number)))
    await asyncio.gather(*tasks)
