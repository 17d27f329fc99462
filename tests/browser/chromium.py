"""The Chromium of the tests: the machine's, or else the one that the npm package `@sparticuz/chromium` brings.

That package holds the program for x86-64 Linux, compressed. It is unpacked once for each version, with the libraries
and a font that a bare machine lacks.
"""

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

# It asks nobody about itself, and no name leads out of this machine. Root cannot have the sandbox.
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

# Pictures have the same letters on each machine, as far as the package has a font for them.
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
    """An executable, and what its environment has beside ours."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def find_chromium() -> Program:
    """Where the machine has none, this unpacks one, unless another process has done it already."""
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
    """The folder of this version in `into`. Processes that call this at once take turns, and only the first unpacks."""
    description = package / "package.json"
    with description.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # nobody writes this file, so it can stand for the folder
        folder = into / str(json.load(lock)["version"])
        if not folder.is_dir():
            into.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=into) as begun:
                _unpack_all(package / "bin", Path(begun) / "whole", cache=folder / "cache")
                (Path(begun) / "whole").rename(folder)  # whoever is interrupted leaves nothing by this name
    return folder


def _unpack_all(source: Path, folder: Path, *, cache: Path) -> None:
    """`cache`: where the letters are kept ready; a path that begins nowhere would be one of the current folder."""
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
    """A new process of it, which ends with this one."""
    program = find_chromium()
    return await playwright.chromium.launch(
        executable_path=program.path,
        args=ARGUMENTS,
        env={**os.environ, **program.environment},
        timeout=WAIT_S * 1000,
    )


def wait_for_end(processes: Iterable[psutil.Process]) -> None:
    """Fail for those that do not end. A zombie has ended: not each machine has somebody who takes note of orphans."""
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
