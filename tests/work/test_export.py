"""`GET /organizations/{login}/export`: permissions and the contents of the archive."""

from __future__ import annotations

import io
import json
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.harness.locks import nobody_writes
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import add_token
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.work.portability.transfer.kinds import KINDS

TOO_LARGE_TO_BE_ON_ITS_WAY = 48 << 20
"""Bytes, exceeding both socket buffers (at most 36 MiB on Linux), so that the export waits for its reader."""


@pytest.fixture
def path(studio: Studio) -> str:
    return f"/organizations/{studio.world.organization}/export"


def unpacked(content: bytes) -> dict[str, bytes]:
    """Return the entries of an archive, named without the top-level folder."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        found = {}
        for each in archive.getmembers():
            file = archive.extractfile(each)
            assert file is not None
            found[each.name.partition("/")[2]] = file.read()
    return found


def lines(data: bytes) -> list[Any]:
    return [json.loads(each) for each in data.splitlines()]


def test_an_owner_gets_an_archive_of_everything(studio: Studio, scene: Scene, path: str) -> None:
    task, file = scene.task(), scene.file()
    answer = studio.owner.call("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers["cache-control"] == "no-store"
    assert studio.world.organization in answer.headers["content-disposition"]
    entries = unpacked(answer.content)
    manifest = json.loads(entries["manifest.json"])
    assert list(entries)[-1] == "manifest.json"
    assert {name for name in entries if name.endswith(".jsonl")} == {f"{each.name}.jsonl" for each in KINDS} | {
        "people.jsonl"
    }
    assert {name: len(lines(entries[name])) for name in manifest["lines"]} == {
        name: facts["lines"] for name, facts in manifest["lines"].items()
    }
    assert task in {each["id"] for each in lines(entries["tasks.jsonl"])}
    stored = {each["id"]: each for each in lines(entries["files.jsonl"])}
    assert len(entries[f"files/{file}"]) == stored[file]["size"]


def test_only_organization_owners_can_export_it(studio: Studio, path: str) -> None:
    assert studio.member.refused(403, "GET", path)["message"].endswith("can export it.")
    for caller in (studio.client, studio.stranger):
        assert caller.refused(404, "GET", path)["code"] == "not_found"
    studio.nobody.refused(401, "GET", path)
    studio.owner.refused(404, "GET", f"/organizations/{studio.owner.login}/export")
    studio.owner.refused(404, "GET", "/organizations/nobody-at-all/export")


@pytest.mark.parametrize("scopes", [["work"], ["admin:org"], ["admin:org", "repo"]])
def test_a_token_requires_both_scopes(studio: Studio, server: Server, path: str, scopes: list[str]) -> None:
    caller = Caller(server, server.run(lambda services: add_token(services, studio.world, scopes, member="owner")))
    with closing(caller.http):
        assert caller.refused(403, "GET", path)["code"] == "missing_scope"


def test_a_second_export_is_refused_while_the_first_runs(studio: Studio, path: str) -> None:
    large = {"file": ("large.bin", bytes(TOO_LARGE_TO_BE_ON_ITS_WAY), "application/octet-stream")}
    studio.owner.post(f"{studio.project}/files", files=large)
    with studio.owner.http.stream("GET", f"/api/v1{path}") as first:
        assert first.status_code == 200
        refused = studio.owner.refused(409, "GET", path)
        assert refused["code"] == "export_running"
    until(lambda: studio.owner.call("GET", path).status_code == 200)


def test_an_export_is_in_the_audit_log(studio: Studio, path: str) -> None:
    studio.owner.call("GET", path)
    entries = studio.owner.http.get(f"/orgs/{studio.world.organization}/audit-log").json()
    found = [each for each in entries if each["action"] == "organization.export"]
    assert found
    assert found[0]["actor"] == studio.owner.login


def test_the_archive_omits_addresses_of_non_members(studio: Studio, path: str) -> None:
    client = studio.client.login
    entries = unpacked(studio.owner.call("GET", path).content)
    people = {each["login"]: each["email"] for each in lines(entries["people.jsonl"])}
    assert people[studio.owner.login] == studio.owner.me["email"]
    assert people[client] is None


def test_the_archive_omits_webhook_secrets_and_receiver_keys(studio: Studio, path: str) -> None:
    """The key alone allows sending to the receiver."""
    key = "k" * 43
    config = {"url": f"https://hooks.example.com/receive/{key}", "secret": "a-secret-of-the-studio"}
    made = studio.owner.http.post(f"{studio.world.repo_path}/hooks", json={"config": config, "events": ["push"]})
    assert made.status_code == 201, made.text
    entries = unpacked(studio.owner.call("GET", path).content)
    assert b"https://hooks.example.com/receive/hidden" in entries["webhooks.jsonl"]
    for secret in (b"a-secret-of-the-studio", key.encode()):
        assert not any(secret in each for each in entries.values())


def test_head_has_the_headers_of_get_without_creating_an_archive(studio: Studio, path: str) -> None:
    """The audit log has no entry because nothing was exported."""
    entries = f"/orgs/{studio.world.organization}/audit-log"
    before = studio.owner.http.get(entries).json()
    head = studio.owner.call("HEAD", path)
    assert (head.status_code, head.content) == (200, b"")
    assert studio.owner.http.get(entries).json() == before
    got = studio.owner.call("GET", path)
    named = ("content-type", "content-disposition", "cache-control", "content-length")
    assert [head.headers.get(each) for each in named] == [got.headers.get(each) for each in named]
    assert studio.member.call("HEAD", path).status_code == 403


def test_the_server_runs_at_most_two_exports_at_once(server: Server) -> None:
    worlds = [server.world() for _ in range(3)]

    def ask(at: int, method: str = "GET") -> httpx.Response:
        with server.client(worlds[at].token) as client:
            return client.request(method, f"/api/v1/organizations/{worlds[at].organization}/export")

    with ThreadPoolExecutor() as threads:
        with nobody_writes(server.data, server.settings.get("database_url"), "audit_log"):
            first = [threads.submit(ask, at) for at in range(2)]  # both wait to write their audit log entries
            until(lambda: ask(2, "HEAD").status_code == 429)
            refused = ask(2)
            assert (refused.status_code, refused.json()["code"]) == (429, "exports_running")
            assert int(refused.headers["Retry-After"]) > 0
        assert [each.result().status_code for each in first] == [200, 200]
    assert ask(2).status_code == 200
