"""A webhook receiver that records its requests, in its own thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.harness.waiting import WAIT_S


@dataclass
class Received:
    """A recorded request."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def event(self) -> str:
        return self.headers["x-service-event"]

    @property
    def guid(self) -> str:
        return self.headers["x-service-delivery"]

    def payload(self) -> Any:
        if self.headers["content-type"].startswith("application/x-www-form-urlencoded"):
            return json.loads(parse_qs(self.body.decode())["payload"][0])
        return json.loads(self.body)


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


class Receiver:
    """A receiver. Set `reply` to a function to change its responses. The function may block to simulate a slow
    receiver."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.reply: Callable[[Received], Reply] = lambda received: Reply()
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # otherwise a response in two packets takes 40 ms

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                received = Received(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                with receiver._changed:
                    answer = receiver.reply  # a test that waits for this request may set another reply for the next one
                    receiver.requests.append(received)
                    receiver._changed.notify_all()
                reply = answer(received)
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(reply.body)))
                    self.end_headers()
                    self.wfile.write(reply.body)
                except OSError:
                    self.close_connection = True  # the sender has disconnected, as it may

            def log_message(self, *args: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a sender was killed on purpose

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def wait_for(self, wanted: Callable[[list[Received]], bool] | int, timeout_s: float = WAIT_S) -> list[Received]:
        """Wait for a number of requests or for a condition, and return all requests."""
        condition = wanted if callable(wanted) else lambda requests: len(requests) >= wanted
        with self._changed:
            fine = self._changed.wait_for(lambda: condition(self.requests), timeout_s)
            events = [each.headers.get("x-service-event") for each in self.requests]
            assert fine, f"not within {timeout_s} s; {len(events)} requests came, the last: {events[-20:]}"
            return list(self.requests)

    def events(self, name: str) -> list[Received]:
        with self._changed:
            return [each for each in self.requests if each.headers.get("x-service-event") == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
