"""The connections of deliveries: aiohttp's, with limits that its client lacks.

A request has no headers of its own. A connection limits the head of an answer, survives bytes that belong to no answer,
and tells whether it broke before an answer began.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace
from yarl import URL

from workhook.core.urls import request_target

MAX_HEAD_BYTES = 64 * 1024
CONNECTIONS_MAX = 4096  # unless less is said
# After the head, with the framing of chunks. 64 KiB of a body are kept, which are 0.4 MB in chunks of one byte. Reading
# stops there, and then the transport does. Only framing without content gets this far.
MAX_BODY_BYTES_RECEIVED = 1536 * 1024


class StaleConnection(aiohttp.ClientError):
    """A kept connection was closed before the first byte of an answer to this request."""


class _Written:
    """Replaces a URL while its request line is written."""

    def __init__(self, url: URL, target: str) -> None:
        self.raw_path_qs = target
        self.scheme = url.scheme
        self._absolute = f"{url.scheme}://{url.host_port_subcomponent}{target}"

    def __str__(self) -> str:
        """A proxy gets the host, too."""
        return self._absolute


_target: ContextVar[str | None] = ContextVar("target", default=None)


@contextmanager
def target_of(url: str) -> Iterator[None]:
    """Let requests of class `Post` have the path and query of `url` byte for byte.

    yarl would decode and normalize them; it decides on the host and the port only.
    """
    token = _target.set(request_target(url))
    try:
        yield
    finally:
        _target.reset(token)


class Post(aiohttp.ClientRequest):
    """A request with the target of `target_of`, with the headers it is given and no others."""

    def update_auto_headers(self, skip_auto_headers: object) -> None:
        """No Accept-Encoding: the specification lists the headers of a delivery."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        target = _target.get()
        if target is None or self.method == hdrs.METH_CONNECT:
            return await super().send(conn)
        url = self.url
        self.url = _Written(url, target)  # type: ignore[assignment]  # aiohttp has no other way to set the target
        try:
            return await super().send(conn)
        finally:
            self.url = url


class ConnectionPool:
    """The connections of a sender, at most `most`. A new one replaces the one that has been idle longest.

    It never waits: the sender must not use more than `most` at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._opening = 0
        self._used: set[_Protocol] = set()
        self._idle: dict[_Protocol, None] = {}  # the oldest first

    def open(self) -> None:
        self._opening += 1
        self._make_room()

    def opened(self, protocol: _Protocol | None) -> None:
        """`protocol` None: it could not be opened."""
        self._opening -= 1
        if protocol is not None:
            self._used.add(protocol)

    def use(self, idle: _Protocol) -> None:
        self.forget(idle)
        self._used.add(idle)
        self._make_room()

    def unuse(self, protocol: _Protocol, *, idle: bool) -> None:
        """It is no longer used: it is `idle`, or closed. Connections to a proxy were never counted as used."""
        self._used.discard(protocol)
        if idle:
            self._idle[protocol] = None
            self._make_room()

    def forget(self, protocol: _Protocol) -> None:
        self._idle.pop(protocol, None)

    def give_way(self) -> None:
        """Close half of the idle connections, because the process has no descriptors left."""
        self._shed((len(self._idle) + 1) // 2)

    def _make_room(self) -> None:
        self._shed(self._opening + len(self._used) + len(self._idle) - self._most)

    def _shed(self, number: int) -> None:
        for _ in range(min(number, len(self._idle))):
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.abort()  # at once: TLS would wait for an answer to its close


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector with connections of class `_Protocol`. Takes the options of `aiohttp.TCPConnector`."""

    def __init__(self, pool: ConnectionPool, **options: Any) -> None:
        super().__init__(**options)
        self._pooled = pool
        # aiohttp has no public way to choose the protocol; the tests of heads and stray bytes fail if this one goes.
        protocol: Callable[..., ResponseHandler] = _Protocol
        self._factory = functools.partial(protocol, pool, loop=self._loop)

    # Nor has it a public way to see which connections are idle; `test_send.py` fails if one of these goes.

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own
    ) -> ResponseHandler:
        self._pooled.open()
        made: ResponseHandler | None = None
        try:
            made = await super()._create_connection(req, traces, timeout)
        finally:
            self._pooled.opened(made if isinstance(made, _Protocol) else None)
        return made

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        found = await super()._get(key, traces)
        if found is not None:
            assert isinstance(found.protocol, _Protocol)
            self._pooled.use(found.protocol)
        return found

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        there = self._conns.get(key)
        if isinstance(protocol, _Protocol):
            self._pooled.unuse(protocol, idle=there is not None and len(there) > 0 and there[-1][0] is protocol)


class _Protocol(ResponseHandler):
    """One connection, which serves requests one after the other.

    `_in_head`: the final answer's head is still to come. `_answer_begun`: something that looks like one has.
    """

    def __init__(self, pool: ConnectionPool, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._pooled = pool
        self._requests = 0
        self._in_head = False
        self._head_bytes = 0
        self._body_bytes = 0
        self._answer_begun = False

    def set_response_params(self, **params: Any) -> None:
        self._requests += 1
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._answer_begun = False
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """A head has been parsed; that of an interim answer (1xx) is not the last."""
        code = data[0].code
        if not 100 <= code <= 199 or code == 101:
            self._in_head = False
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if self._in_head and data:
            self._receive_head(data)
        elif data and self._requests and not self._in_body():
            # Bytes that belong to no answer would be taken for the beginning of the next one.
            self._drop()
        else:
            self._body_bytes += len(data)
            if self._body_bytes > MAX_BODY_BYTES_RECEIVED:
                self.set_exception(HttpProcessingError(message="the framing of the body is too large"))
                self._drop()
                return
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._pooled.forget(self)
        super().connection_lost(exc)

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        if self._exception is not None:
            # The first error is the cause of the others. From Python 3.12 on, the request is written before the answer
            # is read, and the write to a connection that was closed over its banner would hide the banner.
            return
        if self._in_head and self._requests > 1 and not self._answer_begun:
            exc = StaleConnection()
        elif self._in_body() and isinstance(exc, HttpProcessingError):
            # Broken chunks: aiohttp closes the connection, but the reader of the body would wait for ever.
            assert self._payload is not None
            self._payload.set_exception(exc)
        if exc_cause is None:
            super().set_exception(exc)
        else:
            super().set_exception(exc, exc_cause)

    def _receive_head(self, data: bytes) -> None:
        """Feed the parser up to the end of the head and then the rest: a fault in what follows (a body where none
        may be, more bytes than announced) would otherwise take the head with it."""
        if not self._answer_begun:
            first = data.lstrip(b"\r\n")[:5]
            self._answer_begun = first != b"" and b"HTTP/".startswith(first)
        start = 0
        while self._in_head and start < len(data):
            end = data.find(b"\r\n\r\n", start) + 4
            if end < 4:
                end = len(data)
            super().data_received(data[start:end])
            if self._exception is not None:
                return
            self._head_bytes += end - start
            if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
                self.set_exception(HttpProcessingError(message="the head is too large"))
                self._drop()
                return
            start = end
        if start < len(data):
            self.data_received(data[start:])

    def _in_body(self) -> bool:
        return not self._in_head and self._payload is not None and not self._payload.is_eof()

    def _drop(self) -> None:
        if self.transport is not None:
            self.transport.close()  # the pool gives out no connection that is closing
