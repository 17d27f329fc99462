"""Spans of OpenTelemetry, sent to a collector by OTLP over HTTP.

Only where a standard variable names the collector, and the extra `traces` is installed: nothing else imports the SDK,
and a process without it pays nothing. The other variables that the SDK and its exporter read hold as well:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
from prometheus_client import Counter

from workhook import __version__
from workhook.core import tracing
from workhook.core.tracing import Trace

if TYPE_CHECKING:
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanKind, Tracer

COLLECTORS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
LAST_S = 5  # how long a process that ends waits for its last spans

SPANS = Counter("workhook_spans_total", "Spans that the collector has taken (sent) or not (lost).", ["outcome"])
SENT, LOST = SPANS.labels("sent"), SPANS.labels("lost")

logger = structlog.get_logger(__name__)


def asked_for(environ: Mapping[str, str] | None = None) -> str | None:
    """The variable that asks for traces; None: nobody asks."""
    environ = os.environ if environ is None else environ
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    return next((name for name in COLLECTORS if environ.get(name)), None)


def fault(environ: Mapping[str, str] | None = None) -> str | None:
    """Why traces that are asked for cannot be sent, with the remedy; None: they can, or nobody asks."""
    environ = os.environ if environ is None else environ
    variable = asked_for(environ)
    if variable is None:
        return None
    if not _is_address(environ[variable]):
        return f"{variable} has to be an address such as http://127.0.0.1:4318."
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), PROTOCOL)
    if protocol != PROTOCOL:
        return f"Traces are sent by {PROTOCOL}, not by {protocol}: set {PROTOCOLS[1]}={PROTOCOL}."
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401  # only whether it is there
    except ImportError:
        return f"{variable} asks for traces: install `workhook[traces]`, or unset it."
    return None


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        return False


def turn_on(role: str) -> Callable[[], None]:
    """Make spans in this process if that is asked for; answers what sends the last of them and ends it.

    `role`: what the process does, `serve` or `worker`. What is wrong is told in the log and stops nothing: work goes on
    without traces.
    """
    variable, wrong = asked_for(), fault()
    if variable is None:
        return lambda: None
    if wrong is not None:
        logger.warning("no_traces", remedy=wrong)
        return lambda: None
    try:
        return _turn_on(role)
    except ValueError as error:  # of one of the SDK's own variables
        logger.warning("no_traces", remedy=f"Correct the variables that begin with OTEL_: {error}")
        return lambda: None


def _turn_on(role: str) -> Callable[[], None]:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    own = Resource({"service.name": "workhook", "service.version": __version__, "workhook.process": role})
    resource = Resource.create().merge(own).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_counted()))
    tracing.turn_on(_SdkSpanMaker(provider.get_tracer("workhook", __version__)))

    def end() -> None:
        tracing.turn_on(None)
        # It sends what is left, with the exporter's own retries. A collector that is away holds nobody up for long.
        last = threading.Thread(target=provider.shutdown, name="workhook-spans", daemon=True)
        last.start()
        last.join(LAST_S)
        if last.is_alive():
            logger.warning("last_spans_lost", remedy="See whether the collector runs.")

    return end


def _counted() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Counted(SpanExporter):
        """Tells of what is lost: the exporter gives up after some retries."""

        def __init__(self) -> None:
            self._exporter = OTLPSpanExporter()

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = self._exporter.export(spans)
            if result is SpanExportResult.SUCCESS:
                SENT.inc(len(spans))
            else:
                LOST.inc(len(spans))
                logger.warning("spans_lost", spans=len(spans), remedy="See whether the collector runs and takes OTLP.")
            return result

        def shutdown(self) -> None:
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    return Counted()


class _SdkSpan:
    """A span of the SDK, as `tracing` sees it."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: OtelSpan) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = Trace(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags).header()

    def end(self, status: int | None, *, error: str | None) -> None:
        from opentelemetry.trace import StatusCode

        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if error is not None:
            self._span.set_status(StatusCode.ERROR)
            self._span.set_attribute("error.type", error)
        self._span.end()


class _SdkSpanMaker:
    """Names and attributes are those of the conventions for HTTP:
    https://opentelemetry.io/docs/specs/semconv/http/http-spans/. No span has a path or a query, of the request or of
    a receiver: links there hold secrets.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def request(self, method: str, route: str, parent: Trace | None) -> _SdkSpan:
        from opentelemetry.trace import SpanKind

        facts = {"http.request.method": method, "http.route": route}
        return self._begin(f"{method} {route}", SpanKind.SERVER, facts, parent)

    def attempt(self, url: str, facts: dict[str, str | int], parent: Trace | None) -> _SdkSpan:
        from opentelemetry.trace import SpanKind

        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        place: dict[str, str | int] = {"server.address": parts.hostname or "", "server.port": port}
        facts = {"http.request.method": "POST", **place, **facts}
        return self._begin("POST", SpanKind.CLIENT, facts, parent)

    def _begin(self, name: str, kind: SpanKind, facts: Mapping[str, str | int], parent: Trace | None) -> _SdkSpan:
        return _SdkSpan(self._tracer.start_span(name, _context_of(parent), kind, attributes=facts))


def _context_of(parent: Trace | None) -> OtelContext:
    """Nothing else that goes on in this process is the parent of anything."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if parent is None:
        return Context()
    ids = int(parent.trace_id, 16), int(parent.span_id, 16)
    context = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(parent.flags))
    return set_span_in_context(NonRecordingSpan(context), Context())
