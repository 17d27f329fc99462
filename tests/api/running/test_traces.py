"""Traces from a request to the deliveries of its event: `traceparent`, and spans for an OpenTelemetry collector."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client import REGISTRY

from tests.api.wire import Api, Place
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from tests.harness.world import World
from workhook import __version__
from workhook.core import open_telemetry, tracing

NewServer = Callable[..., Server]
SERVE, WORK = ("serve", "--no-worker", "--port", "0"), ("worker", "--listen", "127.0.0.1:0")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{PARENT}-01"


class Collector:
    """A collector that receives spans by OTLP over HTTP."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.url = receiver.url.removesuffix("/hook")
        receiver.reply = lambda received: Reply(body=b"")

    def spans(self) -> dict[str, list[tuple[str, Span]]]:
        """Return the spans by name, each with the process that created it."""
        found: dict[str, list[tuple[str, Span]]] = {}
        for received in list(self.receiver.requests):
            assert received.path == "/v1/traces"
            body = gzip.decompress(received.body) if "content-encoding" in received.headers else received.body
            for of_process in ExportTraceServiceRequest.FromString(body).resource_spans:
                process = facts(of_process.resource)
                assert (process["service.name"], process["service.version"]) == ("workhook", __version__)
                for span in chain.from_iterable(scope.spans for scope in of_process.scope_spans):
                    found.setdefault(span.name, []).append((str(process["workhook.process"]), span))
        return found

    def of_trace(self, name: str) -> list[tuple[str, Span]]:
        """Return the named spans of the tests' trace in order."""
        found = [each for each in self.spans().get(name, ()) if each[1].trace_id.hex() == TRACE]
        return sorted(found, key=lambda each: each[1].start_time_unix_nano)


def facts(what: Any) -> dict[str, object]:
    """Return the attributes of a span or a process."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in what.attributes}


@pytest.fixture
def collector(other: Receiver, monkeypatch: pytest.MonkeyPatch) -> Collector:
    found = Collector(other)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    return found


@pytest.fixture
def other() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def test_a_trace_spans_two_processes(new_server: NewServer, collector: Collector, receiver: Receiver) -> None:
    serving = new_server(command=SERVE)
    new_server(command=WORK, delivery_retry_first_s=0.05)
    world = serving.world()
    with serving.client(world.token) as client:
        hook = _hook(client, world, receiver, f"{receiver.url}?key=hidden")
        replies = iter([Reply(status=503), Reply()])
        receiver.reply = lambda received: next(replies)
        made = client.post(
            f"/api/v1/projects/{world.project_id}/columns", json={"title": "New"}, headers={"traceparent": GIVEN}
        )
        assert made.status_code == 200, made.text
        route = "POST /api/v1/projects/{id}/columns"
        _, *both = receiver.wait_for(3)
        until(lambda: len(collector.of_trace("POST")) == 2 and collector.of_trace(route))
        [(process, request)] = collector.of_trace(route)
        assert (process, request.parent_span_id.hex(), request.kind) == ("serve", PARENT, Span.SPAN_KIND_SERVER)
        assert facts(request)["http.response.status_code"] == 200
        for received, (process, span) in zip(both, collector.of_trace("POST"), strict=True):
            assert received.headers["traceparent"][:-2] == f"00-{TRACE}-{span.span_id.hex()}-"
            assert (process, span.parent_span_id) == ("worker", request.span_id)
            assert span.kind == Span.SPAN_KIND_CLIENT
            known = facts(span)
            assert (known["workhook.event"], known["workhook.guid"]) == ("column", received.guid)
            assert known["server.address"] == "127.0.0.1"
        (_, failed), (_, fine) = collector.of_trace("POST")
        assert (failed.status.code, facts(failed)["error.type"]) == (Status.STATUS_CODE_ERROR, "503")
        assert (fine.status.code, facts(fine)["http.request.resend_count"]) == (Status.STATUS_CODE_UNSET, 1)
        assert b"hidden" not in b"".join(each.body for each in collector.receiver.requests)
        # Users see the sent header.
        until(lambda: len(Api(client).read(hook["deliveries_url"])) == 3)
        last, *_ = Api(client).read(hook["deliveries_url"])
        sent = Api(client).read(f"{hook['deliveries_url']}/{last['id']}")["request"]["headers"]
        assert sent["traceparent"] == both[1].headers["traceparent"]


def _hook(client: httpx.Client, world: World, receiver: Receiver, url: str | None = None) -> dict[str, Any]:
    """Create a webhook for all events and wait for its ping."""
    place, config = Place("repository", world), {"url": url or receiver.url}
    hook = Api(client).hook(place, config=config, active=True, events=["*"])
    receiver.wait_for(1)
    return hook


def test_a_request_without_a_trace_starts_one(new_server: NewServer, collector: Collector, receiver: Receiver) -> None:
    server = new_server()
    world = server.world()
    with server.client(world.token) as client:
        _hook(client, world, receiver)
        [ping] = receiver.requests
        until(lambda: "POST" in collector.spans())
        [(_, request)] = collector.spans()["POST /repos/{owner}/{repo}/hooks"]
        [(_, attempt)] = collector.spans()["POST"]
        assert not request.parent_span_id
        assert attempt.parent_span_id == request.span_id
        assert ping.headers["traceparent"][:-2] == f"00-{request.trace_id.hex()}-{attempt.span_id.hex()}-"


def test_the_unsampled_flag_is_propagated(new_server: NewServer, collector: Collector, receiver: Receiver) -> None:
    server = new_server()
    world = server.world()
    with server.client(world.token) as client:
        hook = _hook(client, world, receiver)
        client.post(hook["ping_url"], headers={"traceparent": f"00-{TRACE}-{PARENT}-00"}).raise_for_status()
        receiver.wait_for(2)
        header = receiver.requests[-1].headers["traceparent"]
        assert header.startswith(f"00-{TRACE}-")
        assert header.endswith("-00")
    assert server.stop() == 0
    assert all(each.trace_id.hex() != TRACE for _, each in chain.from_iterable(collector.spans().values()))


def test_the_last_spans_are_sent_on_shutdown(
    new_server: NewServer, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    server = new_server()
    with server.client(None) as client:
        client.get("/healthz").raise_for_status()
    assert server.stop() == 0
    assert "GET /healthz" in collector.spans()


def test_without_a_collector_traceparent_is_forwarded_unchanged(server: Server, receiver: Receiver) -> None:
    world = server.world()
    with server.client(world.token) as client:
        hook = _hook(client, world, receiver)
        client.post(hook["ping_url"], headers={"traceparent": GIVEN}).raise_for_status()
        client.post(hook["ping_url"], headers={"traceparent": "nonsense"}).raise_for_status()
        first, *others = receiver.wait_for(3)
    headers = [each.headers.get("traceparent") for each in others]
    assert ("traceparent" in first.headers, sorted(headers, key=str)) == (False, [GIVEN, None])


def test_an_unavailable_collector_does_not_affect_the_server(
    new_server: NewServer, collector: Collector, receiver: Receiver
) -> None:
    collector.receiver.reply = lambda received: Reply(status=400)
    server = new_server()
    world = server.world()
    with server.client(world.token) as client:
        _hook(client, world, receiver)
        until(lambda: 'workhook_spans_total{outcome="lost"} 0.0' not in client.get("/metrics").text)
    assert "spans_lost" in server.log()
    assert server.stop() == 0


def test_shutdown_does_not_wait_for_a_hanging_collector(new_server: NewServer, collector: Collector) -> None:
    """The process ends before the collector has answered, and logs the number of lost spans."""
    answer = threading.Event()

    def hang(received: Received) -> Reply:
        assert answer.wait(WAIT_S)
        return Reply(body=b"")

    collector.receiver.reply = hang
    server = new_server()
    try:
        with server.client(None) as client:
            client.get("/healthz").raise_for_status()
            collector.receiver.wait_for(1)
            client.get("/healthz").raise_for_status()
        assert server.stop() == 0
    finally:
        answer.set()
    assert "spans_lost_at_exit" in server.log()
    assert re.search(r"spans_lost_at_exit\D+[2-9]", server.log())
    assert "spans_lost " not in server.log().replace("spans_lost_at_exit", "")


def test_unsent_spans_are_counted_as_lost_on_shutdown(collector: Collector) -> None:
    """The exporter runs in this process, where the metric can still be read afterwards."""
    answer = threading.Event()

    def hang(received: Received) -> Reply:
        assert answer.wait(WAIT_S)
        return Reply(status=400)

    collector.receiver.reply = hang
    end = open_telemetry.turn_on("serve")
    before = lost_spans()
    try:
        for _ in range(3):
            span = tracing.begin_request("GET", "/somewhere", None)
            assert span is not None
            span.end(200, error=None)
        collector.receiver.wait_for(1)
        end()
        assert lost_spans() == before + 3
    finally:
        answer.set()
    until(lambda: not [each for each in threading.enumerate() if each.name == "workhook-spans"])
    assert lost_spans() == before + 3, "what comes after the end is not counted again"


def lost_spans() -> float:
    found = REGISTRY.get_sample_value("workhook_spans_total", {"outcome": "lost"})
    assert found is not None
    return found
