"""The tutorials, done as they are written: every block in its order; only the address, folders and token are others."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Program, Shell, checkout, new_machine, parts
from tests.harness.waiting import until

RECEIVER = "SECRET=s3cret python3 examples/receiver.py "


class Reader:
    """Who follows the tutorial, with a shell, a server and a receiver."""

    def __init__(self, folder: Path) -> None:
        self.folder = checkout(folder / "workhook")
        self.environment = new_machine(folder)
        self.shell = Shell(self.folder, self.environment)
        self.running: list[Program] = [self.shell]
        self.receiver: Program | None = None
        self.substitutes = {"/tmp/": f"{folder}/"}
        self.said = ""  # what the last blocks of the shell printed, newest last

    def start(self, command: str) -> Program:
        program = Program(["bash", "-c", f"exec env {command}"], self.folder, self.environment)
        self.running.append(program)
        return program

    def follow(self, block: str) -> None:
        block = self.replaced(block)
        if block.startswith("make run "):
            self._serve(block)
        elif block.startswith(RECEIVER):
            self._receive(block)
        else:
            self.said = self.shell.run(block)
            self._remember_token(self.said)

    def _serve(self, block: str) -> None:
        made = re.fullmatch(r'make run ARGS="(.*)"\n', block)
        assert made, block
        # What `make run` does once the environment is there; see the Makefile.
        server = self.start(f".venv/bin/workhook serve --data ./data {made[1]} --port 0")
        address = server.wait_for("^workhook: listening on ").split()[-1]
        self.substitutes["http://127.0.0.1:8000"] = address
        self._remember_token("".join(server.lines))

    def _receive(self, block: str) -> None:
        self.receiver = self.start(block.replace("receiver.py 9000", "receiver.py 0"))
        port = self.receiver.wait_for("^waiting on ").strip().rpartition(":")[2]
        self.substitutes |= {"127.0.0.1:9000": f"127.0.0.1:{port}", "receiver.py 9000": f"receiver.py {port}"}

    def _remember_token(self, said: str) -> None:
        for token in re.findall(r"whp_[0-9A-Za-z]{36}", said):
            self.substitutes["whp_…"] = token

    def replaced(self, block: str) -> str:
        for written, actual in self.substitutes.items():
            block = block.replace(written, actual)
        return block

    def close(self) -> None:
        for program in reversed(self.running):
            program.stop()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.parametrize(("page", "receivers"), [("tutorial.md", 2), ("tutorial-studio.md", 1)])
def test_a_tutorial_can_be_followed(reader: Reader, page: str, receivers: int) -> None:
    told = [""]
    for kind, piece in parts(ROOT / "docs" / page):
        if kind == "sh":
            reader.follow(piece)
            told.append(piece)
            continue
        check(reader, piece.lstrip(), told[-1])
    assert sum(block.startswith(RECEIVER) for block in told) == receivers
    assert len(told) > 10


def check(reader: Reader, prose: str, block: str) -> None:
    """What the page says of the block before, and what it asks for beside the shell."""
    if promised := re.match(r"The receiver prints `([^`]+)`", prose):
        assert reader.receiver is not None
        reader.receiver.wait_for(f"^{promised[1]}")
    if prose.startswith("The receiver prints the push."):
        assert json.loads(reader.said) == {"queued": 1}
        assert reader.receiver is not None
        reader.receiver.wait_for("^push refs/heads/main")
        same_guid(reader)
    if shown := re.match(r"shows `([^`]+)`", prose):
        until(lambda: shown[1] in reader.said or shown[1] in reader.shell.run(reader.replaced(block)))
    if prose.startswith("prints `{"):
        assert json.loads(reader.said)["repository"] == "acme/website"
    if "Stop the receiver" in prose:
        assert reader.receiver is not None
        reader.receiver.process.send_signal(signal.SIGTERM)
        reader.receiver.process.wait(30)


def same_guid(reader: Reader) -> None:
    """ "Its guid is that of the attempt that failed." """
    url = reader.replaced('"http://127.0.0.1:8000/repos/acme/website/hooks/$HOOK/deliveries"')

    def attempts() -> Any:
        found = [each for each in json.loads(reader.shell.run(f'curl -s -H "$A" {url}')) if each["event"] == "push"]
        return found if found[0]["status_code"] == 204 and len(found) >= 3 else None

    newest, before = until(attempts)[:2]
    assert newest["guid"] == before["guid"]
    assert before["status"] == "failed to connect to host"


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {**os.environ})
    try:
        assert shell.run("A=1") == "\n"
        assert shell.run("echo $A").strip() == "1"
        with pytest.raises(AssertionError, match="no such thing"):
            shell.run("echo no such thing; false\necho after")
    finally:
        shell.stop()
