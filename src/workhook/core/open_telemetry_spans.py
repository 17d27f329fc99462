"""Spans of the OpenTelemetry SDK. Imported only by `core.open_telemetry`, and only if tracing is enabled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from workhook import __version__
from workhook.core import tracing
from workhook.core.tracing import LOST, SENT, Trace

LAST_S = 1  # how long a process waits for its last spans at the end

logger = structlog.get_logger(__name__)


def start(role: str) -> Callable[[], None]:
    """Start creating spans. Returns a function that stops it. Raises `ValueError` for an invalid SDK variable."""
    own = Resource({"service.name": "workhook", "service.version": __version__, "workhook.process": role})
    resource = Resource.create().merge(own).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = _CountedExporter()
    provider.add_span_processor(_CountedProcessor(exporter))
    tracing.turn_on(_SdkSpanMaker(provider.get_tracer("workhook", __version__)))

    def end() -> None:
        tracing.turn_on(None)
        # The thread sends the remaining spans, with the exporter's own retries, but only for a moment.
        last = threading.Thread(target=provider.shutdown, name="workhook-spans", daemon=True)
        last.start()
        last.join(LAST_S)
        if lost := exporter.give_up():
            logger.warning("spans_lost_at_exit", count=lost, remedy="Check that the collector is running and responds.")

    return end


class _CountedExporter(OTLPSpanExporter):
    """An exporter that gives up after some retries. Counts sent and lost spans, in any thread, and logs lost ones."""

    def __init__(self) -> None:
        super().__init__()
        self._counting = threading.Lock()
        self._ended = 0  # without an outcome
        self._is_over = False

    def add(self) -> None:
        with self._counting:
            self._ended += 1

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        is_sent = result is SpanExportResult.SUCCESS
        with self._counting:
            if self._is_over:  # already counted as lost
                return result
            self._ended -= len(spans)
            (SENT if is_sent else LOST).inc(len(spans))
        if not is_sent:
            remedy = "Check that the collector is running and accepts OTLP."
            logger.warning("spans_lost", count=len(spans), remedy=remedy)
        return result

    def give_up(self) -> int:
        """Count the remaining spans as lost, and return their number."""
        with self._counting:
            lost, self._ended, self._is_over = self._ended, 0, True
        LOST.inc(lost)
        return lost


class _CountedProcessor(BatchSpanProcessor):
    def __init__(self, exporter: _CountedExporter) -> None:
        super().__init__(exporter)
        self._counted = exporter

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and span.context.trace_flags.sampled:
            self._counted.add()
        super().on_end(span)


class _SdkSpan:
    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = Trace(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags).header()

    def end(self, status: int | None, *, error: str | None) -> None:
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if error is not None:
            self._span.set_status(StatusCode.ERROR)
            self._span.set_attribute("error.type", error)
        self._span.end()


class _SdkSpanMaker:
    """A factory of spans that follow https://opentelemetry.io/docs/specs/semconv/http/http-spans/.

    They never contain the path or query of a request or of a receiver's URL, because links contain secrets.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def request(self, method: str, route: str, parent: Trace | None) -> _SdkSpan:
        facts = {"http.request.method": method, "http.route": route}
        return self._begin(f"{method} {route}", SpanKind.SERVER, facts, parent)

    def attempt(self, url: str, facts: dict[str, str | int], parent: Trace | None) -> _SdkSpan:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        place: dict[str, str | int] = {"server.address": parts.hostname or "", "server.port": port}
        facts = {"http.request.method": "POST", **place, **facts}
        return self._begin("POST", SpanKind.CLIENT, facts, parent)

    def _begin(self, name: str, kind: SpanKind, facts: Mapping[str, str | int], parent: Trace | None) -> _SdkSpan:
        context = Context()  # independent of other spans in this process
        if parent is not None:
            ids = int(parent.trace_id, 16), int(parent.span_id, 16)
            remote = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(parent.flags))
            context = set_span_in_context(NonRecordingSpan(remote), context)
        return _SdkSpan(self._tracer.start_span(name, context, kind, attributes=facts))
