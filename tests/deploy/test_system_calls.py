"""A server's system calls are allowed by the systemd units, which a new dependency could violate."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.deploy.test_systemd import NAMES, UNITS
from tests.harness.debian import Program, program
from tests.harness.own_process import OwnProcess
from tests.harness.receiver import Receiver

_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", re.MULTILINE)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")

# SQLite sets the owner of its files to the owner of the database, but only as root. The units do not run as root.
ONLY_AS_ROOT = {"fchown"}


def sets() -> dict[str, set[str]]:
    """Return systemd's sets of system calls. A set may contain other sets."""
    found: dict[str, set[str]] = {}
    said = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    members: set[str] = set()
    for line in _COLOR.sub("", said).splitlines():
        if line.startswith("@"):
            members = found.setdefault(line.strip(), set())
        elif line.strip() and not line.strip().startswith("#"):
            members.add(line.strip())
    return found


def calls_of(name: str, known: dict[str, set[str]]) -> set[str]:
    parts = known[name]
    return {each for each in parts if each[0] != "@"}.union(
        *(calls_of(each, known) for each in parts if each[0] == "@")
    )


class Traced(OwnProcess):
    """The process is the server itself; strace (`-D`) runs next to it."""

    strace: Program

    def command_line(self) -> Sequence[str]:
        trace = ["-D", "-f", "-qq", "-o", str(self.data.parent / "trace")]
        return [self.strace.path, *trace, sys.executable, "-m", "workhook", *self.command]

    def surroundings(self) -> Mapping[str, str]:
        libraries = {name: text for name, text in self.strace.environment.items() if name == "LD_LIBRARY_PATH"}
        return {**self.environment(), **libraries}


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: NOT TESTED. Install systemd.")
    server = Traced(tmp_path / "data", {})
    server.strace = program("strace", "strace")
    if subprocess.run([server.strace.path, "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace may not trace here: NOT TESTED.")
    server.start()
    yield server
    server.close()


@pytest.mark.whole
def test_a_server_makes_only_system_calls_that_the_units_allow(traced: Traced, receiver: Receiver) -> None:
    for name in NAMES:
        filters = re.findall(r"^SystemCallFilter=(.*)$", (UNITS / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert filters == ["@system-service", "~@privileged"]
    world = traced.world()
    project = f"/api/v1/projects/{world.project_id}"
    with traced.client(world.token) as client:
        hook = {"config": {"url": receiver.url, "content_type": "json"}, "events": ["push"]}
        client.post(f"{world.repo_path}/hooks", json=hook).raise_for_status()
        client.post(f"{project}/files", files={"file": ("a.txt", b"x" * 100_000)}).raise_for_status()
        line = {"description": "Hosting", "qty": 1, "unit_price": 9.9}
        fields = {"bill_to": "Büro Ö", "currency": "EUR", "tax": 20, "invoice_items": [line]}
        made = client.post(f"{project}/invoices", json=fields).raise_for_status().json()
        client.post(f"/api/v1/invoices/{made['invoice']['id']}/send").raise_for_status()
        client.get(f"/api/v1/invoices/{made['invoice']['id']}/pdf").raise_for_status()
        client.get("/metrics").raise_for_status()
    receiver.wait_for(1)
    assert traced.stop() == 0
    known = sets()
    allowed = calls_of("@system-service", known) - calls_of("@privileged", known)
    used = set(_CALL.findall((traced.data.parent / "trace").read_text()))
    assert {"openat", "connect", "execve"} <= used
    assert used - allowed - ONLY_AS_ROOT == set()
