"""Sends one POST and limits everything that a receiver controls: time, bytes, redirects, cookies, addresses."""

from __future__ import annotations

import asyncio
import errno
import functools
import re
import ssl
import time
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import structlog

from workhook.core.disclosure import HiddenRepr
from workhook.core.urls import OwnAddress
from workhook.delivery import address_policy, client, metrics
from workhook.delivery.client import Client, ConnectionPool, Response, SendError, Target
from workhook.delivery.dns import LOOKUPS_AT_ONCE, SystemResolver
from workhook.delivery.sign import SignedRequest

if TYPE_CHECKING:
    from workhook.delivery.proxied import ProxyClient

_log = structlog.get_logger(__name__)

MAX_PAYLOAD_BYTES = 25 * 1024 * 1024
_URLS_REMEMBERED = 4096

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")

TIMED_OUT = "timed out"
REFUSED = "address not allowed"
TOO_LARGE = "payload too large, not sent"
UNEXPECTED = "delivery failed"


class SendSettings(HiddenRepr, msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a sender.

    `timeout_s` covers connecting, headers and body together. `proxy` is an http(s) URL. `connections_max` limits open
    connections, including idle ones.
    """

    timeout_s: float = 10.0
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    proxy: str | None = None
    connections_max: int = client.CONNECTIONS_MAX


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one attempt, as the API shows it. `response_body` has at most 64 KiB, decoded if possible."""

    status: str
    status_code: int
    duration_ms: int
    response_headers: dict[str, str]
    response_body: bytes
    retry_after: str | None
    ok: bool


class Sender:
    """Sends deliveries over kept-alive connections. Bound to the running event loop; must be closed."""

    def __init__(
        self,
        policy: address_policy.AddressPolicy,
        settings: SendSettings | None = None,
        *,
        resolver: address_policy.Resolver | None = None,
        own: OwnAddress | None = None,
    ) -> None:
        """`resolver` resolves names (by default, the system's).

        The resulting addresses must be permitted by `policy`, unless `own` recognizes the URL as a receiver inside this
        server.
        """
        self.unexpected_failures = 0  # of unknown kinds; each is logged, and a bug
        self._policy = policy
        self._own = own or OwnAddress()
        self._settings = settings or SendSettings()
        self._loop = asyncio.get_running_loop()
        self._connections = ConnectionPool(self._settings.connections_max)
        resolver = resolver or SystemResolver(max(2, min(LOOKUPS_AT_ONCE, self._settings.connections_max // 4)))
        self._client = Client(policy, resolver, self._connections)
        self._proxied: ProxyClient | None = None
        if self._settings.proxy is not None:
            from workhook.delivery.proxied import ProxyClient  # importing aiohttp takes 0.1 s and 10 MiB

            self._proxied = ProxyClient(self._settings.proxy, policy, resolver, self._connections)
        self._target = functools.lru_cache(_URLS_REMEMBERED)(self._examine)

    @property
    def max_concurrency(self) -> int:
        """The limit of concurrent sends. A send may briefly need two connections, for a host with two addresses."""
        return max(1, self._settings.connections_max * 3 // 4)

    async def send(self, url: str, prepared: SignedRequest, *, insecure_ssl: bool) -> Outcome:
        """POST `prepared` to `url`. Never raises for a receiver's failure.

        Raises `ResourceExhausted` if this process could not open a socket, which does not count as an attempt.
        """
        started = time.perf_counter()
        size = len(prepared.body) if prepared.payload_size is None else prepared.payload_size
        if size > self._settings.max_payload_bytes:
            return _failed(TOO_LARGE, 413, started)
        target = self._target(url, self._own.is_receiver(url))
        if isinstance(target, address_policy.UrlError):
            return _failed(*((REFUSED, 403) if target.code == "unreachable" else (client.NO_HOST, 502)), started)
        deadline = self._loop.time() + self._settings.timeout_s
        try:
            way = self._client if self._proxied is None or target.own else self._proxied
            answer = await way.post(target, prepared.headers, prepared.body, insecure=insecure_ssl, deadline=deadline)
        except Exception as error:  # noqa: BLE001 - whatever happens to one delivery must not reach the others
            trouble = address_policy.as_resource_exhausted(error) if isinstance(error, OSError) else None
            explained = _explain(error)
            if trouble is None and explained is None:
                self.unexpected_failures += 1
                metrics.TROUBLE.labels("send").inc()
                _log.error("delivery_failed_unexpectedly", host=target.host, exc_info=error)
            # Its frames, and those of errors in it, reference the body until the next garbage collection.
            error.__traceback__ = None
            if trouble is not None:
                self._connections.shrink()
                raise trouble from None
            return _failed(*(explained or (UNEXPECTED, 502)), started)
        return _outcome(answer, started)

    async def close(self) -> None:
        self._client.close()
        if self._proxied is not None:
            await self._proxied.close()

    def _examine(self, url: str, is_own: bool) -> Target | address_policy.UrlError:
        fault = None if is_own else address_policy.validate_url(url, self._policy)
        return fault or Target(url, own=is_own)


def _outcome(answer: Response, started: float) -> Outcome:
    code, body = answer.code, answer.body
    head = _read_head(answer.fields)
    if head is None or not 200 <= code <= 599:
        return _failed(client.MALFORMED, 502, started)
    headers, encoding, retry_after = head
    if encoding is not None and body:
        body = _decode(body, encoding)
    ok = code < 300
    status = "OK" if ok else f"Invalid HTTP Response: {code}"
    return Outcome(status, code, _elapsed_ms(started), headers, body, retry_after, ok)


def _read_head(fields: Sequence[tuple[bytes, bytes]]) -> tuple[dict[str, str], str | None, str | None] | None:
    """Return all headers, and the values of Content-Encoding and Retry-After, or None if the headers are too long."""
    headers: dict[str, str] = {}
    spelling: dict[str, str] = {}
    size = 0
    for raw_name, raw_value in fields:
        size += len(raw_name) + len(raw_value) + 4
        if size > client.MAX_HEAD_BYTES:  # before repeated fields are joined
            return None
        name, value = _text(raw_name), _text(raw_value)
        first = spelling.setdefault(name.lower(), name)
        headers[first] = f"{headers[first]}, {value}" if first in headers else value
    encoding, retry_after = spelling.get("content-encoding"), spelling.get("retry-after")
    return headers, headers.get(encoding or ""), headers.get(retry_after or "")


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # the encoding before UTF-8 (RFC 9110, 5.5); lossless
    # Control characters are invalid in headers; each would take six bytes in JSON.
    return text if text.isprintable() else _CONTROL.sub(" ", text)


def _decode(body: bytes, encoding: str) -> bytes:
    """Decode `body` to at most `MAX_BODY_BYTES`. Returns it unchanged if that fails."""
    windows = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}.get(encoding.strip().lower(), ())
    for window in windows:  # "deflate" means zlib (RFC 9110, 8.4.1.2), but some servers omit the zlib header
        try:
            inflater = zlib.decompressobj(window)
            inflated = inflater.decompress(body, client.MAX_BODY_BYTES)
        except zlib.error:
            continue
        return inflated if inflated or inflater.eof else body
    return body


def _failed(status: str, code: int, started: float) -> Outcome:
    return Outcome(status, code, _elapsed_ms(started), {}, b"", None, False)


def _elapsed_ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


def _explain(error: Exception) -> tuple[str, int] | None:
    """Return the status and code, or None for an unknown error. The order matters because the classes overlap."""
    match error:
        case SendError():
            return error.status, 502
        case address_policy.AddressRefused():
            return REFUSED, 403
        case TimeoutError():
            return TIMED_OUT, 504
        case ssl.SSLError():
            return _tls_text(error), 502
        case OSError():
            return _connect_text(error), 502
    return None


def _connect_text(error: OSError) -> str:
    if error.errno in (errno.ENETUNREACH, errno.ENETDOWN):
        return client.NO_NETWORK
    # A reset while connecting happens after the TCP connection was established, in the TLS handshake.
    return client.CLOSED if isinstance(error, ConnectionResetError | ConnectionAbortedError) else client.NO_HOST


def _tls_text(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return error.verify_message
    reason = getattr(error, "reason", None)
    return f"TLS error: {reason.lower().replace('_', ' ')}" if isinstance(reason, str) else "TLS error"
