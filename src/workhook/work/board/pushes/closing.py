"""Completes the tasks that a push closes, in the transaction of its event.

A task is completed by a commit once: which commits have closed a task is kept as long as the task. So the same push
sent again changes nothing, and a task that is opened again is not completed by an old commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Conflict, Forbidden, NotFound
from workhook.http.calls import RequestRecord
from workhook.identity.context import Write
from workhook.identity.policy import RULES, admit
from workhook.identity.schemas import Actor, Repository
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.work.board import columns
from workhook.work.board.pushes.messages import PushedCommit, closed_by_push
from workhook.work.board.tasks import actions
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.numbers import find_numbered
from workhook.work.board.tasks.schemas import CommitShape, closing_commits, completes

_insert = upsert(closing_commits).values(task_id=sa.bindparam("task_id"), commit_id=sa.bindparam("commit_id"))
_add = _insert.on_conflict_do_nothing().returning(closing_commits.c.task_id)


def closes_something(payload: Mapping[str, Any], repository: Repository) -> bool:
    """Whether the messages of the push name tasks to close."""
    return bool(closed_by_push(payload, repository.full_name))


async def close_tasks(
    tx: Transaction, repository: Repository, payload: Mapping[str, Any], pusher: Actor | None, base: str
) -> None:
    """Complete the tasks that the push closes, as the pusher.

    Call it before the push's event is appended: appending is the last lock of a transaction. Nothing is completed if
    the pusher's token lacks the right to change tasks, or if a command publishes (`pusher` None): a committer's address
    is text that anyone can write. A task that is missing, already completed, or that the pusher may not complete stays
    as it is. `base`: the start of links in events. Raises `tasks.queries.Busy`.
    """
    actor = _as_author_of_changes(pusher)
    if actor is None:
        return
    closed = closed_by_push(payload, repository.full_name)
    ids = await find_numbered(tx, repository.id, [number for number, _ in closed])
    target = await _first_done(tx, repository.id) if ids else None
    if target is None:
        return
    pairs = sorted(((ids[number], commit) for number, commit in closed if number in ids), key=_key)
    new: dict[str, PushedCommit] = {}
    for task_id, commit in pairs:
        if await tx.fetch_one(_add, {"task_id": task_id, "commit_id": commit.id}) is not None:
            new.setdefault(task_id, commit)
    for task_id, commit in new.items():
        with suppress(NotFound, Forbidden, Conflict):
            await _complete(Write(tx, actor, base.removesuffix("/api/v3")), task_id, target, commit)


def _as_author_of_changes(pusher: Actor | None) -> Actor | None:
    """Return the pusher with the right to change tasks, or None if the token lacks it."""
    if pusher is None:
        return None
    try:
        actor = admit(pusher, RULES["work.write"])
    except Forbidden:
        return None
    return msgspec.structs.replace(actor, request=RequestRecord())  # the push is audited, whatever becomes of tasks


def _key(pair: tuple[str, PushedCommit]) -> tuple[str, str]:
    return pair[0], pair[1].id


async def _first_done(reader: Reader, repository_id: int) -> str | None:
    """The first column of the board whose tasks are completed."""
    listed = await columns.list_all(reader, repository_id)
    return next((each.id for each in listed if completes(each.stage, each.finished)), None)


async def _complete(write: Write, task_id: str, column_id: str, commit: PushedCommit) -> None:
    """Raises `NotFound`, `Forbidden`, `Conflict`, before anything is written; `tasks.queries.Busy`."""
    edit = TaskEdit(column_id=column_id)
    found = await actions.lock_task(write.tx, write.actor, task_id, edit)
    if found.task.completed_at is None:
        await actions.edit_task(write, found, edit, commit=CommitShape(commit.id, commit.title))
