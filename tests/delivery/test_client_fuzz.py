"""Arbitrary bytes as a response: how they are split never matters, and the proxy client agrees about their meaning."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.delivery.receivers import Connection, receiver
from tests.delivery.sending import LOOPBACK, MALFORMED, PREPARED
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.client import MAX_HEAD_BYTES, Client, ConnectionPool, SendError, _Connection
from workhook.delivery.dns import SystemResolver
from workhook.delivery.send import Outcome, Sender, SendSettings

_line = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 304 X\r\n", b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 500\r\n", b"HTTP/1.1 200 \r\n", b"HTTP/1.1 404 Not Found\n", b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 X\r\n", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\nHTTP/1.1 201 C\r\n", b"HTTP/2 200\r\n",
        b"HTTP/1.1 99 X\r\n", b"HTTP/1.1 2000 X\r\n", b"http/1.1 200 OK\r\n", b"\r\nHTTP/1.1 200 OK\r\n",
        b"ICY 200 OK\r\n",
    ]
)  # fmt: skip
_field = st.sampled_from(
    [
        b"Content-Length: 3\r\n", b"content-length:0\r\n", b"Content-Length: 5\r\n", b"Content-Length: +3\r\n",
        b"Content-Length: 3, 3\r\n", b"Content-Length: 99999999999999999999\r\n", b"Content-Length: \r\n",
        b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: Chunked \r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n",
        b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"X-A: 1\r\n", b"x-a:  2 \t\r\n", b"X-E:\r\n", b"X-N: a\x00b\r\n",
        b"X-C: a\x01b\r\n", b"X-F: a\r\n  folded\r\n", b"X B: 1\r\n", b"X-D : 1\r\n", b": none\r\n", b"X-L: 1\n",
        b"X-U: \xc3\xa9\xff\r\n", b"X-R: a\rb\r\n", b"Content-Length : 5\r\n",
        b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: xchunked\r\n", b"Content-Encoding: gzip\r\n",
        b"Retry-After: 5\r\n",
    ]
)  # fmt: skip
_body = st.sampled_from(
    [
        b"", b"abc", b"abcde", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\nX-T: 1\r\n\r\n", b"3\nabc\n0\n\n",
        b"3 \r\nabc\r\n0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"0\r\n\r\n", b"ffffffffffffffffff\r\n", b"-1\r\n",
        b"\r\n", b"abcHTTP/1.1 500 X\r\n\r\n", b"\x00\xff\x0d",
    ]
)  # fmt: skip
_likely = st.builds(
    lambda line, fields, end, body: line + b"".join(fields) + end + body,
    _line,
    st.lists(_field, max_size=4),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b""]),
    _body,
)


def _spoiled(data: bytes, at: int, byte: int) -> bytes:
    at %= len(data) + 1
    return data[:at] + bytes([byte]) + data[at + 1 :]


_responses = st.one_of(
    _likely,
    st.builds(_spoiled, _likely, st.integers(0, 200), st.integers(0, 255)),
    st.binary(max_size=40),
    st.builds(bytes.__add__, _likely, _likely),
)


class _Transport:
    """The part of a transport that a connection uses. It sends nothing."""

    def __init__(self) -> None:
        self.closing = False

    def write(self, data: bytes) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


def _feed(pieces: list[bytes]) -> tuple[object, bool]:
    """Feed a response and the end of the stream to a connection.

    Return the result and whether the connection is kept.
    """

    async def run() -> tuple[object, bool]:
        client = Client(AddressPolicy(LOOPBACK), SystemResolver(), ConnectionPool(4))
        connection, transport = _Connection(client, "any"), _Transport()
        connection.connection_made(transport)  # type: ignore[arg-type]  # implements what is used
        answer = connection.begin(b"POST / HTTP/1.1\r\n\r\n", b"")
        for each in pieces:
            if not transport.closing:
                connection.data_received(each)
        is_kept = answer.done() and not transport.closing
        connection.connection_lost(None)
        error = answer.exception()
        found: Any = answer.result() if error is None else (type(error), str(error))
        client.close()
        return found, is_kept

    return asyncio.run(run())


def test_the_size_of_a_head_is_bounded_even_in_one_piece() -> None:
    for fields in (
        b"a:b\r\n" * 20_000,
        b"Content-Length:1\r\n" * 5000,
        b"a:\r\n" * 17_000 + b"Content-Length:1\r\n" * 2,
    ):
        assert _feed([b"HTTP/1.1 200 OK\r\n" + fields + b"\r\na"]) == ((SendError, MALFORMED[0]), False)


def test_bytes_before_the_request_are_bounded() -> None:
    """A client does not trust the server it connects to: it may send any number of bytes."""

    async def run() -> list[bool]:
        client = Client(AddressPolicy(LOOPBACK), SystemResolver(), ConnectionPool(4))
        connection, transport = _Connection(client, "any"), _Transport()
        connection.connection_made(transport)  # type: ignore[arg-type]  # implements what is used
        closed = []
        for size in (MAX_HEAD_BYTES - 1, 1, 1):
            connection.data_received(bytes(size))
            closed.append(transport.closing)
        connection.connection_lost(None)
        client.close()
        return closed

    assert asyncio.run(run()) == [False, False, True]


@settings(max_examples=300, deadline=None)
@given(_responses, st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_the_split_of_a_response_does_not_matter(answer: bytes, sizes: list[int]) -> None:
    pieces, rest, turn = [], answer, 0
    while rest:
        size = sizes[turn % len(sizes)]
        pieces.append(rest[:size])
        rest, turn = rest[size:], turn + 1
    if answer.lower().count(b"content-length:") > 1:  # repeated lengths are accepted only if they arrive together
        return
    whole, in_pieces = _feed([answer]), _feed(pieces)
    assert in_pieces[0] == whole[0]
    if not answer.endswith((b"\r", b"\n")):  # a trailing line break is accepted only together with the response
        assert in_pieces == whole


async def _outcomes(answer: bytes) -> list[Outcome]:
    async def script(connection: Connection) -> None:
        await connection.answer(answer)

    found = []
    async with receiver(script) as there:
        for proxy in (None, f"http://127.0.0.1:{there.port}"):
            sender = Sender(AddressPolicy(LOOPBACK), SendSettings(proxy=proxy))
            try:
                found.append(await sender.send(there.url, PREPARED, insecure_ssl=False))
            finally:
                await sender.close()
            assert sender.unexpected_failures == 0
    return found


def _facts(outcome: Outcome) -> tuple[object, ...]:
    return outcome.status, outcome.status_code, outcome.response_headers, outcome.response_body


@settings(max_examples=200, deadline=None)
@given(_responses)
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 500 X\r\n\r\n")
def test_the_proxy_client_agrees(answer: bytes) -> None:
    """Compare both clients.

    Only the proxy client refuses repeated lengths, and surplus bytes after a head that ends with a bare line feed.
    """
    direct, proxied = asyncio.run(_outcomes(answer))
    is_bare = re.search(rb"\n\r?\n", answer.replace(b"\r\n\r\n", b""))
    takes_more = is_bare or answer.lower().count(b"content-length:") > 1
    if not (takes_more and (proxied.status, proxied.status_code) == MALFORMED):
        assert _facts(direct) == _facts(proxied)
