"""Commands of the tests on systems that cannot fork, where they start normally."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness import forge
from tests.harness.waiting import until


@pytest.mark.whole  # on systems without a forge, every test covers this
def test_without_a_forge_commands_start_normally(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    way = forge.new_forge()
    assert isinstance(way, forge.NoForge)
    monkeypatch.setattr(forge, "forge", lambda: way)
    environment = {**os.environ, "WORKHOOK_DATA": "here"}

    def run(*words: str, given: str = "") -> tuple[int, str, str]:
        done = forge.run(words, environment, given=given, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    made = run("setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com")
    assert (made[0], made[2]) == (0, "")
    assert (tmp_path / "here").is_dir()
    short = run("user", "set-password", "--login", "octo", "--password-file", "-", given="short\n")
    assert short == (1, "", "workhook: The password needs at least 10 characters.\n")

    process, output = forge.start(["serve", "--port", "0"], environment, tmp_path)
    with output:
        assert any(line.startswith("workhook: listening on ") for line in output)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        output.read()
    assert process.wait(60) == 0
    process.kill()  # it ended long ago, and its ID must not be signaled


needs_forge = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing tells of the end of a forked process")


@needs_forge
@pytest.mark.whole  # `make test` uses such a forge itself
def test_a_run_has_only_one_forge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TESTS_FORGE", raising=False)
    begun = forge.begin_for_run()
    assert begun is not None
    try:
        assert forge.begin_for_run() is None
        asked = forge.new_forge()
        assert not isinstance(asked, forge.OwnForge)
        monkeypatch.setattr(forge, "forge", lambda: asked)
        done = forge.run(["--version"], os.environ, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        forge.end_for_run(begun)
    with pytest.raises(AssertionError, match="the forge has ended"):
        forge.run(["--version"], os.environ, cwd=tmp_path)


@needs_forge
def test_a_forked_process_ends_with_its_client(tmp_path: Path) -> None:
    program = """
import os, sys
from tests.harness import forge
from tests.harness.waiting import until
process, output = forge.start(["serve", "--port", "0"], os.environ)
assert any(line.startswith("workhook: listening on ") for line in output)
print(process.pid, flush=True)
sys.stdin.read()
os._exit(1)  # as a worker that crashed: nothing is closed in order
"""
    commands = forge.forge().commands
    asking = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=forge.ROOT,
        env={**os.environ, "WORKHOOK_DATA": str(tmp_path), "TESTS_FORGE": str(commands)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with asking:
        assert asking.stdout is not None
        server = psutil.Process(int(asking.stdout.readline()))
        assert server.is_running()
    until(lambda: not server.is_running())
