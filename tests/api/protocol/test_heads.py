"""Request heads that two programs could interpret differently: host, credentials and body.

The tests use real sockets.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.api.protocol.test_hardening import rest
from tests.harness.server import Server
from tests.harness.world import World

pytestmark = pytest.mark.one_database

OWN = "X-Forwarded-Host: work.example.com\r\nX-Forwarded-Proto: https\r\n"


def send(server: Server, head: str, body: str = "") -> tuple[int, str, str]:
    """Send a request, and return the status, head and body of the response."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=90) as made:
        made.sendall(f"{head}Connection: close\r\n\r\n{body}".encode("latin-1"))
        told, _, said = rest(made).decode().partition("\r\n\r\n")
    return int(told.split()[1]), told, said


AMBIGUOUS = [
    "GET / HTTP/1.1\r\nHost: a.example.com\r\nHost: b.example.com\r\n",
    "GET / HTTP/1.1\r\nHost: a.example.com\r\nhost: a.example.com\r\n",
    "GET / HTTP/1.0\r\nHost: a.example.com\r\nHost: b.example.com\r\n",
    "GET / HTTP/1.1\r\n",
    "GET / HTTP/1.1\r\nHost:\r\n",
    "GET / HTTP/1.1\r\nHost: a.example.com, b.example.com\r\n",
    "GET / HTTP/1.1\r\nHost: user@a.example.com\r\n",
    "GET / HTTP/1.1\r\nHost: a.example.com/path\r\n",
    "GET / HTTP/1.1\r\nHost: a.example.com:port\r\n",
    "GET http://b.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n",
    "GET /user HTTP/1.1\r\nHost: a.example.com\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
    "POST /user HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 2\r\nContent-Length: 3\r\n",
    "POST /user HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "POST /user HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "POST /user HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    "POST /user HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked, chunked\r\n",
    "GET / HTTP/1.1\r\nHost : a.example.com\r\n",
]


@pytest.mark.parametrize("head", AMBIGUOUS)
def test_an_ambiguous_head_is_refused(server: Server, head: str) -> None:
    status, _, body = send(server, head)
    assert status == 400, head
    assert json.loads(body)["status"] == "400"


@pytest.mark.parametrize("coding", ["gzip, chunked", "x, chunked", "identity, chunked", "gzip"])
def test_an_unsupported_transfer_coding_is_refused(server: Server, coding: str) -> None:
    """RFC 9112, 6.1. Otherwise the body would be misinterpreted."""
    head = f"POST /user HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: {coding}\r\n"
    status, _, body = send(server, head, "0\r\n\r\n")
    assert status == 501
    assert json.loads(body)["message"].startswith("The only supported Transfer-Encoding is chunked")


@pytest.mark.parametrize("coding", ["chunked", "Chunked", " CHUNKED"])
def test_chunked_bodies_are_accepted(server: Server, coding: str) -> None:
    head = f"GET /user HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding:{coding}\r\n"
    assert send(server, head, "0\r\n\r\n")[0] == 401


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.0\r\n",
        "GET / HTTP/1.1\r\nHost: a.example.com\r\n",
        "GET / HTTP/1.1\r\nHost: A.example.com:8000\r\n",
        "GET / HTTP/1.1\r\nHost: [2001:db8::1]:8000\r\n",
        "GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n",
        "GET http://a.example.com:80/?x=1 HTTP/1.1\r\nHost: A.example.com:80\r\n",
    ],
)
def test_an_unambiguous_head_is_accepted(server: Server, head: str) -> None:
    assert send(server, head)[0] == 200


@pytest.mark.parametrize(
    "forged",
    [
        "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: http\r\n" + OWN,
        "X-Forwarded-Host: evil.example, work.example.com\r\nX-Forwarded-Proto: http, https\r\n",
        "X-Forwarded-Host: a, b\r\nX-Forwarded-Host: evil.example, work.example.com\r\nX-Forwarded-Proto: https\r\n",
    ],
)
def test_only_the_proxys_own_headers_count(new_server: Callable[..., Server], forged: str) -> None:
    server = new_server(trust_proxy=True)
    _, _, body = send(server, f"GET / HTTP/1.1\r\nHost: inside:8000\r\n{forged}")
    assert json.loads(body)["documentation_url"] == "https://work.example.com/docs"


def test_a_trailer_is_not_treated_as_a_header(new_server: Callable[..., Server]) -> None:
    """Otherwise a client's trailers would override the proxy's own headers."""
    server = new_server(trust_proxy=True)
    forged = "X-Forwarded-Host: evil.example\r\nX-Forwarded-For: 203.0.113.1\r\nAuthorization: Bearer x\r\n"
    head = f"POST /api/v3/nope HTTP/1.1\r\nHost: inside:8000\r\n{OWN}Transfer-Encoding: chunked\r\n"
    _, _, body = send(server, head, f"2\r\n{{}}\r\n0\r\n{forged}\r\n")
    assert json.loads(body)["documentation_url"] == "https://work.example.com/docs"
    head = f"GET /user HTTP/1.1\r\nHost: inside:8000\r\n{OWN}Transfer-Encoding: chunked\r\n"
    status, _, body = send(server, head, f"2\r\n{{}}\r\n0\r\n{forged}\r\n")
    assert (status, json.loads(body)["message"]) == (401, "Requires authentication")


H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
DISPATCH = '{"event_type": "deploy"}'


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_the_body_of_a_request_for_an_upgrade_is_read(
    server: Server, world: World, *, apart: bool, chunked: bool
) -> None:
    """Java's HttpClient asks for HTTP/2 like this. The connection is used again."""
    head = f"POST {world.repo_path}/dispatches HTTP/1.1\r\nHost: a\r\nAuthorization: token {world.token}\r\n{H2C}"
    length, body = f"Content-Length: {len(DISPATCH)}", DISPATCH
    if chunked:
        length, body = "Transfer-Encoding: chunked", f"{len(DISPATCH):x}\r\n{DISPATCH}\r\n0\r\n\r\n"
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=90) as made:
        for _ in range(2):
            pieces = (f"{head}{length}\r\n\r\n", *body) if apart else (f"{head}{length}\r\n\r\n{body}",)
            for piece in pieces:
                made.sendall(piece.encode())
            assert made.recv(4096).startswith(b"HTTP/1.1 204 "), "the body was read"
        made.sendall(
            f"GET / HTTP/1.1\r\nHost: a\r\n{H2C}\r\nGET /zen HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
        )
        assert rest(made).count(b"HTTP/1.1 200 ") == 2


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\n\r\nhello",
        "Content-Length: 0\r\n\r\n",
        "Content-Length: +5\r\n\r\nhello",
        "Content-Length: 5, 5\r\n\r\nhello",
        "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, gzip\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: 0\r\n\r\nhello",
    ],
)
def test_an_upgrade_does_not_change_where_a_request_ends(server: Server, framing: str) -> None:
    """Otherwise a proxy in front could take the rest of a body for another user's request."""
    parts = urlsplit(server.url)

    def statuses(upgrade: str) -> list[bytes]:
        request = f"POST /user HTTP/1.1\r\nHost: a\r\n{upgrade}{framing}"
        with socket.create_connection((parts.hostname, parts.port), timeout=90) as made:
            made.sendall(f"{request}GET /zen HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            return re.findall(rb"HTTP/1\.1 (\d+)", rest(made))

    assert statuses(H2C) == statuses("") != []
