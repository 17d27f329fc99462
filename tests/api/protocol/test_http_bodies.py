"""Request bodies and query strings in both APIs: malformed input, size limits and media types."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.api.wire import Api, Place, envelope, new_url, refused
from tests.harness.server import Server

pytestmark = pytest.mark.one_database

DEEP = b"[" * 300_000


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"{'a': 1}", b'{"a": 1,}', b"nope", b'{"a": NaN}', b'{"a": 1} x', b'{"a": "\xff"}', b'{"a": "\\ud800"}',
        b"\xef\xbb\xbf{}", b'{"a": 1e999}', DEEP, b'{"a":' * 100_000, b"a=b&c=d", b"\x00", b'{"a": "\n"}',
        b'{"a": 01}', b"\x1f\x8b\x08\x00",
    ],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
def test_an_invalid_json_body_is_refused(api: Api, place: Place, body: bytes) -> None:
    message = "Problems parsing JSON"
    if body == DEEP or body.count(b"{") > 100:
        message += ": lists and objects may be nested 100 levels deep"
    elif b"1e999" in body:
        message += ": a number is too large for a double. Send it as text"
    refused(api.post(place.hooks, content=body), 400, message)
    hook = api.hook(place)
    for path in ("", "/config"):
        refused(api.patch(f"{hook['url']}{path}", content=body), 400, message)
    json_type = {"Content-Type": "application/json"}
    envelope(api.post("/api/v1/projects", content=body, headers=json_type), 400, "malformed")


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"null", b"true", b"[{}]"])
def test_a_body_must_be_an_object(api: Api, place: Place, body: bytes) -> None:
    hook = api.hook(place)
    for method, path in (
        ("POST", place.hooks), ("PATCH", hook["url"]), ("PATCH", f"{hook['url']}/config"),
        ("POST", f"{place.path}/events"),
        ("POST", f"{hook['deliveries_url']}/redeliver"),
    ):  # fmt: skip
        refused(api.request(method, path, content=body), 400, "Body should be a JSON object")


def test_numbers_that_are_too_long_are_refused(api: Api, place: Place) -> None:
    for number in (b"1" * 5000, b"-" + b"9" * 400, b"1e308", b"0." + b"1" * 5000):
        body = b'{"name": "web", "config": {"url": "http://127.0.0.1:9/n", "retries": ' + number + b"}}"
        assert api.post(place.hooks, content=body).status_code in (400, 422)


def test_a_body_has_at_most_a_megabyte(api: Api, place: Place) -> None:
    limit = 1024 * 1024
    body = json.dumps({"name": "web", "config": {"url": new_url()}, "active": False, "pad": ""}).encode()
    padded = body[:-2] + b" " * (limit - len(body)) + body[-2:]
    assert api.post(place.hooks, content=padded).status_code == 201
    message = f"The request body is larger than {limit} bytes."
    refused(api.post(place.hooks, content=padded + b" "), 413, message)

    def chunks() -> Iterator[bytes]:  # sent without Content-Length
        for _ in range(17):
            yield b" " * 65_536

    refused(api.post(place.hooks, content=chunks()), 413, message)
    large = api.post("/api/v1/projects", content=padded + b" ", headers={"Content-Type": "application/json"})
    envelope(large, 413, "too_large")
    assert api.get("/user").status_code == 200


def test_a_body_with_a_too_large_content_length_is_not_read(server: Server, api: Api, place: Place) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.putrequest("POST", place.hooks)
    connection.putheader("Authorization", f"Bearer {place.world.token}")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    assert connection.getresponse().status == 413  # before any of the body was sent
    connection.close()


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/vnd.service+json", "text/plain", "application/octet-stream", ""]
)
def test_the_webhook_api_reads_json_whatever_its_media_type(api: Api, place: Place, media_type: str) -> None:
    body = json.dumps({"name": "web", "config": {"url": new_url()}, "active": False})
    assert api.post(place.hooks, content=body, headers={"Content-Type": media_type}).status_code == 201


def test_a_compressed_body_is_refused_with_an_explanation(api: Api, place: Place) -> None:
    body = gzip.compress(json.dumps({"name": "web", "config": {"url": new_url()}, "title": "Project"}).encode())
    for path, status in ((place.hooks, 400), ("/api/v1/projects", 415)):
        answer = api.post(path, content=body, headers={"Content-Encoding": "gzip"})
        assert (answer.status_code, "without Content-Encoding: gzip" in answer.json()["message"]) == (status, True)
        assert api.post(path, content=b"{}", headers={"Content-Encoding": "identity"}).status_code == 422


def test_the_work_api_requires_json(api: Api) -> None:
    response = api.post("/api/v1/projects", content=b"<a/>", headers={"Content-Type": "text/xml; charset=utf-8"})
    envelope(response, 415, "unsupported_media_type")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    envelope(api.post("/api/v1/projects", content=b"title=Form", headers=form), 415, "unsupported_media_type")
    assert api.post("/api/v1/projects", content=b'{"title": "curl -d"}', headers=form).status_code == 200
    empty = api.post("/api/v1/projects?title=From+the+query", headers={"Content-Type": "application/json"})
    assert empty.json()["project"]["title"] == "From the query"


@pytest.mark.parametrize(
    "accept",
    ["*/*", "application/json", "application/vnd.service+json", "application/vnd.github.v3+json", "text/html", ""],
)
def test_every_accept_header_gets_json(api: Api, accept: str) -> None:
    response = api.get("/user", headers={"Accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json; charset=utf-8")


@pytest.mark.parametrize("query", ["per_page=%ff", "per_page=%00", "%00=1", "a=%c3%28", "a=%ed%a0%80"])
def test_a_malformed_query_string_is_refused(api: Api, place: Place, query: str) -> None:
    refused(api.get(f"{place.hooks}?{query}"), 400, "Problems parsing the query string")
    assert envelope(api.get(f"/api/v1/projects?{query}"), 400, "malformed")


@pytest.mark.parametrize("host", [b"example.com", b"x@example.com"], ids=["unauthorized", "malformed"])
def test_the_connection_stays_open_while_a_refused_body_arrives(server: Server, host: bytes) -> None:
    """A proxy that is still sending would get a reset, lose the response and consider the server dead."""
    parts, length = urlsplit(server.url), 4 * 1024 * 1024
    head = b"POST /api/v1/projects HTTP/1.1\r\nHost: %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port or 0), timeout=60) as connection:
        connection.sendall(head % (host, length))
        answer = b""
        while part := connection.recv(65536):
            answer += part
        assert answer.split()[1] in (b"400", b"401")
        for _ in range(length // 65536):
            connection.sendall(b"x" * 65536)
