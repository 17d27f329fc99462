"""The recorder has a valid request for every operation, and differences between two records are reported."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import forge
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.recorded.compare import differences
from tests.recorded.placeholders import Placeholders
from tests.recorded.recorder import Recorder
from tests.recorded.things import Things
from tests.recorded.variations import STREAM, Attempts, operations


@pytest.mark.whole
def test_every_operation_has_a_valid_request(tmp_path: Path, receiver: Receiver) -> None:
    server = Server(tmp_path, {})

    def run(*words: str) -> Any:
        return json.loads(forge.run((*words, "--json"), server.environment()).stdout)

    people = Things.people(run)
    server.start()
    output = io.StringIO()
    try:
        with Recorder(server.url, receiver.url, output) as recorder:
            document = recorder.look("/openapi.json", "").json()
            things = Things(recorder, receiver.url, people)
            for operation in operations(document):
                attempts = Attempts(recorder, things, operation)
                if operation.path != STREAM:
                    attempts.ask("good")
    finally:
        server.close()
    entries = [json.loads(line) for line in output.getvalue().splitlines()]
    good = {each["operation"]: each["status"] for each in entries if each["request"] == "good"}
    assert good.keys() | {f"GET {STREAM}"} == {each.key for each in operations(document)}
    assert {key: status for key, status in good.items() if status >= 300} == {}


def test_differences_between_two_records_are_reported(tmp_path: Path) -> None:
    entry = {"operation": "GET /user", "request": "good", "status": 200, "body": {"login": "octo", "ids": [1, 2]}}
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text(json.dumps(entry) + "\n")
    new.write_text(json.dumps({**entry, "status": 404, "body": {"login": "octo", "ids": [1, 3]}}) + "\n")
    assert list(differences(old, old)) == []
    assert list(differences(old, new)) == [
        "GET /user | good ▸ body ▸ ids ▸ 1: 2 → 3",
        "GET /user | good ▸ status: 200 → 404",
    ]
    new.write_text("")
    assert list(differences(old, new)) == ["GET /user | good: only in the old"]


def test_equal_random_values_have_equal_placeholders() -> None:
    known = Placeholders({"http://127.0.0.1:5": "http://SERVER"})
    known.operation = "GET /x"
    one, other = "tsk_01m84dtxns95b3chkc1zpzt4xj", "tsk_01m84dtxns95b3chkc1zpzt4xk"
    given = {"id": one, "url": f"http://127.0.0.1:5/{one}", "next": other, "at": "2040-01-01T00:00:00Z"}
    assert known.value(given) == {
        "id": "<tsk_ of GET /x, 1>", "url": "http://SERVER/<tsk_ of GET /x, 1>", "next": "<tsk_ of GET /x, 2>",
        "at": "2040-01-01T00:00:00Z",
    }  # fmt: skip
