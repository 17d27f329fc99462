"""Forked `workhook` processes, which need not import the package because their parent already has.

They behave like processes started by a shell, with their own ID, environment, streams, signals and exit status. Only
the startup differs, which is most of the cost of a short command. Tests of the startup itself or of a terminal use
`sys.executable`. On systems that do not report the end of forked processes (`NoForge`), all start normally. The
processes of a run share one forge (`begin_for_run`), because importing everything takes 4 s.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
SOCKET = "forge"  # also used by `asking_forge.py`
TROUBLE = "trouble"  # the forge's last output
_RUN = "TESTS_FORGE"  # the environment variable with the folder of the forge shared in a run


class Forged:
    """A forked process, with the part of `subprocess.Popen` that tests need."""

    def __init__(self, pid: int, words: Sequence[str], line: socket.socket | None = None) -> None:
        self.pid = pid
        self.args = list(words)
        self.returncode: int | None = None
        self._line = line
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        assert self._line is not None
        with self._line, self._line.makefile() as said:
            status = said.readline()
        self.returncode = int(status) if status else -signal.SIGKILL  # the forge has died with its children
        self._over.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, but the report has not arrived
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forge:
    """A client of the forge, which listens in the folder `commands`.

    The folder also contains a command `workhook` for shells, whose processes are forked as well.
    """

    def __init__(self, commands: Path) -> None:
        self.commands = commands

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int], cwd: Path | None
    ) -> Forged:
        """Start `workhook` with these arguments. The caller closes its own streams."""
        wanted = {"words": list(words), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(self.commands / SOCKET))
            socket.send_fds(line, [b"!"], streams)
            line.sendall(json.dumps(wanted).encode() + b"\n")
            pid = b""
            while not pid.endswith(b"\n"):
                piece = line.recv(1)  # only the line with the pid, because the status follows
                if not piece:
                    raise BrokenPipeError
                pid += piece
        except OSError as error:
            line.close()
            trouble = self.commands / TROUBLE
            said = trouble.read_text(encoding="utf-8") if trouble.exists() else "in order"
            raise AssertionError(f"the forge has ended: {said}") from error
        return Forged(int(pid), words, line)


class OwnForge(Forge):
    """A forge started by this process. It ends with this process, together with all its children."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="workhook-forge-")
        super().__init__(Path(self._folder.name))
        program = Path(__file__).with_name("asking_forge.py").read_text(encoding="utf-8")
        command = self.commands / "workhook"
        command.write_text(f"#!{sys.executable} -IS\n{program}", encoding="utf-8")
        command.chmod(0o700)
        self._control, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listening, (self.commands / TROUBLE).open("wb") as trouble:
            listening.bind(str(self.commands / SOCKET))
            listening.listen()
            given = (theirs.fileno(), listening.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.forging", *map(str, given)],
                cwd=ROOT,
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=trouble,
            )
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._control.close()
        self._process.wait(30)
        self._folder.cleanup()


class Started(Forged):
    """A process started normally."""

    def __init__(self, process: subprocess.Popen[bytes], words: Sequence[str]) -> None:
        self._process = process
        super().__init__(process.pid, words)

    def _watch(self) -> None:
        self.returncode = self._process.wait()
        self._over.set()


class NoForge:
    """A replacement for systems that do not report the end of forked processes (macOS). Each process imports
    everything."""

    commands = Path(sys.executable).parent

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int], cwd: Path | None
    ) -> Forged:
        """Start a process like `Forge.start`."""
        stdin, stdout, stderr = streams
        command = [sys.executable, "-m", "workhook", *words]
        return Started(
            subprocess.Popen(command, env=dict(environment), stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd), words
        )


def new_forge() -> Forge | NoForge:
    """Return the forge of the run, or a new one for this process, or `NoForge` if the system cannot fork."""
    if not _can_fork():
        return NoForge()
    commands = os.environ.get(_RUN)
    return OwnForge() if commands is None else Forge(Path(commands))


def _can_fork() -> bool:
    return hasattr(os, "pidfd_open") and Path("/proc/self/task").is_dir()


def begin_for_run() -> OwnForge | None:
    """Start a forge for all processes started from now on, until `end_for_run`."""
    if not _can_fork() or _RUN in os.environ:
        return None
    begun = OwnForge()
    os.environ[_RUN] = str(begun.commands)
    return begun


def end_for_run(begun: OwnForge) -> None:
    del os.environ[_RUN]
    begun.close()


@functools.cache
def forge() -> Forge | NoForge:
    """Return the forge that this process uses."""
    return new_forge()


def start(words: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None) -> tuple[Forged, IO[str]]:
    """Start a long-running process. Return it and its combined output."""
    reading, writing = os.pipe()
    with open(os.devnull, "rb") as nothing:
        try:
            process = forge().start(words, environment, (nothing.fileno(), writing, writing), cwd)
        finally:
            os.close(writing)
    return process, os.fdopen(reading, encoding="utf-8")


def run(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    given: str = "",
    cwd: Path | None = None,
    timeout_s: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends. `given` is its standard input. Raises `subprocess.TimeoutExpired`."""
    pipes = [os.pipe() for _ in range(3)]
    (stdin, writing), (reading, stdout), (hearing, stderr) = pipes
    said: dict[int, str] = {}

    def read(end: int) -> None:
        with os.fdopen(end, encoding="utf-8") as file:
            said[end] = file.read()

    readers = [threading.Thread(target=read, args=(end,), daemon=True) for end in (reading, hearing)]
    for reader in readers:
        reader.start()
    try:
        process = forge().start(words, environment, (stdin, stdout, stderr), cwd)
    finally:
        for end in (stdin, stdout, stderr):
            os.close(end)
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            file.write(given)
    except BrokenPipeError:
        pass  # it does not read its input
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    for reader in readers:
        reader.join(timeout_s)
    return subprocess.CompletedProcess(process.args, status, said[reading], said[hearing])
