"""Processes of `workhook` that need not import it: each is forked from one that has.

They are processes like those a shell starts: with their own id, environment, streams, signals and exit status. Only the
start is another, and that is most of what a short command costs. What is about the start itself, or about a terminal,
begins with `sys.executable`. Where a system cannot tell of a forked process's end (`NoForge`), all start as any other.
The processes of a run share one (`begin_for_run`): to import everything takes 4 s.
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
SOCKET = "forge"  # `asking_forge.py` names it, too
TROUBLE = "trouble"  # what the forge has said before it ended
_RUN = "TESTS_FORGE"  # the variable that names the folder of the forge that the processes of a run share


class Forged:
    """A process that was forked: the part of `subprocess.Popen` that the tests need."""

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
        self.returncode = int(status) if status else -signal.SIGKILL  # the forge has gone, and took it along
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
            with contextlib.suppress(ProcessLookupError):  # it has ended, and nobody has told yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forge:
    """Asks the process that has imported everything, which listens in the folder `commands`.

    There is a command `workhook` for shells, too, whose processes are forked likewise.
    """

    def __init__(self, commands: Path) -> None:
        self.commands = commands

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int], cwd: Path | None
    ) -> Forged:
        """`workhook` with these words. The streams stay the caller's to close."""
        wanted = {"words": list(words), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(self.commands / SOCKET))
            socket.send_fds(line, [b"!"], streams)
            line.sendall(json.dumps(wanted).encode() + b"\n")
            pid = b""
            while not pid.endswith(b"\n"):
                piece = line.recv(1)  # no more: what follows is the status
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
    """Begins that process. It ends with the one that began it, and with all it has forked."""

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
    """A process that began as a shell begins it."""

    def __init__(self, process: subprocess.Popen[bytes], words: Sequence[str]) -> None:
        self._process = process
        super().__init__(process.pid, words)

    def _watch(self) -> None:
        self.returncode = self._process.wait()
        self._over.set()


class NoForge:
    """Where nothing tells of the end of a process that was forked (macOS): each imports by itself."""

    commands = Path(sys.executable).parent

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int], cwd: Path | None
    ) -> Forged:
        """As `Forge.start`."""
        stdin, stdout, stderr = streams
        command = [sys.executable, "-m", "workhook", *words]
        return Started(
            subprocess.Popen(command, env=dict(environment), stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd), words
        )


def new_forge() -> Forge | NoForge:
    """What this system has: the one of the run, or one for this process alone."""
    if not _can_fork():
        return NoForge()
    commands = os.environ.get(_RUN)
    return OwnForge() if commands is None else Forge(Path(commands))


def _can_fork() -> bool:
    return hasattr(os, "pidfd_open") and Path("/proc/self/task").is_dir()


def begin_for_run() -> OwnForge | None:
    """One for all processes that this one begins from now on; `end_for_run` ends it."""
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
    """The one that this process asks."""
    return new_forge()


def start(words: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None) -> tuple[Forged, IO[str]]:
    """A process that goes on, and what it says on either stream."""
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
    """A command from its start to its end. `given`: its standard input. Raises `subprocess.TimeoutExpired`."""
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
        pass  # it does not read
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    for reader in readers:
        reader.join(timeout_s)
    return subprocess.CompletedProcess(process.args, status, said[reading], said[hearing])
