"""Processes pinned to cores, and their cost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

START_TIMEOUT_S = 120.0  # a start takes a second on an idle machine, and a minute alongside a test run


class CannotMeasure(Exception):
    """A figure cannot be measured. The run continues with the others."""


def cores() -> tuple[int, int]:
    """Return the core for the measured process and the core for everything else.

    Raises `CannotMeasure` on a single core.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise CannotMeasure("two cores are needed: one for what is measured, one for the receiver and the database")
    return usable[0], usable[1]


class Process:
    """A Python module run with `-m`, pinned to one core."""

    def __init__(self, module: str, *arguments: str, core: int, environment: Mapping[str, str] | None = None) -> None:
        self.output: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**clean_environment(), **(environment or {})},
        )
        # Long before its interpreter is ready, because threads inherit the core of the thread that starts them.
        os.sched_setaffinity(self._process.pid, {core})
        self.info = psutil.Process(self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._changed:
                    self.output.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> str:
        """Wait for a line that matches the pattern, and return its group.

        Raises `CannotMeasure` with the last lines of output if the process ends first or takes too long.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._find(pattern) is not None or self._ended, timeout_s)
            found = self._find(pattern)
            if found is None:
                raise CannotMeasure(f"no {pattern!r} from {self._process.args!r}: " + "\n".join(self.output[-15:]))
            return found

    def wait_for_url(self) -> str:
        """Return the address at which the server listens."""
        return self.wait_for(r'listening on (http://[^\s"]+)')

    def _find(self, pattern: str) -> str | None:
        return next((found[1] for line in self.output if (found := re.search(pattern, line))), None)

    def cpu_s(self) -> float:
        """Return CPU seconds so far, user and system. Raises `CannotMeasure` if the process has ended."""
        try:
            times = self.info.cpu_times()
        except psutil.NoSuchProcess:
            raise CannotMeasure("the process ended: " + "\n".join(self.output[-15:])) from None
        return float(times.user + times.system)

    def rss_bytes(self) -> int:
        return int(self.info.memory_info().rss)

    def descriptors(self) -> int:
        return int(self.info.num_fds())

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._reader.join(10)


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}


def workhook(command: str, data: Path, settings: Mapping[str, str], core: int, *more: str) -> Process:
    """Start `workhook serve` or `workhook worker`, with deliveries to loopback allowed and no limits."""
    values = {
        "data": str(data),
        "delivery_allow_networks": "127.0.0.0/8",
        "api_rate_limit": "0",
        "hooks_per_event": "0",
        "log_format": "json",
        "log_level": "warning",
        **settings,
    }
    environment = {f"WORKHOOK_{name.upper()}": value for name, value in values.items()}
    return Process("workhook", command, *more, core=core, environment=environment)


def tree_cpu_s(root: psutil.Process) -> float:
    """Return CPU seconds of a process and all its descendants, including those that have ended."""
    own = root.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return float(total)


def run_module(module: str, arguments: Sequence[str], core: int, timeout_s: float = 120.0) -> str:
    """Run a module to the end and return the line of JSON that it printed."""
    process = Process(module, *arguments, core=core)
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.stop()
        raise CannotMeasure(f"{module} took more than {timeout_s} s") from None
    line = process.wait_for(r"^(\{.*)")
    if status != 0:
        raise CannotMeasure(f"{module} ended with {status}: " + "\n".join(process.output[-15:]))
    return line
