"""HTTP on one connection, with limits on the size and slowness of requests from unauthenticated clients.

uvicorn reads request heads of any size and waits for them indefinitely. Requests rejected here never reach the
application.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from workhook.core import json
from workhook.core.errors import Malformed, Problem, TargetTooLong, Unavailable, say
from workhook.core.ids import new_request_id
from workhook.http import messages, request_log
from workhook.http.calls import is_host
from workhook.http.messages import EncodedResponse
from workhook.http.operations import WEBHOOK_API, WORK_API
from workhook.http.problems import render

HEAD_MAX_BYTES = 64 * 1024
HEADERS_MAX = 100
TARGET_MAX_BYTES = 8 * 1024
PIPELINED_MAX = 100  # requests waiting for the response to an earlier one
JOINED_MAX_BYTES = 64 * 1024  # of a body that is copied behind its head
REQUESTS_MAX = 1000  # concurrent; half as many extra connections are accepted, only to be rejected
LINGER_S = 5.0  # for clients that get a response before they have sent the whole request
LINGER_MAX_BYTES = 128 * 1024 * 1024  # of that remaining input, which is discarded

log = structlog.get_logger(__name__)

_CALLBACKS = ("on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete")


class HeadTooLarge(Problem):
    status, code = 431, "head_too_large"


class RequestTooSlow(Problem):
    status, code = 408, "too_slow"


class UnknownCoding(Problem):
    status, code = 501, "unknown_coding"


class _Connection:
    """The transport of a request's cycle. `close` lets the rest of the request arrive; see `_linger`."""

    __slots__ = ("_is_begun", "_protocol")

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self._is_begun = False

    def write(self, data: bytes) -> None:
        if self._is_begun:
            self._protocol.write(data)
        else:
            self._is_begun = True
            self._protocol.hold(data)

    def is_closing(self) -> bool:
        return self._protocol.is_over()

    def close(self) -> None:
        self._protocol.close_when_read()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also closes connections that send too much, send too slowly or do not read."""

    head_timeout_s = 10.0  # from the connection, or from a request's first byte, to the end of its head
    body_timeout_s = 20.0  # how long a body may take at any rate
    body_bytes_s = 16 * 1024  # the minimum rate of a body that takes longer
    read_timeout_s = 30.0  # how long a response may wait for the client to continue reading

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held = b""
        self._refusal: Problem | None = None
        self._refuses_last = False  # after the responses to the waiting requests
        self._lingering = False
        self._lingered: asyncio.TimerHandle | None = None
        self._dropped_bytes = 0
        self._reading: str | None = "head"  # "head", "body", or None between requests
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_of: str | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._arrived = b""
        self._seen = 0  # number of parser callbacks; the parser buffers everything else
        self._untold_bytes = 0
        self._headers = 0
        self._header_bytes = 0
        self._body_bytes = 0
        self._body_began = 0.0

    @property
    def limit_concurrency(self) -> int | None:
        """Return the limit plus the number of long-lived streams, which have their own limit."""
        return None if self._limit is None else self._limit + messages.opened()

    @limit_concurrency.setter
    def limit_concurrency(self, limit: int | None) -> None:
        self._limit = limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's type
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency * 3 // 2:
            self._refuse(_busy())
            return
        self._watch()

    def shutdown(self) -> None:
        self._write_held()  # uvicorn closes the transport itself
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_deadline()
        self._forget_stall()
        if self._lingered is not None:
            self._lingered.cancel()

    def eof_received(self) -> None:
        """Close the transport, without waiting for a client that does not read the rest of a response."""
        self._close()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > LINGER_MAX_BYTES:
                self._close()
        if self.is_over() or self._refusal is not None:
            return
        seen, self._arrived = self._seen, data
        super().data_received(data)
        self._arrived = b""
        if self.is_over() or self._refuses_last:
            return
        # The parser buffers a name or a value until its end, which may never come, in heads and chunk extensions alike.
        self._untold_bytes = self._untold_bytes + len(data) if self._seen == seen else 0
        if self._untold_bytes > HEAD_MAX_BYTES:
            self._refuse(_head_too_large())
        else:
            self._watch()

    # Parser callbacks. An exception ends the parsing, and uvicorn calls `send_400_response`.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._seen += 1
        self._reading = "head"
        self._headers = self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._seen += 1
        if len(self.url) > TARGET_MAX_BYTES:
            self._stop(TargetTooLong(f"The request target is longer than {TARGET_MAX_BYTES} bytes."))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header line. Trailers are counted but dropped.

        As headers they could pass for those of the proxy (RFC 9110, 6.5.1).
        """
        if self._reading == "head":
            super().on_header(name, value)
        self._seen += 1
        self._headers += 1
        self._header_bytes += len(name) + len(value)
        if self._headers > HEADERS_MAX or self._header_bytes > HEAD_MAX_BYTES:
            self._stop(_head_too_large())

    def on_headers_complete(self) -> None:
        fault = _fault_of_head(self.url, self.headers, self.parser.get_http_version())
        if fault is not None:
            self._stop(Malformed(fault))
        coding = next((value for name, value in self.headers if name == b"transfer-encoding"), b"chunked")
        if coding.strip().lower() != b"chunked":
            self._stop(UnknownCoding("The only supported Transfer-Encoding is chunked (RFC 9112, 6.1)."))
        super().on_headers_complete()
        self._seen += 1
        self._reading = "body"
        self._body_bytes = 0
        self._body_began = self.loop.time()
        if len(self.pipeline) > PIPELINED_MAX:
            self.pipeline.popleft()  # this request
            self._refuses_last = True
            self._stop(Malformed("Too many requests are pending on this connection."))

    def on_body(self, body: bytes) -> None:
        self._seen += 1
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and self._framing():
            return  # the body follows, see `_unsupported_upgrade_warning`
        self._seen += 1
        self._reading = None
        super().on_message_complete()
        if self.cycle.response_complete:  # answered before it had ended
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        is_last = self._refuses_last and not self.pipeline
        if self._lingering:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()
        elif is_last and self._refusal is not None:
            self._unset_keepalive_if_required()
            self._write_last(self._refusal, self._note(self._refusal))  # after the responses to the requests before it
        elif self._reading is not None:  # the rest of this request, or the next one, has its own deadline
            self._unset_keepalive_if_required()

    def _unsupported_upgrade_warning(self) -> None:
        """Continue with the body and the next requests, because a server may ignore an upgrade (RFC 9110, 7.8).

        httptools skips the body of a request that asks for one, as Java's HttpClient does for HTTP/2 without TLS. Any
        client can ask, so this is not a warning.
        """
        log.debug("upgrade_ignored")
        upgrade = sys.exception()
        if upgrade is None or self.parser.get_method() == b"CONNECT":
            return  # no HTTP follows
        rest = self._arrived[upgrade.args[0] :]
        self.parser = self._parser_of_rest()
        if rest:
            self._arrived = rest
            super().data_received(rest)

    def _framing(self) -> bytes:
        """Return the header lines that delimit the body of the current request; empty if it has none."""
        lines = [(name, value) for name, value in self.headers if name in (b"content-length", b"transfer-encoding")]
        return b"".join(b"%b: %b\r\n" % line for line in lines if line[1].strip(b"0"))

    def _parser_of_rest(self) -> httptools.HttpRequestParser:
        """Return a parser that reads the body of the current request, if there is one, and the next requests."""
        is_head = True

        def heard(tell: Callable[..., None]) -> Callable[..., None]:
            return lambda *parts: None if is_head else tell(*parts)

        parser = httptools.HttpRequestParser(
            SimpleNamespace(**{name: heard(getattr(self, name)) for name in _CALLBACKS})
        )
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        if framing := self._framing():
            parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n")
        is_head = False
        return parser

    def hold(self, head: bytes) -> None:
        """Keep the head of a response to write it together with data of the same loop iteration, in one system call."""
        self.write(b"")  # the head of the previous response, which had no body
        self._held = head
        self.loop.call_soon(self._write_held)

    def write(self, data: bytes) -> None:
        held, self._held = self._held, b""
        if len(data) > JOINED_MAX_BYTES:
            self.transport.write(held)
            held = b""
        if held or data:
            self.transport.write(held + data)

    def _write_held(self) -> None:
        if self._held and not self.transport.is_closing():
            self.write(b"")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.transport = _Connection(self)  # type: ignore[assignment]  # a cycle uses nothing else
        super()._start_asgi_task(cycle, app if app is self.app else _answer_busy)

    def _current(self) -> RequestResponseCycle | None:
        """Return the current cycle, or None before the first request."""
        return self.cycle

    # Time limits

    def _watch(self) -> None:
        """Set the deadline of the current phase. Most requests arrive in one piece and need none."""
        cycle = self._current()
        answering = cycle is not None and not cycle.response_complete
        wanted = self._reading or (None if answering or self.timeout_keep_alive_task else "head")
        if wanted == self._deadline_of:
            return
        self._forget_deadline()
        if wanted is not None:
            self._deadline_of = wanted
            self._set_deadline(self.head_timeout_s if wanted == "head" else self.body_timeout_s)

    def _set_deadline(self, seconds: float) -> None:
        late = self._head_is_late if self._deadline_of == "head" else self._body_is_late
        self._deadline = self.loop.call_later(seconds, late)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._deadline_of = None

    def _head_is_late(self) -> None:
        if self.flow.read_paused:  # the server is not reading
            self._set_deadline(self.head_timeout_s)
        elif self._seen == 0:  # nothing was requested, so there is no response
            self.transport.close()
        else:
            self._refuse(RequestTooSlow(f"The request head was not complete within {self.head_timeout_s:g} s."))

    def _body_is_late(self) -> None:
        cycle = self.cycle
        if self.flow.read_paused or (cycle.waiting_for_100_continue and not cycle.response_complete):
            self._body_began, self._body_bytes = self.loop.time(), 0  # the server keeps the client waiting
            self._set_deadline(self.body_timeout_s)
        elif cycle.response_complete or self._body_bytes < self.body_bytes_s * (self.loop.time() - self._body_began):
            self._refuse(RequestTooSlow(f"The request body arrived at less than {self.body_bytes_s} bytes per second."))
        else:
            self._set_deadline(self.body_timeout_s / 4)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_stall()
        self._stalled = self.loop.call_later(self.read_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_stall()

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = None

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    # Refusals

    def _stop(self, problem: Problem) -> None:
        self._refusal = problem
        raise problem

    def send_400_response(self, msg: str) -> None:
        if not self._refuses_last:
            self._refuse(self._refusal or Malformed(msg))

    def _refuse(self, problem: Problem) -> None:
        """Close the connection. Respond first, if the client would attribute the response to this request."""
        self._refusal = problem
        cycle = self._current()
        if cycle is None:
            unanswered = True
        else:
            unanswered = not cycle.response_started if self._reading == "body" else cycle.response_complete
        request_id = self._note(problem)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if unanswered and not self.pipeline:
            self._write_last(problem, request_id)
        else:
            self._close()

    def _write_last(self, problem: Problem, request_id: str) -> None:
        self.write(_wire(problem, getattr(self, "url", b""), request_id))
        if self._seen and not self.is_over():
            self._linger()
        else:
            self._close()

    def _note(self, problem: Problem) -> str:
        # Headers may be missing, so the address is the peer's, even behind a proxy.
        return _note(problem, "(none)", self.client[0] if self.client else None)

    def is_over(self) -> bool:
        """Return whether no more responses follow on this connection."""
        return self._lingering or self.transport.is_closing()

    def close_when_read(self) -> None:
        if self._reading == "body" and not self.is_over():
            self._linger()
        else:
            self._close()

    def _linger(self) -> None:
        """Close the sending side, and discard further input.

        Closing while the peer is still sending would reset the connection. The response would be lost, and a proxy
        would consider the server dead for a while.
        """
        self._lingering = True
        self._forget_deadline()
        self._write_held()
        try:
            self.transport.write_eof()
        except OSError as error:  # the peer is already gone, unnoticed by the transport
            log.debug("peer_disconnected", error=str(error))
            self.transport.abort()
            return
        self.flow.resume_reading()
        self._lingered = self.loop.call_later(LINGER_S, self._close)

    def _close(self) -> None:
        """Close the connection, even if the client does not read the rest of the response."""
        self._forget_deadline()
        self._write_held()
        if not self.transport.is_closing():
            self.transport.close()
        self._forget_stall()
        self._stalled = self.loop.call_later(self.read_timeout_s, self.transport.abort)


def _fault_of_head(target: bytes, headers: Sequence[tuple[bytes, bytes]], version: str) -> str | None:
    """Return why a proxy could read the request's host, credentials or body differently, or None if it could not."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(hosts) > 1:
        return "Send exactly one Host header (RFC 9112, 3.2)."
    if not hosts and version != "1.0":
        return "An HTTP/1.1 request requires a Host header (RFC 9112, 3.2)."
    if hosts and not is_host(hosts[0]):
        return "The Host header is not a valid host name or address (RFC 9112, 3.2)."
    if not target.startswith((b"/", b"*")) and hosts:  # in absolute form (RFC 9112, 3.2.2)
        authority = target.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
        if authority.decode("latin-1").lower() != hosts[0].lower():
            return "The Host header does not match the host of the request target."
    names = [name for name, _ in headers]
    if names.count(b"transfer-encoding") > 1:
        return "Send only one Transfer-Encoding header."
    if names.count(b"authorization") > 1:
        return "Send only one Authorization header."
    return None


def _head_too_large() -> Problem:
    return HeadTooLarge(f"A request head can have at most {HEADERS_MAX} headers and {HEAD_MAX_BYTES} bytes.")


def _busy() -> Problem:
    return Unavailable(
        say("The server is handling too many requests at once. Try again in a few seconds."), code="busy"
    )


def _note(problem: Problem, method: str, address: str | None) -> str:
    """Log and count a refusal. Returns the request ID for its response."""
    request_id = new_request_id()
    request_log.record_refusal(problem, request_id=request_id, method=method, route="(none)", address=address)
    request_log.REQUESTS.labels("(none)", "(none)", problem.status).inc()
    return request_id


async def _answer_busy(scope: Any, receive: Any, send: Any) -> None:
    request_id = _note(_busy(), scope["method"], scope["client"][0] if scope.get("client") else None)
    body, headers = _answer(_busy(), scope["raw_path"], request_id)
    await EncodedResponse(body, status=503, headers=headers)(scope, receive, send)


def _wire(problem: Problem, target: bytes, request_id: str) -> bytes:
    body, headers = _answer(problem, target, request_id)
    lines = [f"HTTP/1.1 {problem.status} {_PHRASES.get(problem.status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _answer(problem: Problem, target: bytes, request_id: str) -> tuple[bytes, dict[str, str]]:
    """Render the problem in the style of the requested area, or of the webhook API if that is unknown."""
    area = WORK_API if target.startswith(b"/api/v1/") else WEBHOOK_API
    body = json.encode(render(problem, area, request_id=request_id, documentation_url="/docs"))
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **area.request_headers(request_id),
        **problem.headers,
    }
    return body, headers


_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
}
