"""`workhook` processes with a wrong system clock. Their monotonic clock is correct, as on a host whose clock is
wrong."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.own_process import OwnProcess
from tests.harness.server import START_TIMEOUT_S


def skewed(environment: Mapping[str, str], seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is off by `seconds`. Skips the test on unsupported platforms."""
    found = importlib.util.find_spec("libfaketime")
    assert found is not None, "it is among the development requirements"
    assert found.origin is not None
    library = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    made = {
        **environment,
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
    program = "import time; print(int(time.time()))"
    shown = [
        subprocess.run([sys.executable, "-c", program], env=each, capture_output=True, text=True, check=True).stdout
        for each in (dict(environment), made)
    ]
    if abs(int(shown[1]) - int(shown[0]) - seconds) > START_TIMEOUT_S / 2:
        assert (sys.platform, platform.machine()) != ("linux", "x86_64"), "the library is for this platform"
        pytest.skip(f"the clock cannot be changed for one process here: {library} is for another platform: NOT TESTED.")
    return made


class SkewedServer(OwnProcess):
    """A server or worker on a host whose clock is off by `seconds`."""

    seconds = 0

    def surroundings(self) -> Mapping[str, str]:
        return skewed(self.environment(), self.seconds)
