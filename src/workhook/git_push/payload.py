"""The payload of `push` events in GitHub's format (webhook events and payloads, `push`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from workhook.git_push import git, history
from workhook.git_push.history import CommitJson, PushRefs
from workhook.git_push.spool import Push, RefUpdate

Payload: TypeAlias = dict[str, object]

MAX_BODY_BYTES = 24_900_000  # the server accepts 25 MB, but adds the repository and the sender before delivery

_CACHED_COMMITS = 4096
_HEAD_MESSAGE_CHARS = 10_000
_FILE_LISTS = ("added", "removed", "modified")


class PayloadBuilder:
    """Builds the payloads of all ref updates of one push. Commits shared by several updates are read only once."""

    def __init__(self, git_dir: Path, entry: Push, *, repository: str, base_url: str) -> None:
        self._git_dir = git_dir
        self._entry = entry
        self.address = f"{base_url}/{repository}"
        self._commits: dict[str, CommitJson] = {}

    @cached_property
    def _refs(self) -> PushRefs:
        return PushRefs(self._git_dir, self._entry)

    def build(self, update: RefUpdate) -> Payload:
        """Return the payload without `repository` and `sender`, which the server adds.

        If objects are missing (because the ref was deleted meanwhile and collected), `commits` is empty and
        `head_commit` null. `distinct` is true for a head that is not among `commits`, so that receivers skipping other
        commits do not skip it. Raises `git.GitError` for a damaged repository, or `git.GitMissing`.
        """
        rows = self._refs.commits_of(update)
        head = self._refs.commit_of(update.after)
        self._load(rows, head)
        shown = [self._commit_json(oid, distinct=distinct) for oid, _, distinct in rows]
        head_json = None if head is None else self._commit_json(head, distinct=not rows or rows[-1][2])
        payload = bare(update, self._entry, address=self.address, head=head_json)
        base_ref = self._refs.base_branch(update)
        payload["base_ref"] = None if base_ref is None else _plain(base_ref)
        return payload | {"forced": self._refs.is_forced(update), "commits": shown}

    def _load(self, rows: list[tuple[str, str | None, bool]], head: str | None) -> None:
        if len(self._commits) > _CACHED_COMMITS:
            self._commits.clear()
        wanted = {oid: parent for oid, parent, _ in rows if oid not in self._commits}
        if head is not None and head not in self._commits and head not in wanted:
            wanted[head] = self._refs.first_parent(head)
        self._commits.update(history.load_commits(self._git_dir, wanted))

    def _commit_json(self, oid: str, *, distinct: bool) -> CommitJson:
        return self._commits[oid] | {"distinct": distinct, "url": f"{self.address}/commit/{oid}"}


def bare(update: RefUpdate, entry: Push, *, address: str, head: CommitJson | None = None) -> Payload:
    """Return what a payload contains without access to the repository. `address`: its URL on the server."""
    email = entry.pusher_email
    if email is None and head is not None and isinstance(committer := head["committer"], Mapping):
        email = committer["email"]
    payload: Payload = {
        "ref": _plain(update.ref),
        "before": update.before,
        "after": update.after,
        "base_ref": None,
        "created": git.is_zero(update.before),
        "deleted": git.is_zero(update.after),
        "forced": False,
        "compare": f"{address}/compare/{update.before[:12]}...{update.after[:12]}",
        "commits": [],
        "head_commit": head,
        "pusher": {"name": _plain(entry.pusher_name), "email": email},
    }
    if entry.options:
        payload["push_options"] = [_plain(option) for option in entry.options]
    return payload


def _plain(text: str) -> str:
    """Replace surrogate escapes (bytes that are not UTF-8) with escapes such as `\\xff`, as in paths."""
    try:
        return history.path_text(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()


def _json(value: object) -> bytes:
    """Encode as UTF-8. A lone surrogate, which some legacy encodings can produce, becomes `?`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def request_body(payload: Payload, update_id: str, *, limit_bytes: int = MAX_BODY_BYTES) -> tuple[bytes, bool]:
    """Return the body of the publishing request, and whether the payload was truncated for it.

    It drops, in this order: the file lists of the oldest commits, those of the head, the oldest commits, and the end of
    the head's message.
    """
    body = _json({"event": "push", "payload": payload, "id": update_id})
    if len(body) <= limit_bytes:
        return body, False
    small = _shrunk(payload, len(body) - limit_bytes)
    return _json({"event": "push", "payload": small, "id": update_id}), True


def _shrunk(payload: Payload, excess: int) -> Payload:
    """Return a copy that is at least `excess` bytes smaller, or as small as the commits allow."""
    commits = payload["commits"]
    shown = [commit for commit in commits if isinstance(commit, dict)] if isinstance(commits, list) else []
    head = payload["head_commit"]
    for at, commit in enumerate(shown):
        if excess > 0:
            shown[at] = _without_files(commit)
            excess -= len(_json(commit)) - len(_json(shown[at]))
    if excess > 0 and isinstance(head, dict):
        lean = _without_files(head)
        excess -= len(_json(head)) - len(_json(lean))
        head = lean
    dropped = 0
    while excess > 0 and dropped < len(shown):
        excess -= len(_json(shown[dropped])) + 1
        dropped += 1
    if excess > 0 and isinstance(head, dict):
        head = head | {"message": str(head["message"])[:_HEAD_MESSAGE_CHARS]}
    return payload | {"commits": shown[dropped:], "head_commit": head}


def _without_files(commit: CommitJson) -> CommitJson:
    return commit | {name: [] for name in _FILE_LISTS}
