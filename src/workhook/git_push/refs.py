"""Which refs existed when a ref update happened, and which commits it therefore brought.

A push of several refs is told as if they came one after the other, branches first: each commit is then new in exactly
one of them, and a tag pushed together with its branch brings none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from workhook.git_push import git
from workhook.git_push.spool import Entry, RefUpdate

MAX_COMMITS = 2048
"""GitHub's limit for the commits of one `push` payload; the newest are kept."""


class PushRefs:
    """The refs around one push, and its ranges. Object ids given to Git were all found to exist before."""

    def __init__(self, git_dir: Path, entry: Entry) -> None:
        self._git_dir = git_dir
        self._ranked = sorted(entry.updates, key=lambda update: not is_branch(update.ref))
        before = {ref: oid for oid, ref in (_current(git_dir) if entry.refs is None else entry.refs)}
        for update in entry.updates:
            _set(before, update.ref, update.before)
        self._before = before
        touched = {oid for update in entry.updates for oid in (update.before, update.after)}
        self._commits = _resolve(git_dir, {*before.values(), *touched})

    def commit_of(self, oid: str) -> str | None:
        """The commit that `oid` is or (an annotated tag) points to; None for other objects and for what is gone."""
        return self._commits.get(oid)

    def known(self, update: RefUpdate) -> set[str]:
        """Commits that other refs pointed to before the push, or that were told in it before `update` had its turn."""
        oids = {oid for ref, oid in self._before.items() if ref != update.ref}
        oids.update(other.after for other in self._earlier(update))
        return {commit for oid in oids if (commit := self._commits.get(oid)) is not None}

    def base_branch(self, update: RefUpdate) -> str | None:
        """The branch that a new ref was made from: one that already points to the same commit, and stays."""
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
        """Whether `before` is not an ancestor of `after`: history was taken away."""
        if git.is_zero(update.before) or git.is_zero(update.after):
            return False
        before, after = self.commit_of(update.before), self.commit_of(update.after)
        if after is None:
            return False  # gone already, nothing can be told
        if before is None:
            return True  # had it been an ancestor, it could not be gone
        return bool(self._list([before], [after], "--max-count=1"))

    def commits_of(self, update: RefUpdate) -> list[tuple[str, str | None, bool]]:
        """(commit, its first parent, distinct) of what the update brought, oldest first, at most `MAX_COMMITS`.

        A commit is distinct when nothing that was known reached it.
        """
        after, before = self.commit_of(update.after), self.commit_of(update.before)
        if after is None:
            return []
        others = self.known(update)
        if git.is_zero(update.before):
            rows = [] if after in others else self._range(after, others)
            return [(oid, parent, True) for oid, parent in rows]
        if before is None:
            return []  # its history is gone: everything would seem new
        rows = self._range(after, [before])
        if not rows or not (others - {before}):
            return [(oid, parent, True) for oid, parent in rows]
        distinct = set() if after in others else set(self._list([after], others | {before}))
        return [(oid, parent, oid in distinct) for oid, parent in rows]

    def first_parent(self, commit: str) -> str | None:
        """None for a root commit, and where a shallow repository ends."""
        rows = self._list([commit], [], "--parents", "--max-count=1")
        return _row(rows[0])[1] if rows else None

    def _range(self, after: str, excluded: Iterable[str]) -> list[tuple[str, str | None]]:
        """Parents before children, otherwise by time."""
        options = ("--parents", "--date-order", "--reverse", f"--max-count={MAX_COMMITS}")
        return [_row(line) for line in self._list([after], excluded, *options)]

    def _list(self, included: Iterable[str], excluded: Iterable[str], *options: str) -> list[str]:
        wanted = "".join(f"{oid}\n" for oid in included) + "".join(f"^{oid}\n" for oid in excluded)
        return git.run(self._git_dir, "rev-list", *options, "--stdin", stdin=wanted.encode()).decode().splitlines()


def is_branch(ref: str) -> bool:
    return ref.startswith("refs/heads/")


def _row(line: str) -> tuple[str, str | None]:
    commit, *parents = line.split(" ")
    return commit, parents[0] if parents else None


def _set(refs: dict[str, str], ref: str, oid: str) -> None:
    if git.is_zero(oid):
        refs.pop(ref, None)
    else:
        refs[ref] = oid


def _current(git_dir: Path) -> tuple[tuple[str, str], ...]:
    said = git.run(git_dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
    rows = (line.partition(" ") for line in said.decode("utf-8", "surrogateescape").split("\n") if line)
    return tuple((oid, ref) for oid, _, ref in rows)


def _resolve(git_dir: Path, oids: set[str]) -> dict[str, str]:
    """The commit behind each object that has one, in one process."""
    wanted = sorted(oid for oid in oids if not git.is_zero(oid))
    asked = "".join(f"{oid}^{{commit}}\n" for oid in wanted).encode()
    said = git.run(git_dir, "cat-file", "--batch-check=%(objectname)", stdin=asked).decode().splitlines()
    return {oid: line for oid, line in zip(wanted, said, strict=True) if not line.endswith(" missing")}
