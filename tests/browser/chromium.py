"""Chromium for the tests: the installed one, or the one in the npm package `@sparticuz/chromium`.

The package contains the program for x86-64 Linux, compressed. It is unpacked once per version, with the libraries and
the font that a minimal machine lacks."""

from __future__ import annotations

import fcntl
import io
import json
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import brotli
import psutil
from playwright.async_api import Browser, Playwright

from tests.harness.archives import unpack_tar
from tests.harness.waiting import WAIT_S, until
from tests.node_tools import ensure_node_modules

PROGRAMS = ("chromium", "google-chrome", "google-chrome-stable")

# No background requests, and no host name resolves outside this machine. The sandbox does not work as root.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)

# Screenshots use the same fonts on each machine, as far as the package contains them.
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{cache}</cachedir>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


@dataclass(frozen=True)
class Program:
    """An executable, and the environment variables it needs in addition to ours."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def find_chromium() -> Program:
    """Return the installed Chromium, or unpack one unless that has been done already."""
    for name in PROGRAMS:
        if (found := shutil.which(name)) is not None:
            return Program(Path(found))
    machine = f"{platform.system()} {platform.machine()}"
    assert machine == "Linux x86_64", f"The package brings no Chromium for {machine}: install one as `{PROGRAMS[0]}`."
    modules = ensure_node_modules()
    folder = unpack(modules / "@sparticuz" / "chromium", modules / ".chromium")
    environment = {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")}
    return Program(folder / "chromium", environment)


def unpack(package: Path, into: Path) -> Path:
    """Return the folder of this version in `into`, and unpack it if necessary. Concurrent calls take turns."""
    description = package / "package.json"
    with description.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # this file is never written, so it can also serve as the lock of the folder
        folder = into / str(json.load(lock)["version"])
        if not folder.is_dir():
            into.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=into) as begun:
                _unpack_all(package / "bin", Path(begun) / "whole", cache=folder / "cache")
                (Path(begun) / "whole").rename(folder)  # an interrupted process leaves no folder with this name
    return folder


def _unpack_all(source: Path, folder: Path, *, cache: Path) -> None:
    """Unpack the program, its libraries and fonts. `cache` is the font cache and should be absolute, because fontconfig
    resolves relative paths against the current folder."""
    for name in ("al2023", "fonts"):
        with tarfile.open(fileobj=io.BytesIO(_decompressed(source / f"{name}.tar.br"))) as archive:
            unpack_tar(archive, folder)
    (folder / "fonts.conf").write_text(_FONTS.format(cache=cache))
    program = folder / "chromium"
    program.write_bytes(_decompressed(source / "chromium.br"))
    program.chmod(0o755)


def _decompressed(path: Path) -> bytes:
    plain: bytes = brotli.decompress(path.read_bytes())
    return plain


async def launch(playwright: Playwright) -> Browser:
    """Start a new browser process, which ends with this one."""
    program = find_chromium()
    return await playwright.chromium.launch(
        executable_path=program.path,
        args=ARGUMENTS,
        env={**os.environ, **program.environment},
        timeout=WAIT_S * 1000,
    )


def wait_for_end(processes: Iterable[psutil.Process]) -> None:
    """Fail if a process does not end. A zombie counts as ended, because some machines do not reap orphans."""
    left = list(processes)

    def over() -> bool:
        left[:] = [each for each in left if _is_alive(each)]
        return not left

    until(over)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
