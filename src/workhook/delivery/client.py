"""HTTP/1.1 client that posts one request at a time over each connection and keeps connections alive.

Requests use the target of their URL byte for byte, and no headers besides the given ones. Responses are bounded in
bytes, whatever their framing. Unsolicited bytes close the connection. Sources: RFC 9110 and RFC 9112.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

import aiohappyeyeballs
import httptools
import msgspec
from yarl import URL

from workhook.core.disclosure import HiddenRepr
from workhook.core.urls import request_target
from workhook.delivery import address_policy
from workhook.delivery.address_policy import AddressPolicy, GuardedResolver, Resolver

MAX_HEAD_BYTES = 64 * 1024  # of a response, including preceding interim responses
MAX_BODY_BYTES = 64 * 1024  # the rest of the body is not read
# Includes framing: a 64 KiB body in one-byte chunks takes 0.4 MB. Only framing without content reaches this limit.
MAX_RECEIVED_BYTES = 1536 * 1024
KEEP_ALIVE_S = 15.0
_ONE_WRITE_BYTES = 64 * 1024  # larger bodies are written in pieces, as fast as the transport sends them
_NEXT_ADDRESS_S = 0.25  # RFC 8305, 5
_ADDRESSES_MAX = 8  # addresses tried per host name, because each may take a descriptor

CONNECTIONS_MAX = 4096  # default

NO_HOST = "failed to connect to host"
NO_NETWORK = "failed to connect to network"
CLOSED = "connection closed before a response"
MALFORMED = "malformed response"


def _context(*, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context() if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


# Created at import: a process that is out of descriptors would silently trust no certificate.
CONTEXTS = {True: _context(verify=True), False: _context(verify=False)}


class SendError(Exception):
    """A request without a complete response. `status` is the reason, as in an outcome."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class _StaleConnection(Exception):
    """A kept-alive connection was closed before the first byte of the response."""


class Response(HiddenRepr, msgspec.Struct, frozen=True):
    code: int
    fields: list[tuple[bytes, bytes]]
    body: bytes  # at most `MAX_BODY_BYTES`


class Target:
    """A parsed URL. `own` marks a receiver inside this server, whose address is exempt from the address policy."""

    __slots__ = ("host", "is_literal", "own", "port", "request_head", "tls", "url")

    def __init__(self, url: str, *, own: bool = False) -> None:
        self.url = url
        parsed = URL(url)
        self.own = own
        self.tls = parsed.scheme == "https"
        self.host = parsed.raw_host or ""
        self.port = parsed.port or 0
        self.is_literal = address_policy.parse_ip(self.host) is not None
        self.request_head = f"POST {request_target(url)} HTTP/1.1\r\nHost: {parsed.host_port_subcomponent}\r\n"


class Pooled(Protocol):
    def abort(self) -> None: ...


class ConnectionPool:
    """The connections of a sender, at most `most`. A new connection replaces the one that has been idle longest.

    The pool never blocks, so the sender must not use more than `most` connections at once.
    """

    def __init__(self, limit: int) -> None:
        self._most = limit
        self._opening = 0
        self._used: set[Pooled] = set()
        self._idle: OrderedDict[Pooled, None] = OrderedDict()  # oldest first

    def open(self) -> None:
        self._opening += 1
        self._make_room()

    def opened(self, connection: Pooled | None) -> None:
        """Record the end of an `open`; `connection` is None if it failed."""
        self._opening -= 1
        if connection is not None:
            self._used.add(connection)

    def acquire(self, idle: Pooled) -> None:
        self._idle.pop(idle, None)
        self._used.add(idle)
        self._make_room()

    def release(self, connection: Pooled, *, idle: bool) -> None:
        """Move a connection out of use: it is now `idle`, or closed. Connections to a proxy never counted as used."""
        self._used.discard(connection)
        if idle:
            self._idle[connection] = None
            self._make_room()

    def discard(self, connection: Pooled) -> None:
        self._used.discard(connection)
        self._idle.pop(connection, None)

    def shrink(self) -> None:
        """Close half of the idle connections because the process has run out of descriptors."""
        self._shed((len(self._idle) + 1) // 2)

    def _make_room(self) -> None:
        self._shed(self._opening + len(self._used) + len(self._idle) - self._most)

    def _shed(self, number: int) -> None:
        for _ in range(min(number, len(self._idle))):
            oldest, _ = self._idle.popitem(last=False)
            oldest.abort()  # not closed gracefully: TLS would wait for the peer's close


class _Connection(asyncio.Protocol):
    """One connection, which serves requests sequentially.

    `_answer` is the future of the current request, or None between requests. `_in_head`: the final response head is
    incomplete. `_answer_begun`: something that looks like a response head has arrived.
    """

    def __init__(self, client: Client, key: object) -> None:
        self.key = key
        self.idle_since = 0.0
        self._client = client
        self._loop = client.loop
        self._transport: Any = None  # asyncio's or uvloop's transport, which share no base class
        self._parser: Any = _parser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._requests = 0
        self._early = b""  # received before the first request
        self._unsent: memoryview | None = None
        self._is_paused = False
        self._await_head()

    def _await_head(self) -> None:
        self._in_head = True
        self._answer_begun = False
        self._is_framed = False  # by length or chunks; otherwise the end of the connection ends the body
        self._received = 0
        self._head = b""
        self._head_bytes = 0  # of the header fields
        self._code = 0
        self._fields: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    @property
    def _is_waiting(self) -> bool:
        return self._answer is not None

    def begin(self, head: bytes, body: bytes) -> asyncio.Future[Response]:
        """Send a request. The future may raise `SendError`, `_StaleConnection`, `TimeoutError` or `ssl.SSLError`."""
        answer = self._answer = self._loop.create_future()
        self._requests += 1
        self._await_head()
        if not self.is_open:  # closed right after it was opened: nothing was sent
            self.fail(SendError(CLOSED))
            return answer
        if len(body) <= _ONE_WRITE_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_on()
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        return answer

    def end(self) -> None:
        self.fail(SendError(CLOSED))

    def cancel(self, answer: asyncio.Future[Response]) -> None:
        """Close the connection if it still waits for this response; it may already serve the next request."""
        if self._answer is answer:
            self.end()

    def abort(self) -> None:
        self._transport.abort()

    # --- transport callbacks --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._is_waiting:
            self._parse(data)
        elif self._requests or len(self._early) + len(data) > MAX_HEAD_BYTES:
            # Unsolicited bytes would be parsed as the beginning of the next response.
            self.abort()
        else:
            self._early += data

    def _parse(self, data: bytes) -> None:
        if not self._answer_begun:
            first = data.lstrip(b"\r\n")[:5]
            self._answer_begun = first != b"" and b"HTTP/".startswith(first)
        self._received += len(data)
        if self._in_head:
            self._head += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # our own bug, which the loop reports
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._is_waiting:
                self.abort()  # the response was complete; these bytes follow it
            elif self._in_head and (mended := _with_one_length(self._head)) != self._head:
                self._parser = _parser(self)
                self._await_head()
                self._parse(mended)
            else:
                self._end(SendError(MALFORMED))
            return
        if self._is_waiting and self._received > (MAX_HEAD_BYTES if self._in_head else MAX_RECEIVED_BYTES):
            self.fail(SendError(MALFORMED))

    def eof_received(self) -> None:
        self._end_of_connection(None)
        self.abort()  # closing TLS gracefully would wait for the peer

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.connection_lost(self)
        self._end_of_connection(exc)
        self._parser = None  # breaks a reference cycle that only the garbage collector would free

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._write_on()

    def _write_on(self) -> None:
        while self._unsent and not self._is_paused and self.is_open:
            piece, self._unsent = self._unsent[:_ONE_WRITE_BYTES], self._unsent[_ONE_WRITE_BYTES:]
            self._transport.write(piece)

    # --- parser callbacks -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self._is_waiting:  # a message after the response
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head or not self._is_waiting:  # a trailer
            return
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES or b"\0" in value:
            self.fail(SendError(MALFORMED))
            return
        value = value.rstrip(b" \t")
        self._fields.append((name, value))
        match name.rstrip().lower():
            case b"content-length":
                self._is_framed = True
            case b"transfer-encoding":
                self._is_framed = value.lower().rpartition(b",")[2].strip() == b"chunked"

    def on_headers_complete(self) -> None:
        if not self._is_waiting:
            return
        code = self._parser.get_status_code()
        if 100 <= code <= 199 and code != 101:  # interim response
            self._fields.clear()
            self._is_framed = False
            return
        self._in_head = False
        self._code = code
        if code in (204, 304):  # no body, whatever the headers announce (RFC 9112, 6.3)
            self._finish(is_reusable=not self._is_framed)

    def on_body(self, body: bytes) -> None:
        if not self._is_waiting or self._in_head:
            return
        self._body += body
        if len(self._body) >= MAX_BODY_BYTES:
            self._finish(is_reusable=False)

    def on_message_complete(self) -> None:
        if self._is_waiting and not self._in_head:
            self._finish(is_reusable=True)

    # --- end of a request -------------------------------------------------------------------------------------------

    def _end_of_connection(self, exc: Exception | None) -> None:
        if self._answer is None:
            return
        if self._in_head or self._is_framed:
            self._end(exc if isinstance(exc, ssl.SSLError) else SendError(CLOSED))
        else:
            self._finish(is_reusable=False)

    def _end(self, error: Exception) -> None:
        """Fail the request. It may be retried if the receiver had not begun to respond."""
        is_stale = self._in_head and self._requests > 1 and not self._answer_begun
        self.fail(_StaleConnection() if is_stale else error)

    def fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        self._leave(is_reusable=False)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _finish(self, *, is_reusable: bool) -> None:
        answer, self._answer = self._answer, None
        assert answer is not None
        found = Response(self._code, self._fields, bytes(self._body[:MAX_BODY_BYTES]))
        self._leave(is_reusable=is_reusable and self._parser.should_keep_alive())
        if not answer.done():
            answer.set_result(found)

    def _leave(self, *, is_reusable: bool) -> None:
        is_sent = not self._unsent and not self._transport.get_write_buffer_size()
        self._unsent = None
        self._head, self._fields, self._body = b"", [], bytearray()  # release the memory while the connection is idle
        self._client.release(self, is_reusable=is_reusable and is_sent and self.is_open)


def _parser(connection: _Connection) -> httptools.HttpResponseParser:
    """Return a parser as lenient as those of other clients."""
    parser = httptools.HttpResponseParser(connection)
    parser.set_dangerous_leniencies(
        lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
    )
    return parser


def _with_one_length(data: bytes) -> bytes:
    """Collapse repeated `Content-Length` fields with equal values, which the parser rejects (RFC 9110, 8.6)."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end or len(head) > MAX_HEAD_BYTES:
        return data
    lengths, others = list[bytes](), list[bytes]()
    for line in head.split(b"\r\n"):
        (lengths if line[:15].lower() == b"content-length:" else others).append(line)
    if len(lengths) < 2 or len({line[15:].strip() for line in lengths}) > 1:
        return data
    return b"\r\n".join([*others, lengths[0]]) + end + body


class Client:
    """Connections to receivers that are reached without a proxy. Bound to the running loop.

    Connections with and without certificate verification are kept apart, as are those to receivers in this server.
    """

    def __init__(self, policy: AddressPolicy, resolver: Resolver, pool: ConnectionPool) -> None:
        self.loop = asyncio.get_running_loop()
        self._pool = pool
        self._judged = GuardedResolver(policy, resolver), functools.partial(address_policy.guarded_socket, policy)
        self._unjudged = resolver, address_policy.open_socket
        self._idle: dict[object, list[_Connection]] = {}  # most recently used last
        self._deadlines: dict[_Connection, float] = {}
        self._timer: asyncio.Handle | None = None  # uvloop's handle has no `when` if it is due immediately
        self._timer_at = 0.0
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def post(
        self, target: Target, headers: Mapping[str, str], body: bytes, *, insecure: bool, deadline: float
    ) -> Response:
        """Send one request and read the response by `deadline`, in the loop's time.

        If the receiver closes a kept-alive connection just as it is reused, the request is sent once more on a new one.
        It may then arrive twice: delivery is at least once.
        Raises `SendError`, `TimeoutError`, `AddressRefused` or `ssl.SSLError`, and `OSError` while connecting.
        """
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
            raise ValueError("a header has more than one line")
        head = f"{target.request_head}{lines}Content-Length: {len(body)}\r\n\r\n".encode()
        key = target.tls, target.host, target.port, target.own, insecure
        connection = self._take(key)
        if connection is not None:
            try:
                return await self._exchange(connection, head, body, deadline)
            except _StaleConnection:
                pass
        connection = await self._connect(target, key, insecure, deadline)
        return await self._exchange(connection, head, body, deadline)

    def close(self) -> None:
        self._is_closed = True
        for each in [*self._deadlines, *(each for idle in self._idle.values() for each in idle)]:
            each.end()
        for timer in (self._timer, self._sweeper):
            if timer is not None:
                timer.cancel()

    async def _exchange(self, connection: _Connection, head: bytes, body: bytes, deadline: float) -> Response:
        answer = connection.begin(head, body)
        if not answer.done():
            self._deadlines[connection] = deadline
            self._set_timer(deadline)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.cancel(answer)
            raise
        finally:
            del answer  # its exception's traceback references this frame and therefore the body

    # --- idle connections -------------------------------------------------------------------------------------------

    def _take(self, key: object) -> _Connection | None:
        idle = self._idle.get(key)
        while idle:
            found = idle.pop()
            if found.is_open and self.loop.time() - found.idle_since < KEEP_ALIVE_S:
                self._pool.acquire(found)
                return found
            found.abort()
        return None

    def release(self, connection: _Connection, *, is_reusable: bool) -> None:
        """Return a connection to the pool, or close it, after its request has ended."""
        self._deadlines.pop(connection, None)
        is_idle = is_reusable and not self._is_closed
        if is_idle:
            connection.idle_since = self.loop.time()
            self._idle.setdefault(connection.key, []).append(connection)
            if self._sweeper is None:
                self._sweeper = self.loop.call_later(KEEP_ALIVE_S, self._sweep)
        else:
            connection.abort()
        self._pool.release(connection, idle=is_idle)

    def connection_lost(self, connection: _Connection) -> None:
        self._pool.discard(connection)
        idle = self._idle.get(connection.key, [])
        if connection in idle:
            idle.remove(connection)
        if not idle:
            self._idle.pop(connection.key, None)

    def _sweep(self) -> None:
        now, kept = self.loop.time(), [each for idle in self._idle.values() for each in idle]
        for each in kept:
            if now - each.idle_since >= KEEP_ALIVE_S:
                each.abort()
        self._sweeper = self.loop.call_later(KEEP_ALIVE_S / 3, self._sweep) if kept else None

    # --- deadlines ----------------------------------------------------------------------------------------------------

    def _set_timer(self, deadline: float) -> None:
        """Share one timer among all requests, because a timer for each would cost as much as handling the response."""
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self.loop.call_at(deadline, self._expire), deadline

    def _expire(self) -> None:
        now, self._timer = self.loop.time(), None
        for each in [each for each, deadline in self._deadlines.items() if deadline <= now]:
            each.fail(TimeoutError())
        if self._deadlines:
            self._set_timer(min(self._deadlines.values()))

    # --- new connections --------------------------------------------------------------------------------------------

    async def _connect(self, target: Target, key: object, insecure: bool, deadline: float) -> _Connection:
        self._require_open()
        self._pool.open()
        made: _Connection | None = None
        try:
            async with asyncio.timeout_at(deadline):
                made = await self._open(target, key, insecure)
        finally:
            self._pool.opened(made)
        if self._is_closed:
            made.end()
        self._require_open()
        return made

    def _require_open(self) -> None:
        if self._is_closed:
            raise SendError(CLOSED)

    async def _open(self, target: Target, key: object, insecure: bool) -> _Connection:
        resolver, open_one = self._unjudged if target.own else self._judged
        addresses = [target.host]
        if not target.is_literal:
            addresses = [each["host"] for each in await resolver.resolve(target.host, target.port)]
        found = [_address_info(each, target.port) for each in addresses[:_ADDRESSES_MAX]]
        tried: dict[socket.socket, aiohappyeyeballs.AddrInfoType] = {}

        def new_socket(info: aiohappyeyeballs.AddrInfoType) -> socket.socket:
            made = open_one(info)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tried[made] = info
            return made

        context = CONTEXTS[not insecure] if target.tls else None
        name = target.host.rstrip(".") if target.tls else None  # certificates contain names without the trailing dot
        while True:
            connected = await aiohappyeyeballs.start_connection(
                addr_infos=found, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=self.loop, socket_factory=new_socket
            )
            try:
                made: _Connection
                _, made = await self.loop.create_connection(
                    functools.partial(_Connection, self, key), sock=connected, ssl=context, server_hostname=name
                )
                return made
            except OSError:  # includes `ssl.SSLError`: another address may have the right certificate
                found.remove(tried[connected])
                if not found:
                    raise


def _address_info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
