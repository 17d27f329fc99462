"""The contents of a push: the refs that existed when it happened, and its commits as shown in a `push` event.

A push of several refs is reported as if the refs arrived one after another, branches first. Each commit is then new in
exactly one of them, and a tag pushed together with its branch adds none. Commits are read raw from Git, using two
processes regardless of their number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TypeAlias

from workhook.git_push import git
from workhook.git_push.spool import Push, RefUpdate

_IDENTITY = re.compile(rb"(.*?) ?<([^>]*)>(?: (-?\d+) ([+-]\d{4}))?.*", re.DOTALL)


CommitJson: TypeAlias = dict[str, object]
Files: TypeAlias = dict[str, list[str]]
_KINDS = {b"A": "added", b"D": "removed"}  # others are modified; a rename is a removal and an addition


def load_commits(git_dir: Path, parents: Mapping[str, str | None]) -> dict[str, CommitJson]:
    """Return commits by ID. `parents` maps each to its first parent, or None for a root. Raises `git.GitError`."""
    if not parents:
        return {}
    files = _changed_files(git_dir, parents)
    raw = git.run(git_dir, "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in parents).encode())
    found: dict[str, CommitJson] = {}
    at = 0
    for oid in parents:
        head, _, _ = raw[at : at + 200].partition(b"\n")
        fields = head.split(b" ")
        if len(fields) != 3 or fields[1] != b"commit":
            raise git.GitError(f"{oid} cannot be read: {head[:100]!r}")
        start, size = at + len(head) + 1, int(fields[2])
        found[oid] = _parse_commit(oid, raw[start : start + size], files[oid])
        at = start + size + 1
    return found


def _parse_commit(oid: str, raw: bytes, files: Files) -> CommitJson:
    """Parse a commit object (gitformat: header lines, continuation lines with a space, a blank line, the message).

    `timestamp` is the committer's time with its offset, when this version of the commit was made. `distinct` and `url`
    are set later, for each payload.
    """
    head, _, message = raw.partition(b"\n\n")
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        headers.setdefault(name, value)
    encoding = headers.get(b"encoding", b"utf-8").decode("ascii", "replace")
    author, _ = _identity(headers.get(b"author", b""), encoding)
    committer, timestamp = _identity(headers.get(b"committer", b""), encoding)
    tree_id = headers.get(b"tree", b"").decode("ascii", "replace")
    return {
        "id": oid,
        "tree_id": tree_id,
        "distinct": True,
        "message": _text(message, encoding).rstrip("\n"),
        "timestamp": timestamp,
        "url": "",
        "author": author,
        "committer": committer,
        **files,
    }


def _identity(line: bytes, encoding: str) -> tuple[dict[str, str], str]:
    match = _IDENTITY.fullmatch(line)
    if match is None:
        return {"name": _text(line, encoding), "email": ""}, _timestamp(0, 0)
    name, email, second, zone = match.groups()
    minutes = 0 if zone is None else (int(zone[1:3]) * 60 + int(zone[3:])) * (-1 if zone[:1] == b"-" else 1)
    person = {"name": _text(name, encoding), "email": _text(email, encoding)}
    return person, _timestamp(int(second or 0), minutes)


def _timestamp(second: int, offset_min: int) -> str:
    """Return an ISO 8601 time, with `Z` for UTC. Impossible times (damaged or forged) become the epoch."""
    try:
        at = datetime.fromtimestamp(second, timezone(timedelta(minutes=offset_min)))
    except (ValueError, OverflowError, OSError):
        at = datetime.fromtimestamp(0, UTC)
    return at.isoformat().replace("+00:00", "Z")


def _text(raw: bytes, encoding: str) -> str:
    """Decode with the commit's own encoding (the writer's `i18n.commitEncoding`). Damaged bytes become U+FFFD."""
    try:
        return raw.decode(encoding, "replace")
    except (LookupError, ValueError):
        return raw.decode("utf-8", "replace")


def path_text(raw: bytes) -> str:
    """Return a path for JSON. Bytes that are not UTF-8 become `\\xff`, so distinct files keep distinct names."""
    return raw.decode("utf-8", "backslashreplace")


def _changed_files(git_dir: Path, parents: Mapping[str, str | None]) -> dict[str, Files]:
    """Compare with the first parent, even for merges, because path filters need the changes to the pushed branch."""
    asked = "".join(f"{oid} {parent}\n" if parent else f"{oid}\n" for oid, parent in parents.items())
    options = ("-r", "-z", "--root", "--no-renames", "--name-status", "--no-ext-diff", "--ignore-submodules=none")
    fields = iter(git.run(git_dir, "diff-tree", "--stdin", *options, stdin=asked.encode()).split(b"\0"))
    found: dict[str, Files] = {oid: {"added": [], "removed": [], "modified": []} for oid in parents}
    current: Files = {}
    for field in fields:  # a commit ID, then a letter and a path per file; Git omits commits without changes
        if not field:  # the end
            break
        if len(field) > 1:
            current = found[field.decode()]
        elif (path := next(fields, None)) is not None:
            current[_KINDS.get(field, "modified")].append(path_text(path))
        else:
            raise git.GitError("git diff-tree named a change without its file")
    return found


# --- refs ------------------------------------------------------------------------------------------------------------

MAX_COMMITS = 2048  # GitHub's limit of commits in a `push` payload; the newest are kept


class PushRefs:
    """The refs before and after one push, and its commit ranges. Git only receives object IDs known to exist."""

    def __init__(self, git_dir: Path, entry: Push) -> None:
        self._git_dir = git_dir
        self._ranked = sorted(entry.updates, key=lambda update: not is_branch(update.ref))
        before = {ref: oid for oid, ref in (git.branches_and_tags(git_dir) if entry.refs is None else entry.refs)}
        before.update((update.ref, update.before) for update in entry.updates)
        self._before = {ref: oid for ref, oid in before.items() if not git.is_zero(oid)}
        touched = {oid for update in entry.updates for oid in (update.before, update.after)}
        self._commits = _resolve(git_dir, {*self._before.values(), *touched})

    def commit_of(self, oid: str) -> str | None:
        """Return the commit of `oid`, dereferencing annotated tags, or None for other and missing objects."""
        return self._commits.get(oid)

    def known(self, update: RefUpdate) -> set[str]:
        """Return commits that other refs pointed to before the push or that its earlier updates contained."""
        oids = {oid for ref, oid in self._before.items() if ref != update.ref}
        oids.update(other.after for other in self._earlier(update))
        return {commit for oid in oids if (commit := self._commits.get(oid)) is not None}

    def base_branch(self, update: RefUpdate) -> str | None:
        """Return the origin of a new ref: a remaining branch that already points to the same commit."""
        head = self.commit_of(update.after)
        if head is None or not git.is_zero(update.before):
            return None
        branches = {ref: oid for ref, oid in self._before.items() if is_branch(ref)}
        for deleted in self._ranked:
            if git.is_zero(deleted.after):
                branches.pop(deleted.ref, None)
        branches.update((other.ref, other.after) for other in self._earlier(update) if is_branch(other.ref))
        return min((ref for ref, oid in branches.items() if self._commits.get(oid) == head), default=None)

    def _earlier(self, update: RefUpdate) -> Iterator[RefUpdate]:
        return itertools.takewhile(lambda other: other is not update, self._ranked)

    def is_forced(self, update: RefUpdate) -> bool:
        """Return whether `before` is not an ancestor of `after`, that is, whether history was rewritten."""
        if git.is_zero(update.before) or git.is_zero(update.after):
            return False
        before, after = self.commit_of(update.before), self.commit_of(update.after)
        if after is None:
            return False  # already gone, so the answer is unknown
        if before is None:
            return True  # an ancestor could not be gone
        return bool(self._list([before], [after], "--max-count=1"))

    def commits_of(self, update: RefUpdate) -> list[tuple[str, str | None, bool]]:
        """Return (commit, first parent, distinct) of the update's commits, oldest first, at most `MAX_COMMITS`.

        A commit is distinct if it is not reachable from any known commit.
        """
        after, before = self.commit_of(update.after), self.commit_of(update.before)
        if after is None:
            return []
        others = self.known(update)
        if git.is_zero(update.before):
            rows = [] if after in others else self._range(after, others)
            return [(oid, parent, True) for oid, parent in rows]
        if before is None:
            return []  # its history is gone, so everything would appear new
        rows = self._range(after, [before])
        if not rows or not (others - {before}):
            return [(oid, parent, True) for oid, parent in rows]
        distinct = set() if after in others else set(self._list([after], others | {before}))
        return [(oid, parent, oid in distinct) for oid, parent in rows]

    def first_parent(self, commit: str) -> str | None:
        """Return the first parent, or None for a root commit or at the boundary of a shallow repository."""
        rows = self._list([commit], [], "--parents", "--max-count=1")
        return _commit_and_parent(rows[0])[1] if rows else None

    def _range(self, after: str, excluded: Iterable[str]) -> list[tuple[str, str | None]]:
        """List parents before children, otherwise by time."""
        options = ("--parents", "--date-order", "--reverse", f"--max-count={MAX_COMMITS}")
        return [_commit_and_parent(line) for line in self._list([after], excluded, *options)]

    def _list(self, included: Iterable[str], excluded: Iterable[str], *options: str) -> list[str]:
        wanted = "".join(f"{oid}\n" for oid in included) + "".join(f"^{oid}\n" for oid in excluded)
        return git.run(self._git_dir, "rev-list", *options, "--stdin", stdin=wanted.encode()).decode().splitlines()


def is_branch(ref: str) -> bool:
    return ref.startswith("refs/heads/")


def _commit_and_parent(line: str) -> tuple[str, str | None]:
    commit, *parents = line.split(" ")
    return commit, parents[0] if parents else None


def _resolve(git_dir: Path, oids: set[str]) -> dict[str, str]:
    """Find the commit of each object that has one, in a single process."""
    wanted = sorted(oid for oid in oids if not git.is_zero(oid))
    asked = "".join(f"{oid}^{{commit}}\n" for oid in wanted).encode()
    output = git.run(git_dir, "cat-file", "--batch-check=%(objectname)", stdin=asked).decode().splitlines()
    return {oid: line for oid, line in zip(wanted, output, strict=True) if not line.endswith(" missing")}
