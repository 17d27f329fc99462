"""The spool: one file for each push, in the order of the pushes, until the server has all of it.

A file appears by a rename, so it is whole or absent. Beside `NAME.json` a `NAME.sent` lists the ids that the server
has answered already, so that a sender that was killed does not begin the push again; losing it costs only repeats,
which the server recognises by their ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from workhook.git_push.folder import Folder, sync_dir, write_durably

VERSION = 1
STALE_TEMPORARY_S = 3600


class CorruptEntry(Exception):
    """A spool file that is not one of ours, or is damaged."""


class RefUpdate(NamedTuple):
    """One line of `post-receive`: ids of 40 or 64 digits, all zeros for none. `id` makes publishing idempotent."""

    id: str
    before: str
    after: str
    ref: str


class Entry(NamedTuple):
    """One push. `refs` are (object id, name) of branches and tags right after it, or None if Git did not tell."""

    pushed_at_ms: int
    pusher_name: str
    pusher_email: str | None
    options: tuple[str, ...]
    updates: tuple[RefUpdate, ...]
    refs: tuple[tuple[str, str], ...] | None


def new_name(folder: Folder) -> str:
    """A name that sorts after all that are there, even when the clock was set back."""
    newest = max((name for name in os.listdir(folder.spool) if name.endswith(".json")), default="")
    digits = newest[:20]
    stamp = max(time.time_ns(), int(digits) + 1 if digits.isdecimal() else 0)
    return f"{stamp:020d}-{os.urandom(6).hex()}"


def write(folder: Folder, name: str, entry: Entry) -> None:
    """Durable when this returns. Raises `OSError`."""
    write_durably(folder.spool / f"{name}.json", encode(entry))


def encode(entry: Entry) -> bytes:
    """ASCII: bytes of names that are not UTF-8 travel as escaped lone surrogates and come back as they were."""
    refs = None if entry.refs is None else "".join(f"{oid} {ref}\n" for oid, ref in entry.refs)
    pusher = {"name": entry.pusher_name, "email": entry.pusher_email}
    return json.dumps(
        {
            "version": VERSION,
            "pushed_at_ms": entry.pushed_at_ms,
            "pusher": pusher,
            "options": entry.options,
            "updates": [update._asdict() for update in entry.updates],
            "refs": refs,
        },
        separators=(",", ":"),
    ).encode()


def decode(content: bytes) -> Entry:
    """Raises `CorruptEntry`."""
    try:
        raw = json.loads(content)
        if raw["version"] != VERSION:
            raise CorruptEntry(f"version {raw['version']!r} is not known here")
        updates = tuple(RefUpdate(u["id"], u["before"], u["after"], u["ref"]) for u in raw["updates"])
        refs = raw["refs"]
        entry = Entry(
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
        raise CorruptEntry("no ref update, or one that is none")
    return entry


def _parse_ref(line: str) -> tuple[str, str]:
    oid, _, ref = line.partition(" ")
    if not is_oid(oid):
        raise ValueError("a ref without an object id")
    return oid, ref


def is_oid(text: object) -> bool:
    """Whether `text` is a full object id, SHA-1 or SHA-256. Nothing else is ever given to Git."""
    return isinstance(text, str) and len(text) in (40, 64) and not text.strip("0123456789abcdef")


def names(folder: Folder) -> list[str]:
    """What waits, oldest first."""
    return sorted(name[:-5] for name in os.listdir(folder.spool) if name.endswith(".json") and name[0] != ".")


def read(folder: Folder, name: str) -> Entry:
    """Raises `CorruptEntry`, also for what cannot be read at all: it must not stand in the way of the others."""
    try:
        return decode((folder.spool / f"{name}.json").read_bytes())
    except OSError as error:
        raise CorruptEntry(str(error)) from error


def sent_ids(folder: Folder, name: str) -> set[str]:
    try:
        return set((folder.spool / f"{name}.sent").read_text("utf-8", "replace").split("\n"))
    except FileNotFoundError:
        return set()


def mark_sent(folder: Folder, name: str, update_id: str) -> None:
    """Not synced: after a power cut the update is published again, under the same id."""
    with open(folder.spool / f"{name}.sent", "a", encoding="utf-8") as file:
        file.write(update_id + "\n")


def remove(folder: Folder, name: str) -> None:
    (folder.spool / f"{name}.json").unlink(missing_ok=True)
    sync_dir(folder.spool)
    (folder.spool / f"{name}.sent").unlink(missing_ok=True)


def set_aside(folder: Folder, name: str) -> Path:
    """Move a corrupt file out of the way, keeping it for whoever wants to look. Raises `OSError`."""
    target = folder.corrupt / f"{name}.json"
    (folder.spool / f"{name}.json").replace(target)
    return target


def reject(folder: Folder, entry: Entry, update: RefUpdate, answer: str) -> Path:
    """Keep an update that the server refused as a spool file (moving it back tries again), and the answer beside it."""
    target = folder.rejected / f"{update.id}.json"
    write_durably(target.with_suffix(".answer"), answer.encode("utf-8", "replace"))
    write_durably(target, encode(entry._replace(updates=(update,))))
    return target


def sweep(folder: Folder) -> None:
    """Remove what killed writers and senders left: old temporary files, `.sent` without their push."""
    for name in os.listdir(folder.spool):
        path = folder.spool / name
        with contextlib.suppress(FileNotFoundError):
            stale = name.endswith(".tmp") and path.stat().st_mtime < time.time() - STALE_TEMPORARY_S
            if stale or (name.endswith(".sent") and not path.with_suffix(".json").exists()):
                path.unlink()
