"""M1 and S1: startup time and memory of an idle server."""

from __future__ import annotations

import compileall
import http.client
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import workhook as package
from bench.processes import CannotMeasure, workhook

SETTLE_S = 3.0  # from the first response until memory is read
FIRST_ANSWER_S = 30.0


@dataclass
class Started:
    """One start: `seconds` from the command to the first 200, and `idle_mib` of resident memory afterwards."""

    seconds: float
    idle_mib: float


def measure(folder: Path, core: int) -> Started:
    """Start `workhook serve` on an empty folder, with SQLite. Modules are compiled beforehand, as pip does."""
    compileall.compile_dir(Path(package.__file__).parent, quiet=2)
    started = time.monotonic()
    process = workhook("serve", folder, {}, core, "--port", "0")
    try:
        url = process.wait_for_url()
        _first_200(url)
        seconds = time.monotonic() - started
        time.sleep(SETTLE_S)
        return Started(seconds, process.rss_bytes() / 2**20)
    finally:
        process.stop()


def _first_200(url: str) -> None:
    parts = urlsplit(url)
    end = time.monotonic() + FIRST_ANSWER_S
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            continue
        finally:
            connection.close()
    raise CannotMeasure(f"no 200 within {FIRST_ANSWER_S:.0f} s")
