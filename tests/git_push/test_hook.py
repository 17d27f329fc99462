"""What a pusher notices of the hook: nothing, or one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.git_push.kit import Receiver, Site, eventually, git
from workhook.git_push.hook import post_receive
from workhook.git_push.sender import send_pending
from workhook.git_push.spool import LOG_BYTES, HookFolder

ZERO = "0" * 40


def test_a_push_succeeds_when_it_cannot_be_recorded(ready: Site) -> None:
    (ready.root / "spool").rmdir()
    (ready.root / "spool").write_text("not a folder")
    said = ready.push("main:other")
    assert said.count("\n") == 1
    assert "remote: workhook: this push could not be recorded" in said


def test_a_push_succeeds_without_a_configuration_and_is_kept(ready: Site, receiver: Receiver) -> None:
    (ready.root / "config.json").unlink()
    assert ready.push("main:other") == ""
    eventually(lambda: "install again" in (ready.root / "log").read_text())
    ready.install(receiver.url)
    assert send_pending(ready.bare).sent == 1


def test_a_push_succeeds_without_the_interpreter(ready: Site, tmp_path: Path, receiver: Receiver) -> None:
    python = tmp_path / "bin with space" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ready.install(receiver.url, python=str(python))
    ready.push("main:two")
    receiver.payloads(1)
    python.write_text("#!/bin/sh\necho Traceback >&2\necho more >&2\nexit 1\n")
    broken = ready.push("main:three")
    python.unlink()
    missing = ready.push("main:four")
    for said in (broken, missing):
        assert said.count("\n") == 1
        assert "remote: workhook: the hook cannot run" in said


def test_the_repository_cannot_choose_what_is_imported(ready: Site, receiver: Receiver) -> None:
    for name in ("json", "workhook", "subprocess", "sitecustomize"):
        (ready.bare / f"{name}.py").write_text("open('injected', 'w')\nraise SystemExit(3)\n")
    assert ready.push("main:other", env={"PYTHONPATH": str(ready.bare), "PYTHONSTARTUP": "json.py"}) == ""
    receiver.payloads(1)
    assert not (ready.bare / "injected").exists()


def test_the_environment_of_git_is_not_followed(
    ready: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "gone"))
    monkeypatch.setenv("GIT_DIR", ".")
    oid = (ready.bare / "refs/heads/main").read_text().strip()
    monkeypatch.chdir(ready.bare)
    assert post_receive(Path("."), [f"{ZERO} {oid} refs/heads/x\n", "nonsense\n", "\n"]) == 0
    [payload] = receiver.payloads(1)
    assert (payload["ref"], payload["head_commit"]["id"]) == ("refs/heads/x", oid)


def test_nothing_is_recorded_for_nothing(ready: Site) -> None:
    assert post_receive(ready.bare, []) == 0
    assert post_receive(ready.bare, ["a b\n", f"{ZERO} -x refs/heads/y\n"]) == 0
    assert not ready.waiting()


def test_a_repository_that_is_not_connected_is_left_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "other.git")
    assert post_receive(tmp_path / "other.git", [f"{ZERO} {'1' * 40} refs/heads/x\n"]) == 0
    assert not (tmp_path / "other.git/workhook").exists()


def test_the_hook_imports_little() -> None:
    """A push waits for these imports: nothing that is installed, nothing that takes long."""
    code = "import sys, workhook.git_push.__main__, workhook.git_push.hook; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-E", "-P", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "workhook.git_push.spool" in loaded
    heavy = {"typer", "click", "rich", "aiohttp", "asyncio", "sqlalchemy", "msgspec", "ssl", "http", "dataclasses"}
    assert not loaded & heavy


def test_the_log_is_bounded_and_private(ready: Site) -> None:
    log = HookFolder(ready.bare).log
    line = "x" * 100_000
    for _ in range(3 * LOG_BYTES // len(line)):
        log.info(line)
    sizes = [path.stat().st_size for path in ready.root.glob("log*")]
    assert len(sizes) == 2
    assert max(sizes) < LOG_BYTES + 2 * len(line)
    assert "ghp_secret" not in (ready.root / "log").read_text()
    assert (ready.root / "log").stat().st_mode & 0o777 == 0o600
