"""The tutorials, followed as written: every block in order. Only the address, folders and token differ."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import Shell, split_prose_and_code
from tests.docs.reader import RECEIVER, TUTORIALS, Reader
from tests.harness.waiting import until


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.parametrize(("page", "receivers"), TUTORIALS.items())
def test_a_tutorial_can_be_followed(reader: Reader, page: str, receivers: int) -> None:
    told = [""]
    for kind, piece in split_prose_and_code(page):
        if kind == "sh":
            reader.follow(piece)
            told.append(piece)
            continue
        check(reader, piece.lstrip(), told[-1])
    assert sum(block.startswith(RECEIVER) for block in told) == receivers
    assert len(told) > 10


def check(reader: Reader, prose: str, block: str) -> None:
    """Check what the page says about the previous block, and do what it requests outside the shell."""
    if promised := re.match(r"The receiver prints `([^`]+)`", prose):
        assert reader.receiver is not None
        reader.receiver.wait_for(f"^{promised[1]}")
    if mailed := re.search(r"The mail server prints `([^`]+)`", prose.replace("\n", " ")):
        assert reader.mail_server is not None
        reader.mail_server.wait_for(f"^{mailed[1]}")
        reader.mail_server.wait_for("^Content-Type: application/pdf")
    if prose.startswith("The receiver prints the push."):
        assert json.loads(reader.said)["queued"] == 1
        assert reader.receiver is not None
        reader.receiver.wait_for("^push refs/heads/main")
        same_guid(reader)
    if shown := re.match(r"The (?:response|output) (?:contains|is) `([^`]+)`", prose):
        until(lambda: shown[1] in reader.said or shown[1] in reader.shell.run(reader.replaced(block)))
    if prose.startswith("The command prints `{"):
        assert json.loads(reader.said)["repository"] == "acme/website"
    if "Stop the receiver" in prose:
        assert reader.receiver is not None
        reader.receiver.process.send_signal(signal.SIGTERM)
        reader.receiver.process.wait(30)


def same_guid(reader: Reader) -> None:
    """Check that the GUID equals that of the failed attempt, as the page says."""
    url = reader.replaced('"http://127.0.0.1:8000/repos/acme/website/hooks/$HOOK/deliveries"')

    def attempts() -> Any:
        found = [each for each in json.loads(reader.shell.run(f'curl -s -H "$A" {url}')) if each["event"] == "push"]
        return found if found[0]["status_code"] == 204 and len(found) >= 3 else None

    newest, before = until(attempts)[:2]
    assert newest["guid"] == before["guid"]
    assert before["status"] == "failed to connect to host"


def test_a_failing_block_fails_the_test(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {**os.environ})
    try:
        assert shell.run("A=1") == "\n"
        assert shell.run("echo $A").strip() == "1"
        with pytest.raises(AssertionError, match="no such thing"):
            shell.run("echo no such thing; false\necho after")
    finally:
        shell.stop()
