"""Payloads over the size that the server takes: what is left out, and in which order."""

from __future__ import annotations

import json

from tests.git_push.kit import Json
from workhook.git_push import payload as payload_module
from workhook.git_push import spool
from workhook.git_push.payload import bare, request_body

CHANGE = spool.RefUpdate("1.0", "0" * 40, "1" * 40, "refs/heads/main")
ENTRY = spool.Push(0, "octo", None, (), (CHANGE,), ())


def large(*commit_files: int, message: str = "m") -> payload_module.Payload:
    commits = [
        {"id": f"{at:040x}", "message": message, "added": [f"{number:099d}" for number in range(files)], "removed": []}
        | {"modified": []}
        for at, files in enumerate(commit_files)
    ]
    return bare(CHANGE, ENTRY, address="http://x/a/b") | {"commits": commits, "head_commit": commits[-1]}


def sent(payload: payload_module.Payload, limit_bytes: int) -> Json:
    body, _ = request_body(payload, "1.0", limit_bytes=limit_bytes)
    assert len(body) <= limit_bytes
    decoded = json.loads(body)["payload"]
    assert isinstance(decoded, dict)
    return decoded


def files(commits: list[Json]) -> list[int]:
    return [len(commit["added"]) for commit in commits]


def test_what_fits_is_not_touched() -> None:
    payload = large(10, 10)
    body, shrunk = request_body(payload, "1.0")
    assert not shrunk
    assert json.loads(body) == {"event": "push", "payload": payload, "id": "1.0"}


def test_the_oldest_commits_lose_their_files_first() -> None:
    found = sent(large(100, 100, 100, 100), 45_000)
    assert files(found["commits"]) == [0, 100, 100, 100]
    assert files([found["head_commit"]]) == [100]


def test_then_the_head_its_files_then_the_oldest_commits_go() -> None:
    found = sent(large(1, 1, 1, 50, message="m" * 1000), 5_000)
    assert [commit["id"][-1] for commit in found["commits"]] == ["1", "2", "3"]
    assert files([*found["commits"], found["head_commit"]]) == [0, 0, 0, 0]


def test_a_message_beyond_every_bound_is_cut() -> None:
    found = sent(large(1, message="ü" * 100_000), 50_000)
    assert found["commits"] == []
    assert found["head_commit"]["message"] == "ü" * 10_000


def test_text_that_no_json_parser_takes_is_replaced() -> None:
    body, _ = request_body(bare(CHANGE, ENTRY, address="\ud800"), "1.0")
    assert json.loads(body)["payload"]["compare"].startswith("?/compare")
