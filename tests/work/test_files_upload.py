"""Hostile uploads: malformed, oversized, slow and truncated forms."""

from __future__ import annotations

import json
import re
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.harness.waiting import WAIT_S, until
from tests.work.studio import Studio
from workhook.http.calls import Services
from workhook.identity.tables import tokens
from workhook.identity.tokens.issue import digest_of

MIB = 2**20
LIMIT_MIB = 2
BOUNDARY = "----border"
UNKNOWN = "application/octet-stream"
ACTIVE = [
    "text/javascript", "application/javascript", "application/x-javascript", "Text/JavaScript; charset=utf-8",
    "text/ecmascript", "text/javascript1.5", "text/jscript", "text/livescript", "text/x-ecmascript", "text/css",
    "application/xhtml+xml", "application/xml", "application/wasm", "text/xsl",
]  # fmt: skip
FORM = f"multipart/form-data; boundary={BOUNDARY}"
FILE = 'form-data; name="file"; filename="a.txt"'


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Limit uploads to 2 MiB."""
    return {"upload_max_mb": LIMIT_MIB}


def part(disposition: str | bytes, data: bytes = b"", *headers: str) -> bytes:
    shown = disposition if isinstance(disposition, bytes) else disposition.encode()
    lines = [f"--{BOUNDARY}".encode(), b"Content-Disposition: " + shown, *(each.encode() for each in headers)]
    return b"\r\n".join([*lines, b"", data]) + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def send(studio: Studio, body: Any, content_type: str | None = FORM) -> httpx.Response:
    headers = {"Content-Type": content_type} if content_type else {}
    return studio.owner.call("POST", f"{studio.project}/files", content=body, headers=headers)


def refused(studio: Studio, status: int, body: Any, content_type: str | None = FORM) -> dict[str, Any]:
    """Send a request that must be refused, and check that it leaves no file, event or blob."""
    before = blobs(studio)
    headers = {"Content-Type": content_type} if content_type else {}
    problem = studio.owner.refused(status, "POST", f"{studio.project}/files", content=body, headers=headers)
    assert blobs(studio) == before
    assert studio.owner.get(f"{studio.project}/files")["files"] == []
    assert studio.happened() == []
    return problem


def faults(studio: Studio, body: bytes) -> dict[str, str]:
    return {each["field"]: each["code"] for each in refused(studio, 422, body)["errors"]}


def blobs(studio: Studio) -> list[str]:
    """Return the names of everything in the store, including drafts."""
    return sorted(each.name for each in (studio.server.data / "files").rglob("*") if each.is_file())


@contextmanager
def raw_upload(studio: Studio, *headers: str, token: str | None = None) -> Iterator[socket.socket]:
    """Send the head of an upload request and yield the connection."""
    url = httpx.URL(studio.server.url)
    with socket.create_connection((url.host, url.port or 80), timeout=WAIT_S) as connection:
        head = [
            f"POST /api/v1{studio.project}/files HTTP/1.1",
            f"Host: {url.host}",
            f"Authorization: Bearer {token or studio.world.token}",
            f"Content-Type: {FORM}",
            *headers,
        ]
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        yield connection


def read_answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    data = b""
    while b"\r\n\r\n" not in data:
        came = connection.recv(65536)
        assert came, "closed without an answer"
        data += came
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head.lower())
    assert found is not None
    while len(body) < int(found[1]):
        came = connection.recv(65536)
        assert came, "closed within the answer"
        body += came
    return int(head.split()[1]), json.loads(body)


def test_only_multipart_forms_are_accepted(studio: Studio) -> None:
    cases: list[tuple[str | None, int]] = [
        (None, 415),
        ("application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/mixed; boundary=x", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=", 400),
        ("multipart/form-data; boundary=" + "x" * 201, 400),
    ]
    for content_type, status in cases:
        refused(studio, status, form(part(FILE, b"x")), content_type)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not a form",
        part(FILE, b"x"),
        form(part(FILE, b"x"))[:-4],
        b"--" + BOUNDARY.encode() + b"\r\nno header\r\n\r\nx\r\n--" + BOUNDARY.encode() + b"--",
        form(b"--" + BOUNDARY.encode() + b"\r\nContent-Type: text/plain\r\n\r\nx\r\n"),
        form(part("attachment; filename=a", b"x")),
        form(part(FILE, b"x", "Content-Transfer-Encoding: base64")),
        form(part(FILE, b"x", "Content-Length: 5")),
        form(part(FILE, b"x", *(f"X-{number}: y" for number in range(20)))),
        form(part(FILE, b"x", "X-Long: " + "y" * 10_000)),
        form(part(b'form-data; name="file"; filename="\xff\xfe"', b"x")),
        b"--" + BOUNDARY.encode() + b"\r\nX-Endless: " + b"y" * MIB,
        form(*(part(f'form-data; name="f{number}"', b"x") for number in range(10_000))),
        form(part(FILE, b"x"), *(part('form-data; name="title"', b"x") for _ in range(100))),
    ],
    ids=range(15),
)
def test_a_malformed_form_is_refused(studio: Studio, body: bytes) -> None:
    assert refused(studio, 400, body)["code"] == "malformed"


def test_exactly_one_file_is_required(studio: Studio) -> None:
    assert faults(studio, form()) == {"file": "missing"}
    assert faults(studio, form(part('form-data; name="title"', b"A"))) == {"file": "missing"}
    assert faults(studio, form(part('form-data; name="file"; filename=""'))) == {"file": "missing"}
    assert faults(studio, form(part('form-data; name="file"', b"a.txt"))) == {"file": "invalid"}
    assert faults(studio, form(part(FILE, b"1"), part(FILE, b"2"))) == {"file": "invalid"}
    assert faults(studio, form(part('form-data; name="title"', b" "), part('form-data; name="x"', b"A"))) == {
        "file": "missing",
        "title": "invalid",
        "x": "unknown",
    }


@pytest.mark.parametrize(
    ("data", "faulty"),
    [(b"\xff\xfe", "title"), (b"a\0b", "title"), (b"x" * 300, "title"), (b"x" * 100_000, "title")],
    ids=["not text", "NUL", "long", "very long"],
)
def test_an_invalid_form_field_is_refused(studio: Studio, data: bytes, faulty: str) -> None:
    assert faults(studio, form(part(FILE, b"x"), part('form-data; name="title"', data))) == {faulty: "invalid"}


def test_a_file_name_is_reduced_to_its_last_component(studio: Studio) -> None:
    cases: list[tuple[str, str]] = [
        ('form-data; name="file"; filename="../../etc/passwd"', "passwd"),
        ('form-data; name="file"; filename="C:\\Windows\\notes.txt"', "notes.txt"),
        ('form-data; name="file"; filename="a%22b%0D%0ASet-Cookie: c"', 'a"bSet-Cookie: c'),
        ('form-data; name="file"; filename="概要.md"', "概要.md"),
        ('form-data; name="file"; filename="fallback"; filename*=UTF-8\'\'na%C3%AFve.txt', "naïve.txt"),
        ("form-data; name=file; filename*=UTF-8''..%2F..%2Fa%00.txt", "a.txt"),
        ('form-data; name="file"; filename="' + "x" * 3000 + '.pdf"', "x" * 251 + ".pdf"),
        ('form-data; name="file"; filename=".."', "file"),
    ]
    for disposition, title in cases:
        file = send(studio, form(part(disposition, b"x"))).json()["file"]
        assert file["title"] == title, disposition
        saved = studio.nobody.http.get(file["file_link"])
        assert saved.content == b"x", disposition
        assert "\r" not in saved.headers["content-disposition"], disposition
        assert "set-cookie" not in saved.headers, disposition


def test_the_media_type_is_stored_but_served_harmlessly(studio: Studio) -> None:
    cases: list[tuple[str | None, str, str]] = [
        ("text/html", "text/html", UNKNOWN),
        ("image/svg+xml; charset=utf-8", "image/svg+xml; charset=utf-8", "image/svg+xml; charset=utf-8"),
        ("nonsense", UNKNOWN, UNKNOWN),
        ("text/html; <script>", UNKNOWN, UNKNOWN),
        (None, UNKNOWN, UNKNOWN),
        ("text/plain", "text/plain", "text/plain"),
        ("application/pdf", "application/pdf", "application/pdf"),
        ("application/json", "application/json", "application/json"),
        *((active, active, UNKNOWN) for active in ACTIVE),
    ]
    for kind, stored, sent in cases:
        script = b"<script>alert(1)</script>"
        headers = [f"Content-Type: {kind}"] if kind else []
        file = send(studio, form(part(FILE, script, *headers))).json()["file"]
        assert file["content_type"] == stored, kind
        shown = studio.nobody.http.get(file["file_link"])
        assert shown.headers["content-type"] == sent, kind
        assert shown.headers["content-disposition"].startswith("attachment;"), kind
        assert shown.headers["x-content-type-options"] == "nosniff", kind
        assert shown.headers["content-security-policy"] == "sandbox; default-src 'none'", kind
        assert shown.headers["cache-control"].startswith("private"), kind


def test_an_empty_file_can_be_uploaded(studio: Studio) -> None:
    file = send(studio, form(part(FILE))).json()["file"]
    assert file["size"] == 0
    assert studio.nobody.http.get(file["file_link"]).content == b""
    assert studio.nobody.http.get(file["file_link"], headers={"Range": "bytes=0-"}).status_code == 416


def test_lookalike_boundaries_are_content(studio: Studio) -> None:
    data = f"\r\n--{BOUNDARY[:-1]}\r\n\r\r\n--{BOUNDARY}".encode()[:-1] * 9000
    file = send(studio, form(part(FILE, data))).json()["file"]
    assert studio.nobody.http.get(file["file_link"]).content == data


def test_a_file_at_the_limit_is_accepted_and_one_byte_more_is_refused(studio: Studio) -> None:
    refused(studio, 413, form(part(FILE, bytes(LIMIT_MIB * MIB + 1))))
    exact = send(studio, form(part(FILE, bytes(LIMIT_MIB * MIB)), part('form-data; name="title"', b"Large")))
    assert (exact.status_code, exact.json()["file"]["size"]) == (200, LIMIT_MIB * MIB)


def test_a_declared_oversized_body_is_refused_before_it_arrives(studio: Studio) -> None:
    with raw_upload(studio, f"Content-Length: {10**12}") as connection:
        status, problem = read_answer(connection)
    assert (status, problem["code"]) == (413, "too_large")


def test_a_body_of_unknown_length_is_refused_once_it_is_too_large(studio: Studio) -> None:
    with raw_upload(studio, "Transfer-Encoding: chunked") as connection:
        begun = part(FILE)[:-2]
        connection.sendall(b"%x\r\n%s\r\n" % (len(begun), begun))
        for _ in range(LIMIT_MIB * 16 + 1):
            connection.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")
        status, problem = read_answer(connection)  # the body has not ended yet
    assert (status, problem["code"]) == (413, "too_large")
    until(lambda: not drafts(studio))


def test_an_endless_preamble_is_refused_as_too_large(studio: Studio) -> None:
    assert refused(studio, 413, bytes((LIMIT_MIB + 1) * MIB + 1))["code"] == "too_large"


def drafts(studio: Studio) -> list[Path]:
    return list((studio.server.data / "files" / "incoming").glob("*"))


def test_an_aborted_upload_leaves_nothing(studio: Studio) -> None:
    before = blobs(studio)
    with raw_upload(studio, f"Content-Length: {MIB}") as connection:
        connection.sendall(part(FILE)[:-2] + bytes(300_000))
        until(lambda: drafts(studio))
    until(lambda: not drafts(studio))
    assert blobs(studio) == before
    assert studio.happened() == []


def test_a_stranger_cannot_make_the_server_store_anything(studio: Studio) -> None:
    before = blobs(studio)
    with raw_upload(
        studio, f"Content-Length: {MIB}", "Expect: 100-continue", token=studio.stranger.token
    ) as connection:
        status, _ = read_answer(connection)  # no body was sent, and none was requested
    assert status == 404
    assert blobs(studio) == before


def test_revoking_the_token_during_an_upload_refuses_it(studio: Studio) -> None:
    before = blobs(studio)
    body = form(part(FILE, bytes(300_000)))
    token = studio.member.token
    assert token is not None

    async def revoke(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(tokens.update().where(tokens.c.digest == digest_of(token)).values(revoked_at=1))

    with raw_upload(studio, f"Content-Length: {len(body)}", token=token) as connection:
        connection.sendall(body[:200_000])
        until(lambda: drafts(studio))
        studio.server.run(revoke)
        threading.Event().wait(1.1)  # the guard caches its result for a second
        connection.sendall(body[200_000:])
        status, _ = read_answer(connection)
    assert status == 401
    assert blobs(studio) == before
    assert studio.happened() == []


def test_concurrent_uploads_use_little_memory(studio: Studio) -> None:
    assert studio.server.process is not None
    process = psutil.Process(studio.server.process.pid)
    send(studio, form(part(FILE, bytes(MIB)))).raise_for_status()
    before = process.memory_info().rss
    count, size = 24, LIMIT_MIB * MIB - 1000
    begun = part(FILE)[:-2] + bytes(size)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(raw_upload(studio, f"Content-Length: {len(begun) + 100}")) for _ in range(count)
        ]
        for connection in connections:
            connection.sendall(begun)
        until(lambda: sum(each.stat().st_size for each in drafts(studio)) > count * (size - 128 * 1024))
        grown = process.memory_info().rss - before
    assert grown < count * 800 * 1024, f"{grown / count / 1024:.0f} KiB each"
    until(lambda: not drafts(studio))


def test_a_full_disk_is_reported_and_the_next_upload_works(studio: Studio) -> None:
    assert studio.server.process is not None
    pid = studio.server.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    before = blobs(studio)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (MIB, limits[1]))
    try:
        answer = send(studio, form(part(FILE, bytes(LIMIT_MIB * MIB))))
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_full")
    assert int(answer.headers["retry-after"]) > 0
    assert blobs(studio) == before
    assert send(studio, form(part(FILE, bytes(LIMIT_MIB * MIB)))).status_code == 200


def test_an_upload_refused_by_the_transaction_leaves_no_blob(studio: Studio) -> None:
    body = form(part(FILE, b"x"), part('form-data; name="folder"', b"fld_none"))
    assert faults(studio, body) == {"folder": "invalid"}
