"""Commands of the tests where nothing can be forked: they start the ordinary way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.harness import forge


def test_without_the_forge_commands_start_the_ordinary_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    process.kill()  # long over: nobody else is meant by that number
