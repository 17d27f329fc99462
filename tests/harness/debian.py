"""Programs from Debian packages that have no wheel, without installing them.

Missing packages are unpacked into the environment's folder, with the libraries they need. The system is not changed,
and no service is started.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

BASE = Path(__file__).parents[2] / ".venv" / "debian"
UNPACKED = BASE / "root"
_PLACES = ("usr/sbin", "usr/bin", "sbin", "bin")
_TIMEOUT_S = 100
_PACKAGES_S = 15  # for an unresponsive mirror


class _NoWay(Exception):
    """The packages are unavailable: no network, no mirror, or no package of this name."""


class Program:
    """The path of a program and the environment it needs."""

    def __init__(self, path: str, environment: dict[str, str]) -> None:
        self.path, self.environment = path, environment


def program(name: str, *packages: str) -> Program:
    """Return the system's program, or else the one from these packages. Skips the test if neither is available."""
    if (found := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")) is not None:
        return Program(found, {})
    if (found := _unpacked(name)) is None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            pytest.skip(f"{name} is not installed, and this is not Debian: NOT TESTED. Install {' '.join(packages)}.")
        try:
            _unpack(packages)
        except _NoWay as error:
            # Repeated at the end of the run (`conftest`), because the machine is at fault, not the code.
            pytest.skip(f"{name} is not installed, and {error}: NOT TESTED. Install {' '.join(packages)}.")
        found = _unpacked(name)
    assert found is not None, f"{name} is not in {' '.join(packages)}"
    return Program(found, _environment())


def _unpacked(name: str) -> str | None:
    """Find an unpacked program. Some names are links created during installation, to a file called `name.default`."""
    places = ":".join(str(UNPACKED / each) for each in _PLACES)
    return shutil.which(name, path=places) or shutil.which(f"{name}.default", path=places)


def _environment() -> dict[str, str]:
    libraries = [str(each) for below in ("lib", "usr/lib") for each in (UNPACKED / below).glob("*-linux-gnu*")]
    return {
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PYTHONPATH": str(UNPACKED / "usr/lib/python3/dist-packages"),
        "PATH": ":".join([*(str(UNPACKED / each) for each in _PLACES), os.environ.get("PATH", "")]),
    }


def _unpack(packages: Sequence[str]) -> None:
    """Download and unpack packages with private lists and a private cache, without root. Processes take turns."""
    files = BASE / "files"
    for each in (UNPACKED, files, BASE / "lists/partial", BASE / "cache/archives/partial"):
        each.mkdir(parents=True, exist_ok=True)
    with (BASE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _apt("update")
        listed = _apt("install", "--print-uris", "--yes", "--no-install-recommends", *packages)
        wanted = [line.split()[1].partition("_")[0] for line in listed.splitlines() if line.startswith("'")]
        _apt("download", *wanted, folder=files)
        for each in files.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", each, UNPACKED], check=True, timeout=_TIMEOUT_S)
            each.unlink()


def _apt(*words: str, folder: Path = BASE) -> str:
    own = {
        "Dir::State::lists": BASE / "lists",
        "Dir::Cache": BASE / "cache",
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "root",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": _PACKAGES_S,
        "Acquire::https::Timeout": _PACKAGES_S,
    }
    options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
    try:
        done = subprocess.run(
            ["apt-get", *options, "-qq", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise _NoWay(f"apt-get {words[0]} takes too long") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise _NoWay(f"apt-get {words[0]} fails ({last[0]})")
    return done.stdout
