"""Commits as `push` shows them: read raw from Git, two processes for any number of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from workhook.git_push import git

_IDENTITY = re.compile(rb"(.*?) ?<([^>]*)>(?: (-?\d+) ([+-]\d{4}))?.*", re.DOTALL)


class Person(NamedTuple):
    name: str
    email: str


class Files(NamedTuple):
    """Paths that a commit changed. A rename is a removal and an addition."""

    added: list[str]
    removed: list[str]
    modified: list[str]


class Commit(NamedTuple):
    """`timestamp` is the committer's time with its offset: when this commit, not an earlier form of it, was made."""

    id: str
    tree_id: str
    message: str
    timestamp: str
    author: Person
    committer: Person
    files: Files


def load(git_dir: Path, parents: Mapping[str, str | None]) -> dict[str, Commit]:
    """Commits by id; `parents` has the first parent of each, None for a root. Raises `git.GitError`."""
    if not parents:
        return {}
    files = _changed_files(git_dir, parents)
    raw = git.run(git_dir, "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in parents).encode())
    found: dict[str, Commit] = {}
    at = 0
    for oid in parents:
        head, _, _ = raw[at : at + 200].partition(b"\n")
        fields = head.split(b" ")
        if len(fields) != 3 or fields[1] != b"commit":
            raise git.GitError(f"{oid} cannot be read: {head[:100]!r}")
        start, size = at + len(head) + 1, int(fields[2])
        found[oid] = parse(oid, raw[start : start + size], files[oid])
        at = start + size + 1
    return found


def parse(oid: str, raw: bytes, files: Files) -> Commit:
    """One commit object (gitformat: header lines, continuation lines with a space, a blank line, the message)."""
    head, _, message = raw.partition(b"\n\n")
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        headers.setdefault(name, value)
    encoding = headers.get(b"encoding", b"utf-8").decode("ascii", "replace")
    author, _ = _identity(headers.get(b"author", b""), encoding)
    committer, timestamp = _identity(headers.get(b"committer", b""), encoding)
    tree_id = headers.get(b"tree", b"").decode("ascii", "replace")
    return Commit(oid, tree_id, _text(message, encoding).rstrip("\n"), timestamp, author, committer, files)


def _identity(line: bytes, encoding: str) -> tuple[Person, str]:
    match = _IDENTITY.fullmatch(line)
    if match is None:
        return Person(_text(line, encoding), ""), _timestamp(0, 0)
    name, email, second, zone = match.groups()
    minutes = 0 if zone is None else (int(zone[1:3]) * 60 + int(zone[3:])) * (-1 if zone[:1] == b"-" else 1)
    return Person(_text(name, encoding), _text(email, encoding)), _timestamp(int(second or 0), minutes)


def _timestamp(second: int, offset_min: int) -> str:
    """ISO 8601, `Z` for UTC. What no calendar holds (damaged or invented times) is shown as the epoch."""
    try:
        at = datetime.fromtimestamp(second, timezone(timedelta(minutes=offset_min)))
    except (ValueError, OverflowError, OSError):
        at = datetime.fromtimestamp(0, UTC)
    return at.isoformat().replace("+00:00", "Z")


def _text(raw: bytes, encoding: str) -> str:
    """Text in the commit's own encoding (`i18n.commitEncoding` of its writer); damage becomes U+FFFD."""
    try:
        return raw.decode(encoding, "replace")
    except (LookupError, ValueError):
        return raw.decode("utf-8", "replace")


def path_text(raw: bytes) -> str:
    """A path for JSON: bytes that are not UTF-8 become `\\xff`, so that two files stay two."""
    return raw.decode("utf-8", "backslashreplace")


def _changed_files(git_dir: Path, parents: Mapping[str, str | None]) -> dict[str, Files]:
    """Against the first parent, also for merges: what the pushed branch got, which path filters ask for."""
    asked = "".join(f"{oid} {parent}\n" if parent else f"{oid}\n" for oid, parent in parents.items())
    options = ("-r", "-z", "--root", "--no-renames", "--name-status", "--no-ext-diff", "--ignore-submodules=none")
    said = git.run(git_dir, "diff-tree", "--stdin", *options, stdin=asked.encode())
    return _split_files(said.split(b"\0"), {oid: Files([], [], []) for oid in parents})


def _split_files(fields: Sequence[bytes], found: dict[str, Files]) -> dict[str, Files]:
    """Fields are a commit id, then for each file a letter and a path; commits without changes are left out by Git."""
    current, at = Files([], [], []), 0
    while at < len(fields) and fields[at]:
        if len(fields[at]) > 1:
            current = found[fields[at].decode()]
            at += 1
            continue
        kind, path = fields[at], path_text(fields[at + 1])
        (current.added if kind == b"A" else current.removed if kind == b"D" else current.modified).append(path)
        at += 2
    return found
