"""Valid `traceparent` headers, and the conditions for spans."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook import core
from workhook.core import open_telemetry, open_telemetry_spans, tracing
from workhook.core.tracing import Trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("flags", [0, 1, 3])
def test_a_header_is_parsed_and_formatted_identically(flags: int) -> None:
    header = f"00-{TRACE}-{SPAN}-{flags:02x}"
    trace = tracing.read(header)
    assert trace == Trace(TRACE, SPAN, flags)
    assert trace.header() == header


def test_a_later_version_may_have_more_parts() -> None:
    assert tracing.read(f"01-{TRACE}-{SPAN}-01-more") == Trace(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_an_invalid_header_is_ignored(header: str | None) -> None:
    assert tracing.read(header) is None


@given(st.text())
def test_arbitrary_headers_never_crash_the_parser(header: str) -> None:
    trace = tracing.read(header)
    assert trace is None or header.startswith(tuple(f"{number:02x}-{trace.trace_id}" for number in range(255)))


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "workhook"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "True"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_tracing_is_enabled_by_environment_variables(environ: dict[str, str], asked: str | None) -> None:
    assert open_telemetry.enabling_variable(environ) == asked
    assert open_telemetry.fault(environ) is None


def test_an_unsupported_protocol_is_reported() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    wrong = open_telemetry.fault(environ)
    assert wrong is not None
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in wrong


@pytest.mark.parametrize("address", ["nonsense", "grpc://127.0.0.1:4317", "http://", "http://c:port"])
def test_an_invalid_endpoint_is_reported(address: str) -> None:
    wrong = open_telemetry.fault({"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    assert wrong == "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as http://127.0.0.1:4318."


def test_a_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return really(name, *rest, **more)

    monkeypatch.delitem(sys.modules, open_telemetry_spans.__name__)
    monkeypatch.delattr(core, "open_telemetry_spans")
    monkeypatch.setattr(builtins, "__import__", refuse)
    wrong = open_telemetry.fault({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"})
    assert wrong is not None
    assert "install the extra `traces`" in wrong
