"""Posts requests through a proxy, with aiohttp's client and the limits that it lacks.

Requests have no headers besides the given ones. Connections limit the size of response heads, tolerate unsolicited
bytes and report whether they broke before a response began.
"""

from __future__ import annotations

import asyncio
import functools
import io
import ssl
from collections.abc import Callable, Iterator, Mapping
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
from workhook.delivery import address_policy, client
from workhook.delivery.client import ConnectionPool, Response, SendError, Target

# aiohttp also limits the number of fields. One takes at least 4 bytes, so the limit on bytes is reached first.
_MAX_FIELDS = client.MAX_HEAD_BYTES // 4
_ONE_WRITE_BYTES = 1024 * 1024


class _StaleConnection(aiohttp.ClientError):
    """A kept-alive connection was closed before the first byte of the response."""


class _Written:
    """Stand-in for a URL while aiohttp writes the request line."""

    def __init__(self, url: URL, target: str) -> None:
        self.raw_path_qs = target
        self.scheme = url.scheme
        self._absolute = f"{url.scheme}://{url.host_port_subcomponent}{target}"

    def __str__(self) -> str:
        return self._absolute


_target: ContextVar[str | None] = ContextVar("target", default=None)


@contextmanager
def _target_of(url: str) -> Iterator[None]:
    """Send the path and query of `url` byte for byte in requests of class `_Post`.

    yarl would decode and normalize them, so it only provides the host and port.
    """
    token = _target.set(request_target(url))
    try:
        yield
    finally:
        _target.reset(token)


class _Post(aiohttp.ClientRequest):
    """A request with the target set by `_target_of`, and no headers besides the given ones."""

    def update_auto_headers(self, skip_auto_headers: object) -> None:
        """Add no Accept-Encoding: docs/integrators/deliveries.md lists the headers of a delivery."""

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


class ProxyClient:
    """Connections through one proxy, with the interface of `client.Client`.

    The proxy's address is not checked, as the operator chose it. The receiver's is, before the proxy sees it.
    """

    def __init__(
        self,
        proxy: str,
        policy: address_policy.AddressPolicy,
        resolver: address_policy.Resolver,
        pool: ConnectionPool,
    ) -> None:
        self._proxy, self._policy, self._resolver, self._pool = proxy, policy, resolver, pool
        self._sessions: dict[tuple[bool, bool], aiohttp.ClientSession] = {}
        self._is_closed = False

    async def post(
        self, target: Target, headers: Mapping[str, str], body: bytes, *, insecure: bool, deadline: float
    ) -> Response:
        async with asyncio.timeout_at(deadline):
            url = URL(target.url)
            await address_policy.check_target(url, self._policy, self._resolver)
            try:
                with _target_of(target.url):
                    try:
                        return await self._post(self._session(insecure), url, headers, body)
                    except _StaleConnection:
                        return await self._post(self._session(insecure, fresh=True), url, headers, body)
            except Exception as error:
                raise _without_aiohttp(error) from error

    async def close(self) -> None:
        self._is_closed = True
        for session in self._sessions.values():
            await session.close()

    async def _post(
        self, session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str], body: bytes
    ) -> Response:
        # aiohttp writes bytes in a single call and warns above one megabyte; it writes files in pieces.
        data = body if len(body) <= _ONE_WRITE_BYTES else io.BytesIO(body)
        answer = await session.post(url, data=data, headers=headers, allow_redirects=False)
        try:
            return Response(answer.status, list(answer.raw_headers), await _read_body(answer.content))
        finally:
            if not answer.content.is_eof():
                answer.close()

    def _session(self, insecure: bool, *, fresh: bool = False) -> aiohttp.ClientSession:
        """Return the session for hooks with this TLS setting. A `fresh` session never reuses connections."""
        if self._is_closed:
            raise SendError(client.CLOSED)
        if (insecure, fresh) not in self._sessions:
            self._sessions[insecure, fresh] = self._open_session(insecure, fresh)
        return self._sessions[insecure, fresh]

    def _open_session(self, insecure: bool, fresh: bool) -> aiohttp.ClientSession:
        connector = _Connector(
            self._pool,
            ssl=client.CONTEXTS[not insecure],
            resolver=self._resolver,
            socket_factory=address_policy.open_socket,
            limit=0,  # lanes limit the number of requests in flight
            force_close=fresh,
            **({} if fresh else {"keepalive_timeout": client.KEEP_ALIVE_S}),
        )
        return aiohttp.ClientSession(
            connector=connector,
            request_class=_Post,
            timeout=aiohttp.ClientTimeout(total=None),  # the deadline covers everything
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=client.MAX_BODY_BYTES,
            max_line_size=client.MAX_HEAD_BYTES,
            max_field_size=client.MAX_HEAD_BYTES,
            max_headers=_MAX_FIELDS,
            proxy=self._proxy,
            trust_env=False,
        )


async def _read_body(content: StreamReader) -> bytes:
    """Read at most `MAX_BODY_BYTES`; the stream is not at its end if there is more. Propagates aiohttp's exceptions."""
    if content.is_eof():
        return b"" if content.at_eof() else content.read_nowait(client.MAX_BODY_BYTES)
    body = bytearray()
    while len(body) < client.MAX_BODY_BYTES:
        piece = await content.readany()
        if not piece:
            break
        body += piece
    return bytes(body[: client.MAX_BODY_BYTES])


def _without_aiohttp(error: Exception) -> Exception:
    """Map an aiohttp exception to the one `client.Client` raises. The order matters because the classes overlap."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return error.certificate_error
        case aiohttp.ClientProxyConnectionError():
            return address_policy.as_resource_exhausted(error.os_error) or SendError(client.NO_NETWORK)
        case aiohttp.ClientConnectorError():  # includes TLS errors
            return error.os_error
        case aiohttp.ClientHttpProxyError() | aiohttp.InvalidURL():
            return SendError(client.NO_HOST)
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return SendError(client.MALFORMED)
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError() | _StaleConnection():
            cause = error.__cause__
            return cause if isinstance(cause, ssl.SSLError) else SendError(client.CLOSED)
    return error


class _Connector(aiohttp.TCPConnector):
    """aiohttp connector that creates connections of class `_Protocol`. Takes the options of `aiohttp.TCPConnector`."""

    def __init__(self, pool: ConnectionPool, **options: Any) -> None:
        super().__init__(**options)
        self._pooled = pool
        # aiohttp has no public way to choose the protocol. Without this, tests of heads and stray bytes fail.
        protocol: Callable[..., ResponseHandler] = _Protocol
        self._factory = functools.partial(protocol, pool, loop=self._loop)

    # Nor is there a public way to see which connections are idle; `test_send.py` notices if these are gone.

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
            self._pooled.acquire(found.protocol)
        return found

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        pooled = self._conns.get(key)
        if isinstance(protocol, _Protocol):
            self._pooled.release(protocol, idle=pooled is not None and len(pooled) > 0 and pooled[-1][0] is protocol)


class _Protocol(ResponseHandler):
    """One connection, which serves requests sequentially.

    `_in_head`: the final response head is incomplete. `_answer_begun`: something that looks like a response head has
    arrived.
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
        """Handle a parsed head. An interim response (1xx) is followed by another head."""
        code = data[0].code
        if not 100 <= code <= 199 or code == 101:
            self._in_head = False
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if self._in_head and data:
            self._receive_head(data)
        elif data and self._requests and not self._in_body():
            # Unsolicited bytes would be parsed as the beginning of the next response.
            self._drop()
        else:
            self._body_bytes += len(data)
            if self._body_bytes > client.MAX_RECEIVED_BYTES:
                self.set_exception(HttpProcessingError(message="the framing of the body is too large"))
                self._drop()
                return
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._pooled.discard(self)
        super().connection_lost(exc)

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        if self._exception is not None:
            # The first error causes the others. Since Python 3.12, the request is written before the response is read,
            # and the failed write to a connection that was closed after sending a banner would mask the banner.
            return
        if self._in_head and self._requests > 1 and not self._answer_begun:
            exc = _StaleConnection()
        elif self._in_body() and isinstance(exc, HttpProcessingError):
            # Broken chunks: aiohttp closes the connection, but the reader of the body would wait forever.
            assert self._payload is not None
            self._payload.set_exception(exc)
        if exc_cause is None:
            super().set_exception(exc)
        else:
            super().set_exception(exc, exc_cause)

    def _receive_head(self, data: bytes) -> None:
        """Feed the head to the parser before the rest, because an error in the rest would discard the head too."""
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
            if self._in_head and self._head_bytes > client.MAX_HEAD_BYTES:
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
            self.transport.close()  # the pool does not hand out closing connections
