"""Downloads by token and by signed link, in full and by range."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.s3 import S3, running_s3
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from tests.harness.world import add_token
from tests.work.studio import Caller, JsonObject, Studio
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.work.files.links import Links

DATA = bytes(range(256)) * 40


def upload(caller: Caller, project: str, data: bytes = DATA, **fields: str) -> JsonObject:
    made: JsonObject = caller.post(f"{project}/files", files={"file": ("ü.bin", data)}, data=fields)["file"]
    return made


@pytest.fixture
def file(studio: Studio) -> JsonObject:
    return upload(studio.owner, studio.project)


def follow(studio: Studio, file: JsonObject, **headers: str) -> httpx.Response:
    """Request the file's link without a token, as a browser does."""
    return studio.nobody.http.get(
        file["file_link"], headers={name.replace("_", "-"): headers[name] for name in headers}
    )


def stored(studio: Studio, data: bytes) -> Path:
    """Return the path of the content in the file store."""
    blobs = (studio.server.data / "files").rglob("blb_*")
    return next(each for each in blobs if each.stat().st_size == len(data) and each.read_bytes() == data)


def test_the_link_serves_the_file_as_an_attachment(studio: Studio, file: JsonObject) -> None:
    answer = follow(studio, file)
    assert (answer.status_code, answer.content) == (200, DATA)
    assert answer.headers["content-length"] == str(len(DATA))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename=\"u.bin\"; filename*=UTF-8''%C3%BC.bin"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == f'"{file["sha256"]}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["cache-control"].startswith("private")


def test_head_has_the_headers_of_get(studio: Studio, file: JsonObject) -> None:
    answer = follow(studio, file)
    head = studio.nobody.http.head(file["file_link"], headers={"Range": "bytes=0-1"})
    assert (head.status_code, head.content) == (200, b"")
    ours = ("content-length", "content-type", "etag", "accept-ranges", "content-disposition")
    assert {name: head.headers[name] for name in ours} == {name: answer.headers[name] for name in ours}


def test_a_range_can_be_requested(studio: Studio, file: JsonObject) -> None:
    cases: list[tuple[str, int, int]] = [
        ("0-0", 0, 0),
        ("100-199", 100, 199),
        ("10000-", 10000, 10239),
        ("-1", 10239, 10239),
        ("0-99999999999", 0, 10239),
    ]
    for asked, first, last in cases:
        answer = follow(studio, file, Range=f"bytes={asked}")
        assert (answer.status_code, answer.content) == (206, DATA[first : last + 1]), asked
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(DATA)}", asked
        assert answer.headers["content-length"] == str(last - first + 1), asked


def test_an_unsupported_range_returns_the_whole_file(studio: Studio, file: JsonObject) -> None:
    for asked in ("bytes=1-2,5-6", "bytes=5-1", "lines=1-2", "bytes=a-b"):
        assert follow(studio, file, Range=asked).status_code == 200, asked


def test_an_unsatisfiable_range_is_refused(studio: Studio, file: JsonObject) -> None:
    for asked in ("10240-", "99999999999999999999-", "-0", "9" * 5000 + "-"):
        answer = follow(studio, file, Range=f"bytes={asked}")
        assert (answer.status_code, answer.json()["code"]) == (416, "range_not_satisfiable"), asked
        assert answer.headers["content-range"] == f"bytes */{len(DATA)}", asked


def test_a_range_is_served_only_if_the_file_is_unchanged(studio: Studio, file: JsonObject) -> None:
    tag = f'"{file["sha256"]}"'
    assert follow(studio, file, Range="bytes=5-9", If_Range=tag).status_code == 206
    for other in ('"else"', f"W/{tag}", "Fri, 20 Nov 2026 09:00:00 GMT"):
        assert follow(studio, file, Range="bytes=5-9", If_Range=other).content == DATA


def test_an_unchanged_file_is_not_sent_again(studio: Studio, file: JsonObject) -> None:
    for condition in (f'"{file["sha256"]}"', f'"x", W/"{file["sha256"]}"', "*"):
        answer = follow(studio, file, If_None_Match=condition, Range="bytes=0-1")
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == f'"{file["sha256"]}"'
    assert follow(studio, file, If_None_Match='"else"').status_code == 200


def test_a_token_works_in_place_of_a_link(studio: Studio, file: JsonObject) -> None:
    path = f"/files/{file['id']}/content"
    assert studio.owner.call("GET", path).content == DATA
    assert studio.client.call("GET", path).content == DATA
    refused = studio.nobody.call("GET", path)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    token = studio.server.run(lambda services: add_token(services, studio.world, ["repo"], member="member"))
    other = Caller(studio.server, token)
    assert other.refused(403, "GET", path)["code"] == "missing_scope"
    assert other.http.get(file["file_link"]).content == DATA  # the link requires no scope
    other.http.close()


def test_a_link_is_valid_for_one_file_and_a_limited_time(studio: Studio, file: JsonObject) -> None:
    other = upload(studio.owner, studio.project, private="true")
    expires, signature = (
        httpx.URL(file["file_link"]).params["expires"],
        httpx.URL(file["file_link"]).params["signature"],
    )
    assert now_ms() + DAY_MS <= int(expires) * 1000 <= now_ms() + 2 * DAY_MS
    forged: list[tuple[str, dict[str, Any]]] = [
        (other["id"], {"expires": expires, "signature": signature}),
        (file["id"], {"expires": str(int(expires) + 86_400), "signature": signature}),
        (file["id"], {"expires": f"0{expires}", "signature": signature}),
        (file["id"], {"expires": f" {expires}", "signature": signature}),
        (file["id"], {"expires": "\u0661\u0667", "signature": signature}),
        (file["id"], {"expires": "9" * 400, "signature": signature}),
        (file["id"], {"expires": expires, "signature": signature + "="}),
        (file["id"], {"expires": expires, "signature": signature[:-1]}),
        (file["id"], {"expires": expires, "signature": signature.swapcase()}),
        (file["id"], {"expires": expires, "signature": "ü" * 43}),
        (file["id"], {"expires": expires, "signature": ""}),
        (file["id"], {"expires": expires}),
        (file["id"], {"signature": signature}),
        ("fil_" + "0" * 26, {"expires": expires, "signature": signature}),
    ]
    for file_id, params in forged:
        refused = studio.nobody.refused(403, "GET", f"/files/{file_id}/content", params=params)
        assert refused["code"] == "bad_link", params
    # The link is irrelevant for tokens that can read the file.
    assert studio.owner.call("GET", f"/files/{file['id']}/content", params=forged[1][1]).content == DATA


def test_an_old_link_is_expired(studio: Studio, file: JsonObject) -> None:
    async def make(services: Services) -> Links:
        expires_s = int(httpx.URL(file["file_link"]).params["expires"])
        return Links(f"{studio.server.url}/api/v1", services.vault.derive("file links")[0], expires_s)

    links: Links = studio.server.run(make)
    assert links(file["id"]) == file["file_link"]
    assert studio.nobody.http.get(links.earlier().earlier()(file["id"])).json()["code"] == "bad_link"


def test_links_are_stable(studio: Studio, file: JsonObject) -> None:
    path = f"/files/{file['id']}"
    first, again, other = (each.call("GET", path) for each in (studio.owner, studio.owner, studio.member))
    assert other.json()["file"]["file_link"] == file["file_link"]
    assert first.json()["file"]["file_link"] == again.json()["file"]["file_link"] == file["file_link"]
    assert first.headers["etag"] == again.headers["etag"]


def test_a_file_missing_from_the_store_is_an_error(studio: Studio) -> None:
    data = os.urandom(1000)
    file = upload(studio.owner, studio.project, data)
    stored(studio, data).unlink()
    answer = follow(studio, file)
    assert (answer.status_code, answer.json()["code"]) == (500, "content_missing")
    assert answer.json()["message"] == "The content of this file is missing."


def test_a_failing_download_is_cut_off_and_logged(studio: Studio) -> None:
    data = os.urandom(4 * 2**20)
    file = upload(studio.owner, studio.project, data)
    os.truncate(stored(studio, data), 2**20)
    with pytest.raises(httpx.RemoteProtocolError):
        follow(studio, file)
    until(lambda: "download_interrupted" in studio.server.log())
    assert follow(studio, file, Range="bytes=0-9").content == data[:10]


def test_aborted_downloads_do_not_block_others(studio: Studio) -> None:
    data = os.urandom(16 * 2**20)
    file = upload(studio.owner, studio.project, data)
    url = httpx.URL(file["file_link"])
    before = studio.server.log().count("Exception in ASGI")
    for _ in range(3):
        with socket.create_connection((url.host, url.port or 80), timeout=WAIT_S) as connection:
            connection.sendall(f"GET {url.raw_path.decode()} HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert follow(studio, file).content == data
    assert studio.server.log().count("Exception in ASGI") == before


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with running_s3() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def test_files_can_be_stored_on_s3(new_server: Callable[..., Server], s3: S3) -> None:
    server = new_server(files_url=s3.url)
    studio = Studio(server, server.world())
    data = os.urandom(6 * 2**20)
    file = upload(studio.owner, studio.project, data)
    assert len(s3.object_names()) == 1
    assert not [each for each in (server.data / "files").rglob("*") if each.is_file()]
    assert follow(studio, file).content == data
    assert follow(studio, file, Range="bytes=3000000-3000009").content == data[3_000_000:3_000_010]
    refused = studio.owner.call("POST", f"{studio.project}/files", files={"file": ("a", b"x")}, data={"folder": "none"})
    assert refused.status_code == 422
    assert len(s3.object_names()) == 1
    studio.close()
