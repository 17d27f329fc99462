"""OpenTelemetry spans, sent to a collector with OTLP over HTTP.

Enabled only if a standard variable names the collector and the extra `traces` is installed. Nothing else imports the
SDK, so a process without tracing pays nothing. The other variables of the SDK and its exporter apply as well:
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


def enabling_variable(environ: Mapping[str, str] | None = None) -> str | None:
    environ = os.environ if environ is None else environ
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    return next((name for name in COLLECTORS if environ.get(name)), None)


def fault(environ: Mapping[str, str] | None = None) -> str | None:
    """Return why the requested traces cannot be sent, with the remedy, or None if they can or are not requested."""
    environ = os.environ if environ is None else environ
    variable = enabling_variable(environ)
    if variable is None:
        return None
    if not is_http_url(environ[variable]):
        return f"{variable} must be a URL such as http://127.0.0.1:4318."
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), PROTOCOL)
    if protocol != PROTOCOL:
        return f"Traces are sent by {PROTOCOL}, not by {protocol}: set {PROTOCOLS[1]}={PROTOCOL}."
    try:
        from workhook.core import open_telemetry_spans  # noqa: F401  # only checks that its dependencies are installed
    except ImportError:
        return f"{variable} enables traces: install the extra `traces` (docs/operators/monitoring.md), or unset it."
    return None


def turn_on(role: str) -> Callable[[], None]:
    """Start tracing if it is requested. Returns a function that sends the remaining spans and stops tracing.

    `role` is `serve` or `worker`. Faults are logged, and the process continues without traces.
    """
    if enabling_variable() is None:
        return lambda: None
    if (wrong := fault()) is None:
        from workhook.core import open_telemetry_spans

        try:
            return open_telemetry_spans.start(role)
        except ValueError as error:  # from one of the SDK's own variables
            wrong = f"Correct the variables that begin with OTEL_: {error}"
    logger.warning("traces_disabled", remedy=wrong)
    return lambda: None
