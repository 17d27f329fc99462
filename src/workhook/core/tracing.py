"""The trace of a change (W3C Trace Context), from the request that made it to the deliveries of its event.

A request may name a trace in its `traceparent` header, and each delivery of its changes passes the trace on. If the
operator has enabled tracing (`core.open_telemetry`), requests and deliveries are recorded as spans of the trace.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from prometheus_client import Counter

HEADER = "traceparent"

# Version, trace ID, span ID and flags: https://www.w3.org/TR/trace-context/#traceparent-header-field-values. Later
# versions may append more after another `-`. Version `ff` and all-zero IDs are invalid.
_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

SPANS = Counter("workhook_spans_total", "Spans accepted by the collector (sent) or not (lost).", ["outcome"])
SENT, LOST = SPANS.labels("sent"), SPANS.labels("lost")

_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


class Trace(NamedTuple):
    """Hexadecimal IDs of the trace (32 digits) and of the parent span (16 digits), and flags from 0 to 255."""

    trace_id: str
    span_id: str
    flags: int

    def header(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


class TraceSpan(Protocol):
    """A timed operation. Its `traceparent` is passed on to the operations it causes."""

    traceparent: str

    def end(self, status: int | None, *, error: str | None) -> None:
        """End the span with the status code of the response, if any, and the kind of failure."""


class SpanMaker(Protocol):
    """The factory of this process's spans. A `parent` of None starts a new trace."""

    def request(self, method: str, route: str, parent: Trace | None) -> TraceSpan:
        """Start the span of a request that this server handles."""

    def attempt(self, url: str, facts: dict[str, str | int], parent: Trace | None) -> TraceSpan:
        """Start the span of a request that this server sends to a receiver. `facts` are its attributes."""


_maker: SpanMaker | None = None


def turn_on(maker: SpanMaker | None) -> None:
    """Use `maker` for the spans of this process from now on. None turns tracing off."""
    global _maker  # per process, like the database of its services
    _maker = maker


def span_maker() -> SpanMaker | None:
    return _maker


def read(header: str | None) -> Trace | None:
    """Parse a `traceparent`. Returns None if it is missing or invalid."""
    found = _FORM.fullmatch(header) if header else None
    if found is None or (found[5] is not None and found[1] == "00"):
        return None
    return Trace(found[2], found[3], int(found[4], 16))


def current() -> str | None:
    return _current.get()


def begin_request(method: str, route: str, header: str | None) -> TraceSpan | None:
    """Start tracing a request with this `traceparent`. Its changes belong to the trace."""
    if _maker is None:
        if header is not None and (trace := read(header)) is not None:
            _current.set(trace.header())
        return None
    span = _maker.request(method, route, read(header))
    _current.set(span.traceparent)
    return span
