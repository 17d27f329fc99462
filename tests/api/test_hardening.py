"""What people with bad intentions try: of a stranger, of a colleague of yesterday, of one with a token of their own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil

from tests.harness.server import Server

MIB = 1024 * 1024


@contextlib.contextmanager
def connection(server: Server) -> Iterator[socket.socket]:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as made:
        yield made


def rest(made: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := made.recv(65536):
            parts.append(part)
    return b"".join(parts)


def memory(server: Server) -> int:
    assert server.process is not None
    return int(psutil.Process(server.process.pid).memory_info().rss)


# --- a stranger ----------------------------------------------------------------------------------------------------


def test_headers_without_an_end_cost_no_memory(server: Server) -> None:
    before = memory(server)
    for line in (b"a:b\r\n", b"x"):
        with connection(server) as made, contextlib.suppress(ConnectionError):
            made.sendall(b"GET / HTTP/1.1\r\na: ")
            for _ in range(320):
                made.sendall(line * (65536 // len(line)))
            rest(made)
    assert memory(server) - before < 20 * MIB


def test_a_head_that_never_ends_is_closed(server: Server) -> None:
    with connection(server) as silent, connection(server) as begun:
        begun.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        assert rest(silent) == b""
        assert rest(begun).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_target_is_bounded(server: Server) -> None:
    with server.client(None) as client:
        assert client.get("/" + "x" * 8000).status_code == 404
        response = client.get("/api/v1/" + "x" * 8192)
        assert (response.status_code, response.json()["code"]) == (414, "target_too_long")
