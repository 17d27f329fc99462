"""Facts about the machine, and how busy other processes keep it."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import psutil

from bench.processes import tree_cpu_s

QUIET_SHARE = 0.05  # of all cores: below this the machine is quiet
LOOK_S = 0.5
_FSYNCS = 100
_PAGE = b"\0" * 8192


def facts(folder: Path, postgres_version: str | None) -> dict[str, str]:
    """Return the facts that the figures depend on, as readable text."""
    median_ms, p90_ms = fsync_ms(folder)
    told = {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "aiohttp": version("aiohttp"),
        "uvloop": version("uvloop"),
        "sqlite": sqlite3.sqlite_version,
        "fsync": f"{median_ms:.2f} ms (90 % below {p90_ms:.2f} ms)",
    }
    if postgres_version is not None:
        told["postgresql"] = postgres_version
    return told


def fsync_ms(folder: Path) -> tuple[float, float]:
    """Return the median and 90th percentile of writing and syncing a page, in the folder of the databases."""
    path = folder / "fsync"
    taken = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for number in range(_FSYNCS):
            os.pwrite(descriptor, _PAGE, number * len(_PAGE))
            started = time.perf_counter()
            os.fdatasync(descriptor)
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(taken), statistics.quantiles(taken, n=10)[-1]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def wait_for_quiet(at_most_s: float) -> bool:
    """Wait until other processes leave the cores idle, for at most `at_most_s`. Returns whether they did."""
    end = time.monotonic() + at_most_s
    while True:
        before = _busy_s()
        time.sleep(LOOK_S)
        if (_busy_s() - before) / LOOK_S / (os.cpu_count() or 1) < QUIET_SHARE:
            return True
        if time.monotonic() > end:
            return False


class Noise:
    """The CPU used by processes outside of the run, as a share of all cores."""

    def __init__(self, postgres: psutil.Process | None = None) -> None:
        self._postgres = postgres  # detached, so it is not one of our child processes
        self._started, self._busy, self._ours = time.monotonic(), _busy_s(), self._our_cpu_s()

    def share(self) -> float:
        seconds = time.monotonic() - self._started
        others = (_busy_s() - self._busy) - (self._our_cpu_s() - self._ours)
        return max(0.0, others / seconds / (os.cpu_count() or 1)) if seconds > 0 else 0.0

    def _our_cpu_s(self) -> float:
        own = tree_cpu_s(psutil.Process())
        return own + (tree_cpu_s(self._postgres) if self._postgres is not None else 0.0)
