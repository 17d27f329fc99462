"""Spans of OpenTelemetry, sent to a collector by OTLP over HTTP.

Only where a standard variable names the collector, and the extra `traces` is installed: nothing else imports the SDK,
and a process without it pays nothing. The other variables that the SDK and its exporter read hold as well:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import structlog

from workhook.core.urls import is_http_url

COLLECTORS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"

logger = structlog.get_logger(__name__)


def asked_for(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the variable that asks for traces, if one does."""
    environ = os.environ if environ is None else environ
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    return next((name for name in COLLECTORS if environ.get(name)), None)


def fault(environ: Mapping[str, str] | None = None) -> str | None:
    """Tell why requested traces cannot be sent, with the remedy; None if they can, or are not requested."""
    environ = os.environ if environ is None else environ
    variable = asked_for(environ)
    if variable is None:
        return None
    if not is_http_url(environ[variable]):
        return f"{variable} has to be an address such as http://127.0.0.1:4318."
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), PROTOCOL)
    if protocol != PROTOCOL:
        return f"Traces are sent by {PROTOCOL}, not by {protocol}: set {PROTOCOLS[1]}={PROTOCOL}."
    try:
        from workhook.core import open_telemetry_spans  # noqa: F401  # only whether what it needs is there
    except ImportError:
        return f"{variable} asks for traces: install `workhook[traces]`, or unset it."
    return None


def turn_on(role: str) -> Callable[[], None]:
    """Make spans in this process if that is asked for; return a function that sends the last of them and ends it.

    `role`: `serve` or `worker`. Faults are logged, and work goes on without traces.
    """
    if asked_for() is None:
        return lambda: None
    if (wrong := fault()) is None:
        from workhook.core import open_telemetry_spans

        try:
            return open_telemetry_spans.start(role)
        except ValueError as error:  # of one of the SDK's own variables
            wrong = f"Correct the variables that begin with OTEL_: {error}"
    logger.warning("no_traces", remedy=wrong)
    return lambda: None
