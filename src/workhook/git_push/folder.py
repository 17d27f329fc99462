"""`GIT_DIR/workhook`: where things are in it, its configuration, its log."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from workhook.core.terminal import visible

LOG_BYTES = 1_000_000
"""The log is renamed to `log.1` at this size: two files of it at most."""


class ConfigError(Exception):
    """`config.json` is missing or not usable; mending it (installing again) is enough to go on."""


class Config(NamedTuple):
    """What `install` wrote. `url` is the server's base address, or None: ask `data_dir` when something is sent."""

    repository: str
    data_dir: Path
    token: str
    url: str | None

    def __repr__(self) -> str:
        return f"Config({self.repository})"


class Log:
    """`workhook/log`: one line an event, bounded. Not the server's log: this runs as whoever pushes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def info(self, text: str) -> None:
        self._append("info", text)

    def error(self, text: str) -> None:
        self._append("error", text)

    def _append(self, level: str, text: str) -> None:
        """A log that cannot be written (a full disk) is given up: there is nowhere left to say so."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{at} {level} [{os.getpid()}] {visible(' '.join(text.split()))}\n"
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                if self._path.stat().st_size > LOG_BYTES:
                    self._path.replace(self._path.with_name("log.1"))
            target = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(target, line.encode("utf-8", "backslashreplace"))
            finally:
                os.close(target)


class Folder:
    """Paths of one repository's `workhook` folder. Nothing is created here."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = _common_dir(Path(os.path.abspath(git_dir)))
        self.root = self.git_dir / "workhook"
        self.config = self.root / "config.json"
        self.spool = self.root / "spool"
        self.rejected = self.root / "rejected"
        self.corrupt = self.root / "corrupt"
        self.log = Log(self.root / "log")

    def create(self) -> None:
        for path in (self.root, self.spool, self.rejected, self.corrupt):
            path.mkdir(mode=0o700, exist_ok=True)
        self.root.chmod(0o700)


def _common_dir(git_dir: Path) -> Path:
    """The repository a linked work tree's Git directory belongs to (gitrepository-layout, `commondir`)."""
    try:
        target = (git_dir / "commondir").read_text().strip()
    except OSError:
        return git_dir
    return Path(os.path.normpath(git_dir / target))


class NoServer(ConfigError):
    """No server runs that uses the data folder; one may later."""


def load_config(folder: Folder) -> Config:
    """Raises `ConfigError`."""
    try:
        raw = json.loads(folder.config.read_bytes())
        url = raw["url"]
        texts = (raw["repository"], raw["data_dir"], raw["token"], "" if url is None else url)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"config.json is not usable ({type(error).__name__}: {error}); install again") from error
    if not all(isinstance(text, str) for text in texts) or texts[0].count("/") != 1:
        raise ConfigError("config.json has a wrong value; install again")
    return Config(texts[0], Path(texts[1]), texts[2], url)


def server_url(config: Config) -> str:
    """The server's base address without a final slash: as installed, else what the server wrote to `server.json`."""
    url = config.url
    if url is None:
        try:
            url = json.loads((config.data_dir / "server.json").read_bytes())["url"]
        except FileNotFoundError:
            # No guess: whatever listens on a likely port would be shown the token.
            raise NoServer(f"no server runs with the data folder {config.data_dir}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"server.json in the data folder is not usable ({type(error).__name__})") from error
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ConfigError("the server's address must start with http:// or https://")
    return url.rstrip("/")


def write_durably(path: Path, content: bytes) -> None:
    """Put `content` at `path`, all of it or none, mode 0600; on disk when this returns. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(target, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_dir(path.parent)


def sync_dir(path: Path) -> None:
    """Make a rename or a removal in `path` durable."""
    target = os.open(path, os.O_RDONLY)
    try:
        os.fsync(target)
    finally:
        os.close(target)
