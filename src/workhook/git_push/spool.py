"""`GIT_DIR/workhook`: configuration, log, and the spool of pushes waiting for the server.

The spool contains one file per push, in push order, until the server has accepted all of it. Files appear by rename, so
they are complete or absent. Next to `NAME.json`, `NAME.sent` lists the IDs that the server has already accepted, so
that a killed sender does not start the push over. Losing it only causes repeats, which the server recognizes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from workhook.core.text import visible

VERSION = 1
STALE_TEMPORARY_S = 3600
LOG_BYTES = 1_000_000  # the log is renamed to `log.1` at this size; at most two files exist


class ConfigError(Exception):
    """`config.json` is missing or invalid. Reinstalling fixes it."""


class Config(NamedTuple):
    """The configuration written by `install`.

    `url` is the server's base URL, or None to look it up in `data_dir` when sending.
    """

    repository: str
    data_dir: Path
    token: str
    url: str | None  # the server's base URL, or None to look it up in `data_dir` when sending

    def __repr__(self) -> str:
        return f"Config({self.repository})"


class Log:
    """`workhook/log`: one line per event, bounded in size. Not the server's log, because this runs as the pusher."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def info(self, text: str) -> None:
        self._append("info", text)

    def error(self, text: str) -> None:
        self._append("error", text)

    def _append(self, level: str, text: str) -> None:
        """Append a line. If that fails (a full disk), the line is lost: there is nowhere else to report it."""
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


class HookFolder:
    """Paths of one repository's `workhook` folder. The constructor creates nothing."""

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

    def owner(self) -> tuple[int, int] | None:
        """Return user and group of the repository if this process is root and they are not. Pushes run as that user."""
        found = self.git_dir.stat()
        return (found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None

    def adopt(self) -> None:
        """Give the files that root wrote here to the repository's owner."""
        owner = self.owner()
        if owner is None or not self.root.is_dir():
            return
        for place, folders, files in os.walk(self.root):  # does not follow links
            for name in (".", *folders, *files):
                os.chown(os.path.join(place, name), *owner, follow_symlinks=False)


def _common_dir(git_dir: Path) -> Path:
    """Return the repository of a linked work tree's Git directory (gitrepository-layout, `commondir`)."""
    try:
        target = (git_dir / "commondir").read_text().strip()
    except OSError:
        return git_dir
    return Path(os.path.normpath(git_dir / target))


class NoServer(ConfigError):
    """No server is running with the data folder. One may start later."""


def load_config(folder: HookFolder) -> Config:
    """Load `config.json`. Raises `ConfigError`."""
    try:
        raw = json.loads(folder.config.read_bytes())
        url = raw["url"]
        texts = (raw["repository"], raw["data_dir"], raw["token"], "" if url is None else url)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"config.json is not usable ({type(error).__name__}: {error}); run the installation again"
        ) from error
    if not all(isinstance(text, str) for text in texts) or texts[0].count("/") != 1:
        raise ConfigError("config.json has an invalid value; run the installation again")
    return Config(texts[0], Path(texts[1]), texts[2], url)


def server_url(config: Config) -> str:
    """Return the server's base URL without a trailing slash, as installed or else from the server's `server.json`."""
    url = config.url
    if url is None:
        try:
            url = json.loads((config.data_dir / "server.json").read_bytes())["url"]
        except FileNotFoundError:
            # Do not guess, because any program listening on a likely port would receive the token.
            raise NoServer(f"no server runs with the data folder {config.data_dir}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"server.json in the data folder is not usable ({type(error).__name__})") from error
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ConfigError("the server's address must start with http:// or https://")
    return url.rstrip("/")


def write_durably(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically with mode 0600, and sync it to disk. Raises `OSError`."""
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
    """Sync a rename or removal in `path` to disk."""
    target = os.open(path, os.O_RDONLY)
    try:
        os.fsync(target)
    finally:
        os.close(target)


# --- the spool -------------------------------------------------------------------------------------------------------


class CorruptEntry(Exception):
    """A spool file is damaged, unreadable or in an unknown format."""


class RefUpdate(NamedTuple):
    """One line of `post-receive`: IDs of 40 or 64 digits, all zeros for none. `id` makes publishing idempotent."""

    id: str
    before: str
    after: str
    ref: str


class Push(NamedTuple):
    """One push. `refs` are (object ID, name) of branches and tags after it, or None if Git could not list them."""

    pushed_at_ms: int
    pusher_name: str
    pusher_email: str | None
    options: tuple[str, ...]
    updates: tuple[RefUpdate, ...]
    refs: tuple[tuple[str, str], ...] | None


def new_name(folder: HookFolder) -> str:
    """Return a name that sorts after all others, even if the clock was set back."""
    newest = max((name for name in os.listdir(folder.spool) if name.endswith(".json")), default="")
    digits = newest[:20]
    stamp = max(time.time_ns(), int(digits) + 1 if digits.isdecimal() else 0)
    return f"{stamp:020d}-{os.urandom(6).hex()}"


def write(folder: HookFolder, name: str, entry: Push) -> None:
    """Write a push to the spool and sync it to disk. Raises `OSError`."""
    write_durably(folder.spool / f"{name}.json", encode(entry))


def encode(entry: Push) -> bytes:
    """Encode as ASCII. Name bytes that are not UTF-8 are kept as escaped lone surrogates and survive a round trip."""
    fields = {
        "version": VERSION,
        "pushed_at_ms": entry.pushed_at_ms,
        "pusher": {"name": entry.pusher_name, "email": entry.pusher_email},
        "options": entry.options,
        "updates": [update._asdict() for update in entry.updates],
        "refs": None if entry.refs is None else "".join(f"{oid} {ref}\n" for oid, ref in entry.refs),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(content: bytes) -> Push:
    """Decode a spool file. Raises `CorruptEntry`."""
    try:
        raw = json.loads(content)
        if raw["version"] != VERSION:
            raise CorruptEntry(f"version {raw['version']!r} is not known here")
        updates = tuple(RefUpdate(u["id"], u["before"], u["after"], u["ref"]) for u in raw["updates"])
        refs = raw["refs"]
        entry = Push(
            int(raw["pushed_at_ms"]),
            str(raw["pusher"]["name"]),
            raw["pusher"]["email"],
            tuple(map(str, raw["options"])),
            updates,
            None if refs is None else tuple(_parse_ref(line) for line in refs.split("\n") if line),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptEntry(f"{type(error).__name__}: {error}") from error
    if not updates or not all(is_oid(u.before) and is_oid(u.after) and u.id and u.ref for u in updates):
        raise CorruptEntry("no ref update, or an invalid one")
    return entry


def _parse_ref(line: str) -> tuple[str, str]:
    oid, _, ref = line.partition(" ")
    if not is_oid(oid):
        raise ValueError("a ref without an object ID")
    return oid, ref


def is_oid(text: object) -> bool:
    """Return whether `text` is a full SHA-1 or SHA-256 object ID. Nothing else is ever passed to Git."""
    return isinstance(text, str) and len(text) in (40, 64) and not text.strip("0123456789abcdef")


def names(folder: HookFolder) -> list[str]:
    return sorted(name[:-5] for name in os.listdir(folder.spool) if name.endswith(".json") and name[0] != ".")


def read(folder: HookFolder, name: str) -> Push:
    """Read a push. Raises `CorruptEntry`, even for an unreadable file, which must not block the others."""
    try:
        return decode((folder.spool / f"{name}.json").read_bytes())
    except OSError as error:
        raise CorruptEntry(str(error)) from error


def sent_ids(folder: HookFolder, name: str) -> set[str]:
    try:
        return set((folder.spool / f"{name}.sent").read_text("utf-8", "replace").split("\n"))
    except FileNotFoundError:
        return set()


def mark_sent(folder: HookFolder, name: str, update_id: str) -> None:
    """Record an accepted update. Not synced: after a power failure, it is published again under the same ID."""
    with open(folder.spool / f"{name}.sent", "a", encoding="utf-8") as file:
        file.write(update_id + "\n")


def remove(folder: HookFolder, name: str) -> None:
    (folder.spool / f"{name}.json").unlink(missing_ok=True)
    sync_dir(folder.spool)
    (folder.spool / f"{name}.sent").unlink(missing_ok=True)


def set_aside(folder: HookFolder, name: str) -> Path:
    """Move a corrupt file out of the spool. Raises `OSError`."""
    target = folder.corrupt / f"{name}.json"
    (folder.spool / f"{name}.json").replace(target)
    return target


def reject(folder: HookFolder, entry: Push, update: RefUpdate, answer: str) -> Path:
    """Keep a rejected update as a spool file (moving it back retries it), with the server's response next to it."""
    target = folder.rejected / f"{update.id}.json"
    write_durably(target.with_suffix(".answer"), answer.encode("utf-8", "replace"))
    write_durably(target, encode(entry._replace(updates=(update,))))
    return target


def sweep(folder: HookFolder) -> None:
    """Remove leftovers of killed writers and senders: old temporary files, and `.sent` files without their push."""
    for name in os.listdir(folder.spool):
        path = folder.spool / name
        with contextlib.suppress(FileNotFoundError):
            stale = name.endswith(".tmp") and path.stat().st_mtime < time.time() - STALE_TEMPORARY_S
            if stale or (name.endswith(".sent") and not path.with_suffix(".json").exists()):
                path.unlink()
