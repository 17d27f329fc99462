"""Complete the tasks that a push closes, in the transaction of the push's event.

A commit completes a task only once, because the commits that closed a task are stored for as long as the task exists.
Pushing the same commits again changes nothing, and an old commit does not complete a reopened task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Conflict, Forbidden, NotFound
from workhook.http.calls import RequestRecord
from workhook.identity.context import Write
from workhook.identity.policy import RULES, admit
from workhook.identity.schemas import Actor, Repository
from workhook.storage import Transaction
from workhook.storage.dialects import upsert
from workhook.work.board import columns
from workhook.work.board.tasks import actions
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.queries import find_numbered
from workhook.work.board.tasks.schemas import CommitShape, closing_commits, completes

MESSAGE_CHARS = 20_000
COMMITS_MAX = 2_000
ID_CHARS = 64
CLOSED_MAX = 100
"""The maximum number of tasks that one push closes; the rest are ignored."""

_NUMBER = r"(?:(?P<place>[\w.-]{1,100}/[\w.-]{1,100}))?#(?P<number>[1-9]\d{0,8})(?![\w-])"
_FIRST = re.compile(r"(?<![\w-])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?:\s*+:\s*+|\s++)" + _NUMBER, re.IGNORECASE)
_NEXT = re.compile(r"(?:\s*+[,&]\s*+(?:and\s++)?|\s++and\s++|\s++)" + _NUMBER, re.IGNORECASE)


class PushedCommit(msgspec.Struct, frozen=True):
    id: str
    message: str

    @property
    def title(self) -> str:
        """The first line of the message, truncated to 200 characters."""
        return self.message.strip().partition("\n")[0].strip()[:200]


def find_closed_numbers(message: str, full_name: str) -> list[int]:
    """Return the distinct numbers of the tasks that the message closes, in order of appearance.

    References to projects other than `full_name` are ignored.
    """
    found: dict[int, None] = {}
    text = message[:MESSAGE_CHARS]
    for first in _FIRST.finditer(text):
        match: re.Match[str] | None = first
        while match is not None:
            if (match["place"] or full_name).casefold() == full_name.casefold():
                found.setdefault(int(match["number"]))
            match = _NEXT.match(text, match.end())
    return list(found)


def is_of_default_branch(payload: Mapping[str, Any]) -> bool:
    """Return whether the push is to the default branch.

    That is `main`, as in Workhook's own records, unless the payload names another.
    """
    repository = payload.get("repository")
    branch = repository.get("default_branch") if isinstance(repository, dict) else None
    return payload.get("ref") == f"refs/heads/{branch if isinstance(branch, str) and branch else 'main'}"


def commits_of(payload: Mapping[str, Any]) -> Iterator[PushedCommit]:
    """Iterate over the distinct pushed commits whose message contains a `#`.

    The head commit is included even if the list of commits lacks it.
    """
    commits = payload.get("commits")
    listed = commits[:COMMITS_MAX] if isinstance(commits, list) else []
    seen = set()
    for each in (*listed, payload.get("head_commit")):
        commit = _commit(each)
        if commit is not None and commit.id not in seen:
            seen.add(commit.id)
            yield commit


def _commit(raw: object) -> PushedCommit | None:
    if not isinstance(raw, dict):
        return None
    number, message = raw.get("id"), raw.get("message")
    if not isinstance(message, str) or "#" not in message:  # true of nearly every commit
        return None
    if not isinstance(number, str) or not 1 <= len(number) <= ID_CHARS:
        return None
    return None if "\0" in number + message else PushedCommit(number, message)


def closed_by_push(payload: Mapping[str, Any], full_name: str) -> list[tuple[int, PushedCommit]]:
    """Return the numbers of the tasks that a push closes, each with a commit that closes it."""
    if not is_of_default_branch(payload):
        return []
    found: dict[tuple[int, str], tuple[int, PushedCommit]] = {}
    for commit in commits_of(payload):
        for number in find_closed_numbers(commit.message, full_name):
            found.setdefault((number, commit.id), (number, commit))
    return list(found.values())[:CLOSED_MAX]


_insert = upsert(closing_commits).values(task_id=sa.bindparam("task_id"), commit_id=sa.bindparam("commit_id"))
_add = _insert.on_conflict_do_nothing().returning(closing_commits.c.task_id)


def closes_any_task(payload: Mapping[str, Any], repository: Repository) -> bool:
    return bool(closed_by_push(payload, repository.full_name))


async def close_tasks(
    tx: Transaction, repository: Repository, payload: Mapping[str, Any], pusher: Actor | None, base: str
) -> None:
    """Complete the tasks that the push closes, as the pusher.

    Call this before appending the push's event, because appending takes the last lock of a transaction. Nothing is
    completed if the pusher's token lacks the permission to change tasks, or if a command publishes the event (`pusher`
    is None), because a committer's address is text that anyone can write. Tasks that are missing or already completed,
    or that the pusher may not complete, are left unchanged.

    `base` is the base URL of links in events. Raises `tasks.queries.Busy`.
    """
    actor = _as_author_of_changes(pusher)
    if actor is None:
        return
    closed = closed_by_push(payload, repository.full_name)
    ids = await find_numbered(tx, repository.id, [number for number, _ in closed])
    listed = await columns.list_board_columns(tx, repository.id) if ids else []
    target = next((each.id for each in listed if completes(each.stage, each.finished)), None)
    if target is None:
        return
    pairs = [(ids[number], commit) for number, commit in closed if number in ids]
    new: dict[str, PushedCommit] = {}
    for task_id, commit in sorted(pairs, key=lambda pair: (pair[0], pair[1].id)):
        if await tx.fetch_one(_add, {"task_id": task_id, "commit_id": commit.id}) is not None:
            new.setdefault(task_id, commit)
    for task_id, commit in new.items():
        with suppress(NotFound, Forbidden, Conflict):  # raised before anything is written
            edit = TaskEdit(column_id=target)
            found = await actions.lock_task(tx, actor, task_id, edit)
            if found.task.completed_at is None:
                write = Write(tx, actor, base.removesuffix("/api/v3"))
                await actions.edit_task(write, found, edit, commit=CommitShape(commit.id, commit.title))


def _as_author_of_changes(pusher: Actor | None) -> Actor | None:
    """Return the pusher, admitted to change tasks, or None if the token lacks the permission."""
    if pusher is None:
        return None
    try:
        actor = admit(pusher, RULES["work.write"])
    except Forbidden:
        return None
    return msgspec.structs.replace(actor, request=RequestRecord())  # the push is audited whether or not it closes tasks
