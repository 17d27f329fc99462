"""Sends one POST, with limits on all that a receiver decides: time, bytes, redirects, cookies, addresses."""

from __future__ import annotations

import asyncio
import errno
import functools
import io
import re
import ssl
import time
import zlib

import aiohttp
import msgspec
import structlog
from aiohttp.abc import AbstractResolver
from aiohttp.http import HttpProcessingError
from aiohttp.streams import StreamReader
from yarl import URL

from workhook.core.disclosure import Secretive
from workhook.core.urls import OwnAddress
from workhook.delivery import address_policy, metrics
from workhook.delivery.connection import (
    CONNECTIONS_MAX,
    MAX_HEAD_BYTES,
    ConnectionPool,
    Connector,
    Post,
    StaleConnection,
    target_of,
)
from workhook.delivery.lookups import LOOKUPS_AT_ONCE, SystemResolver
from workhook.delivery.sign import SignedRequest

_log = structlog.get_logger(__name__)

MAX_PAYLOAD_BYTES = 25 * 1024 * 1024
MAX_BODY_BYTES = 64 * 1024
# aiohttp counts fields besides bytes. A field takes at least 4 bytes ("a:" and the line's end), so that bytes decide.
_MAX_FIELDS = MAX_HEAD_BYTES // 4
_ONE_WRITE_BYTES = 1024 * 1024
_URLS_REMEMBERED = 4096
_KEEPALIVE_S = 15.0

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")

TIMED_OUT = "timed out"
NO_HOST = "failed to connect to host"
NO_NETWORK = "failed to connect to network"
CLOSED = "connection closed before a response"
MALFORMED = "malformed response"
REFUSED = "address not allowed"
TOO_LARGE = "payload too large, not sent"
UNEXPECTED = "delivery failed"


class SendSettings(Secretive, msgspec.Struct, frozen=True, kw_only=True):
    """`timeout_s` covers connecting, headers and body together. `proxy` is an http(s) URL. `connections_max`: open at
    the same time, kept ones included."""

    timeout_s: float = 10.0
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    proxy: str | None = None
    connections_max: int = CONNECTIONS_MAX


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one attempt. The API shows `status` and `status_code` (200-599).

    `response_body` has at most 64 KiB, decoded if possible. `retry_after` is the receiver's header as text.
    """

    status: str
    status_code: int
    duration_ms: int
    response_headers: dict[str, str]
    response_body: bytes
    retry_after: str | None
    ok: bool


class Sender:
    """Sends deliveries over kept connections. Needs a running event loop; belongs to one; close it at the end.

    `unexpected_failures` counts failures that this module does not know: each is logged, and each is a defect. Hooks
    that verify certificates and hooks that do not share no connections, nor do receivers inside the server with others.
    """

    def __init__(
        self,
        policy: address_policy.AddressPolicy,
        settings: SendSettings | None = None,
        *,
        resolver: AbstractResolver | None = None,
        own: OwnAddress | None = None,
    ) -> None:
        """`resolver` answers for names (default: the system's); its answers are judged by `policy`, except where `own`
        says that the URL is a receiver's of this server."""
        self.unexpected_failures = 0
        self._closed = False
        self._policy = policy
        self._own = own or OwnAddress()
        self._settings = settings or SendSettings()
        self._connections = ConnectionPool(self._settings.connections_max)
        self._resolver = resolver or SystemResolver(max(2, min(LOOKUPS_AT_ONCE, self._settings.connections_max // 4)))
        self._sessions: dict[tuple[bool, bool, bool], aiohttp.ClientSession] = {}
        self._timeout = _total_timeout(self._settings.timeout_s)
        self._examine = functools.lru_cache(_URLS_REMEMBERED)(
            lambda url: address_policy.examine_url(url, self._policy) or URL(url)
        )

    @property
    def at_once(self) -> int:
        """The limit of sends in flight. A send may briefly need two connections, for a host with two addresses."""
        return max(1, self._settings.connections_max * 3 // 4)

    async def send(self, url: str, prepared: SignedRequest, *, insecure_ssl: bool) -> Outcome:
        """POST `prepared` to `url`. Never raises for a receiver's fault.

        Raises `OwnTrouble` if this process could not open a socket: that does not count as an attempt.
        """
        started = time.perf_counter()
        size = len(prepared.body) if prepared.payload_size is None else prepared.payload_size
        if size > self._settings.max_payload_bytes:
            return _failed(TOO_LARGE, 413, started)
        is_own = self._own.is_receiver(url)
        target = URL(url) if is_own else self._examine(url)
        if isinstance(target, address_policy.UrlFault):
            return _failed(*((REFUSED, 403) if target.code == "unreachable" else (NO_HOST, 502)), started)
        timeout = self._timeout
        try:
            if self._settings.proxy is not None and not is_own:
                async with asyncio.timeout(self._settings.timeout_s):
                    await address_policy.check_target(target, self._policy, self._resolver)
                timeout = self._time_left(started)
            with target_of(url):
                try:
                    return await self._post(self._session(insecure_ssl, own=is_own), target, prepared, timeout, started)
                except StaleConnection:
                    # The receiver closed a kept connection just as it was used again. Whether it read the request is
                    # not known; deliveries are at least once, so it is sent again, once, on a connection of its own.
                    session = self._session(insecure_ssl, fresh=True, own=is_own)
                    timeout = self._time_left(started)
                    return await self._post(session, target, prepared, timeout, started)
        except Exception as error:  # noqa: BLE001 - whatever happens to one delivery must not reach the others
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            trouble = address_policy.own_trouble(cause) if isinstance(cause, OSError) else None
            if trouble is not None:
                self._connections.give_way()
                raise trouble from None
            explained = _explain(error)
            if explained is None:
                self.unexpected_failures += 1
                metrics.TROUBLE.labels("send").inc()
                _log.error("delivery_failed_unexpectedly", host=target.raw_host, exc_info=error)
                explained = UNEXPECTED, 502
            return _failed(*explained, started)

    async def close(self) -> None:
        """Close every connection. Sends that are under way end as closed connections."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
        await self._resolver.close()

    async def _post(
        self,
        session: aiohttp.ClientSession,
        target: URL,
        prepared: SignedRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, which bounds the body as well
        started: float,
    ) -> Outcome:
        # aiohttp writes bytes in one go and warns about that above a megabyte; a file is written piece by piece.
        data = prepared.body if len(prepared.body) <= _ONE_WRITE_BYTES else io.BytesIO(prepared.body)
        answer = await session.post(target, data=data, headers=prepared.headers, timeout=timeout, allow_redirects=False)
        try:
            code = answer.status
            head = _read_head(answer.raw_headers)
            if head is None or not 200 <= code <= 599:
                return _failed(MALFORMED, 502, started)
            body = await _read_body(answer.content)
        finally:
            if not answer.content.is_eof():
                answer.close()
        headers, encoding, retry_after = head
        if encoding is not None and body:
            body = _decode(body, encoding)
        ok = code < 300
        status = "OK" if ok else f"Invalid HTTP Response: {code}"
        return Outcome(status, code, _elapsed_ms(started), headers, body, retry_after, ok)

    def _time_left(self, started: float) -> aiohttp.ClientTimeout:
        return _total_timeout(max(self._settings.timeout_s - (time.perf_counter() - started), 0.001))

    def _session(self, insecure: bool, *, fresh: bool = False, own: bool = False) -> aiohttp.ClientSession:
        """Return the session for hooks of one TLS setting; `fresh` keeps no connections. `own`: for receivers inside
        the server, whose connections are unchecked and not shared with other URLs of the host."""
        session = self._sessions.get((insecure, fresh, own))
        if session is None:
            if self._closed:
                raise aiohttp.ClientConnectionError("the sender is closed")
            session = self._sessions[insecure, fresh, own] = self._open_session(insecure, fresh, own)
        return session

    def _open_session(self, insecure: bool, fresh: bool, own: bool) -> aiohttp.ClientSession:
        proxy = None if own else self._settings.proxy  # the server's own address means another host to a proxy
        unchecked = own or proxy is not None
        connector = Connector(
            self._connections,
            # aiohttp's own contexts. It has made them when it was imported, when the authorities' files could surely be
            # read: without descriptors, the system would silently trust no certificate.
            ssl=not insecure,
            # Through a proxy, connections go to the proxy, which the operator chose and may be a private address.
            resolver=self._resolver if unchecked else address_policy.GuardedResolver(self._policy, self._resolver),
            socket_factory=address_policy.open_socket
            if unchecked
            else functools.partial(address_policy.guarded_socket, self._policy),
            limit=0,  # lanes decide how much is in flight
            force_close=fresh,
            **({} if fresh else {"keepalive_timeout": _KEEPALIVE_S}),
        )
        return aiohttp.ClientSession(
            connector=connector,
            request_class=Post,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=MAX_BODY_BYTES,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
            max_headers=_MAX_FIELDS,
            proxy=proxy,
            trust_env=False,
        )


def _total_timeout(total_s: float) -> aiohttp.ClientTimeout:
    # Rounding long timeouts up to whole seconds, as aiohttp does by default, would let late answers count.
    return aiohttp.ClientTimeout(total=total_s, ceil_threshold=float("inf"))


def _read_head(fields: tuple[tuple[bytes, bytes], ...]) -> tuple[dict[str, str], str | None, str | None] | None:
    """Return the headers as text (repeated ones joined, in their first spelling), Content-Encoding and Retry-After.

    None if they are over the bound all together.
    """
    headers: dict[str, str] = {}
    spelling: dict[str, str] = {}
    size = 0
    for raw_name, raw_value in fields:
        size += len(raw_name) + len(raw_value) + 4
        name, value = _text(raw_name), _text(raw_value)
        first = spelling.setdefault(name.lower(), name)
        headers[first] = f"{headers[first]}, {value}" if first in headers else value
    if size > MAX_HEAD_BYTES:
        return None
    encoding, retry_after = spelling.get("content-encoding"), spelling.get("retry-after")
    return headers, headers.get(encoding or ""), headers.get(retry_after or "")


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # what the bytes meant before UTF-8 (RFC 9110, 5.5); loses nothing
    # Control characters are invalid there; stored as JSON each would take six bytes for one.
    return text if text.isprintable() else _CONTROL.sub(" ", text)


async def _read_body(content: StreamReader) -> bytes:
    """Read at most `MAX_BODY_BYTES`; the stream is not at its end if there is more. Raises what aiohttp raises."""
    if content.is_eof():
        return b"" if content.at_eof() else content.read_nowait(MAX_BODY_BYTES)
    body = bytearray()
    while len(body) < MAX_BODY_BYTES:
        piece = await content.readany()
        if not piece:
            break
        body += piece
    return bytes(body[:MAX_BODY_BYTES])


def _decode(body: bytes, encoding: str) -> bytes:
    """Remove the content encoding of `body`, at most `MAX_BODY_BYTES`; unchanged if that cannot be done."""
    windows = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}.get(encoding.strip().lower(), ())
    for window in windows:  # "deflate" means zlib (RFC 9110, 8.4.1.2), but some send it without zlib's header
        try:
            inflater = zlib.decompressobj(window)
            inflated = inflater.decompress(body, MAX_BODY_BYTES)
        except zlib.error:
            continue
        return inflated if inflated or inflater.eof else body
    return body


def _failed(status: str, code: int, started: float) -> Outcome:
    return Outcome(status, code, _elapsed_ms(started), {}, b"", None, False)


def _elapsed_ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


def _explain(error: Exception) -> tuple[str, int] | None:
    """Return status and code of an error, or None for an unknown one. The order matters: classes overlap."""
    match error:
        case address_policy.AddressRefused():
            return REFUSED, 403
        case TimeoutError():
            return TIMED_OUT, 504
        case aiohttp.ClientConnectorCertificateError():
            return _tls_text(error.certificate_error), 502
        case aiohttp.ClientConnectorSSLError():
            return _tls_text(error.os_error), 502
        case ssl.SSLError():
            return _tls_text(error), 502
        case aiohttp.ClientProxyConnectionError():
            return NO_NETWORK, 502
        case aiohttp.ClientConnectorError():
            return _connect_text(error.os_error), 502
        case aiohttp.ClientHttpProxyError() | aiohttp.InvalidURL():
            return NO_HOST, 502
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return MALFORMED, 502
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError() | StaleConnection():
            cause = error.__cause__
            return (_tls_text(cause) if isinstance(cause, ssl.SSLError) else CLOSED), 502
        case OSError():
            return _connect_text(error), 502
    return None


def _connect_text(error: OSError) -> str:
    if error.errno in (errno.ENETUNREACH, errno.ENETDOWN):
        return NO_NETWORK
    # A reset while connecting comes after the connection stood, in the handshake.
    return CLOSED if isinstance(error, ConnectionResetError | ConnectionAbortedError) else NO_HOST


def _tls_text(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return error.verify_message
    reason = getattr(error, "reason", None)
    return f"TLS error: {reason.lower().replace('_', ' ')}" if isinstance(reason, str) else "TLS error"
