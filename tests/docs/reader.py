"""Readers who follow a page, from a fresh checkout or with the running server that the how-to pages assume."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.proxies import free_port
from tests.docs.pages import Program, Shell, checkout, new_machine
from tests.harness.server import Server
from tests.harness.waiting import until

# The number of times each tutorial starts the receiver.
TUTORIALS = {"docs/integrators/tutorial-webhooks.md": 2, "docs/integrators/tutorial-studio.md": 1}
MAIL_SERVER = "pipx run aiosmtpd "
RECEIVER = "SECRET=s3cret python3 examples/receiver.py "
SETUP = "workhook setup --organization acme --owner octo --email octo@example.com --project Website --json"


@dataclass
class Guided:
    """A server that how-to pages assume.

    `$W` is the server's URL and `$A` the Authorization header of octo, who owns `acme/website`. Commands find the data
    folder.
    """

    server: Server
    shell: Shell
    token: str
    project: str

    @property
    def log(self) -> str:
        return self.server.log()


@contextmanager
def guided(folder: Path, **settings: Any) -> Iterator[Guided]:
    """Yield a server for one page. `settings` are those of `Server`."""
    server = Server(folder / "data", settings).start()
    try:
        environment = new_machine(folder) | {"WORKHOOK_DATA": str(server.data), "W": server.url}
        made = subprocess.run(SETUP.split(), env=environment, capture_output=True, text=True, check=True)
        token, project = (json.loads(made.stdout)[each] for each in ("token", "project_id"))
        shell = Shell(folder, environment | {"A": f"Authorization: Bearer {token}"})
        try:
            yield Guided(server, shell, token, project)
        finally:
            shell.stop()
    finally:
        server.close()


class Reader:
    """A reader with a shell, a server and a receiver. Only folders and ports differ from the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = checkout(folder / "workhook")
        # A reader is back before the first retry after ten seconds, but a slow machine may not be.
        self.environment = new_machine(folder) | {"WORKHOOK_DELIVERY_RETRY_FIRST_S": "600"}
        self.shell = Shell(self.folder, self.environment)
        self.running: list[Program] = [self.shell]
        self.receiver: Program | None = None
        self.mail_server: Program | None = None
        self.substitutes = {"/tmp/": f"{folder}/"}
        self.said = ""  # output of the last blocks, newest last

    def start(self, command: str) -> Program:
        program = Program(["bash", "-c", f"exec env {command}"], self.folder, self.environment)
        self.running.append(program)
        return program

    def follow(self, block: str) -> None:
        block = self.replaced(block)
        if re.match(r"(?:WORKHOOK_\w+=\S+ )*make run ", block):
            self._serve(block)
        elif block.startswith(MAIL_SERVER):
            self._receive_mail(block)
        elif block.startswith(RECEIVER):
            self._receive(block)
        else:
            self.said = self.shell.run(block)
            self._remember_token(self.said)

    def _serve(self, block: str) -> None:
        made = re.fullmatch(r'((?:WORKHOOK_\w+=\S+ )*)make run ARGS="(.*)"\n', block)
        assert made, block
        # The command that `make run` executes once the environment exists; see the Makefile.
        server = self.start(f"{made[1]}.venv/bin/workhook serve --data ./data {made[2]} --port 0")
        address = server.wait_for("^workhook: listening on ").split()[-1]
        self.substitutes["http://127.0.0.1:8000"] = address
        kept = re.search(r"workhook: (\S+) has a sign-in link", "".join(server.lines))  # shown only on a terminal
        self._remember_token(Path(kept[1]).read_text() if kept else "")

    def _receive_mail(self, block: str) -> None:
        """Start the mail server. The tests' environment already contains the program that `pipx` would fetch."""
        address = f"127.0.0.1:{free_port()}"
        self.substitutes["127.0.0.1:1025"] = address
        command = block.replace("pipx run", f"{sys.executable} -u -m").replace("127.0.0.1:1025", address)
        self.mail_server = self.start(command)
        until(lambda: _is_open(address))

    def _receive(self, block: str) -> None:
        self.receiver = self.start(block.replace("receiver.py 9000", "receiver.py 0"))
        port = self.receiver.wait_for("^waiting on ").strip().rpartition(":")[2]
        self.substitutes |= {"127.0.0.1:9000": f"127.0.0.1:{port}", "receiver.py 9000": f"receiver.py {port}"}

    def _remember_token(self, said: str) -> None:
        for token in re.findall(r"whp_[0-9A-Za-z]{36}", said):
            self.substitutes["whp_…"] = token

    @property
    def token(self) -> str:
        """Return the token that was printed last."""
        return self.substitutes["whp_…"]

    def replaced(self, block: str) -> str:
        for written, actual in self.substitutes.items():
            block = block.replace(written, actual)
        return block

    def close(self) -> None:
        for program in reversed(self.running):
            program.stop()


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
        return True
    return False
