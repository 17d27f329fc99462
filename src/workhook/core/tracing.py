"""Which trace a change belongs to (W3C Trace Context): from the request that made it to the deliveries of its event.

A request may name a trace in its header `traceparent`; each delivery of what it changed names it again. Where the
operator has asked for traces (`core.open_telemetry`), requests and deliveries are spans of it. Otherwise the trace is
only passed on.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from prometheus_client import Counter

HEADER = "traceparent"

# Version, trace, span and flags: https://www.w3.org/TR/trace-context/#traceparent-header-field-values. A later version
# may have more behind a further `-`. Version `ff` and all-zero ids are invalid.
_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

SPANS = Counter("workhook_spans_total", "Spans accepted by the collector (sent) or not (lost).", ["outcome"])
SENT, LOST = SPANS.labels("sent"), SPANS.labels("lost")

_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


class Trace(NamedTuple):
    """Ids in hexadecimal digits: 32 of the trace, 16 of the span that caused what follows; flags from 0 to 255."""

    trace_id: str
    span_id: str
    flags: int

    def header(self) -> str:
        """The value of a `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


class TraceSpan(Protocol):
    """Something that takes time, seen from outside. `traceparent` names it to what it causes."""

    traceparent: str

    def end(self, status: int | None, *, error: str | None) -> None:
        """End the span. `status`: the code of the answer, if there was one; `error`: the kind of failure."""


class SpanMaker(Protocol):
    """Makes the spans of this process. `parent` None: a trace begins."""

    def request(self, method: str, route: str, parent: Trace | None) -> TraceSpan:
        """A request that this server answers."""

    def attempt(self, url: str, facts: dict[str, str | int], parent: Trace | None) -> TraceSpan:
        """A request that this server sends to a receiver, with what is known about it."""


_maker: SpanMaker | None = None


def turn_on(maker: SpanMaker | None) -> None:
    """Let `maker` make the spans of this process from now on; None: make none."""
    global _maker  # one for the process, as the database of its services is
    _maker = maker


def is_on() -> bool:
    """Tell whether spans are made."""
    return _maker is not None


def read(header: str | None) -> Trace | None:
    """Parse a `traceparent`. Returns None if it is missing or invalid."""
    found = _FORM.fullmatch(header) if header else None
    if found is None or (found[5] is not None and found[1] == "00"):
        return None
    return Trace(found[2], found[3], int(found[4], 16))


def current() -> str | None:
    """Return the `traceparent` of the current request, for its events."""
    return _current.get()


def begin_request(method: str, route: str, header: str | None) -> TraceSpan | None:
    """Begin a request with this `traceparent`. Its changes belong to the trace."""
    if _maker is None:
        if header is not None and (trace := read(header)) is not None:
            _current.set(trace.header())
        return None
    span = _maker.request(method, route, read(header))
    _current.set(span.traceparent)
    return span


def begin_attempt(url: str, facts: dict[str, str | int], header: str | None) -> TraceSpan | None:
    """Begin to send an event to `url`. Its request belongs to the trace in `header`."""
    return None if _maker is None else _maker.attempt(url, facts, read(header))
