"""`workhook completion` in an interactive bash on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.waiting import until


class Terminal:
    """An interactive bash in a folder, which has sourced `workhook completion bash`."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = os.openpty()
        self._shown = bytearray()
        commands = Path(sys.executable).parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKHOOK_", "BASH"))}
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=folder,
            env={**kept, "PATH": f"{commands}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "$ ", "HOME": str(folder)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.type("bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'\n")
        self.type('eval "$(workhook completion bash)"; echo "rea""dy"\n')
        self.wait_for("ready")

    def _read(self) -> None:
        try:
            while block := os.read(self._ours, 65_536):
                self._shown.extend(block)
        except OSError:
            pass  # bash has ended

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        until(lambda: text in self._shown.decode(errors="replace"))

    def completed(self, typed: str, *expected: str) -> str:
        """Type the words and Tab, wait until all expected texts are shown, and return the output."""
        self._shown.clear()
        self.type(f"{typed}\t")
        for each in expected:
            self.wait_for(each)
        shown = self._shown.decode()
        self.type("\x15")  # clears the line
        return shown

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        os.close(self._ours)
        self._reader.join(30)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    for name in ("data-of-acme", "backups"):
        (tmp_path / name).mkdir()
    (tmp_path / "board.json").write_text("{}")
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_bash_completes_commands_options_and_values(terminal: Terminal) -> None:
    terminal.completed("workhook deliv", "workhook deliveries ")
    shown = terminal.completed("workhook database ", "copy", "release")
    assert "deliveries" not in shown
    terminal.completed("workhook deliveries list --fol", "deliveries list --follow ")
    terminal.completed("workhook deliveries list --status f", "--status failure ")
    # Required options are still missing.
    terminal.completed("workhook token create --user octo --k", "--user octo --kind ")
    terminal.completed("workhook completion ba", "completion bash ")


def test_bash_completes_paths(terminal: Terminal) -> None:
    terminal.completed("workhook serve --data data", "--data data-of-acme/")
    terminal.completed("workhook backup back", "backup backups/")
    terminal.completed("workhook import trello bo", "trello board.json ")


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef workhook"), ("fish", "function _workhook_completion")])
def test_other_shells_have_their_own_scripts(shell: str, begins: str) -> None:
    words = [sys.executable, "-m", "workhook", "completion", shell]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(begins)
    assert done.stderr == ""


def test_an_unknown_shell_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "workhook", "completion", "tcsh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr
