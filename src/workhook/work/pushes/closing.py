"""Completes the tasks that a push closes, in the transaction of its event.

A task is completed by a commit once: which commits have closed a task is kept as long as the task. So the same push
sent again changes nothing, and a task that is opened again is not completed by an old commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Conflict, Forbidden, NotFound
from workhook.http.calls import RequestRecord
from workhook.identity.context import Write
from workhook.identity.policy import SCOPES
from workhook.identity.queries import account_columns
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.work.columns import api as columns
from workhook.work.columns.schemas import completes
from workhook.work.pushes.messages import PushedCommit, closed_by_push
from workhook.work.tasks import actions
from workhook.work.tasks.inputs import TaskEdit
from workhook.work.tasks.numbers import find_numbered
from workhook.work.tasks.schemas import CommitShape, closing_commits

_NEED = ("work", "write")
_ACCOUNTS_MAX = 5
"""So many accounts with the same address are asked, the oldest first."""

_insert = upsert(closing_commits).values(task_id=sa.bindparam("task_id"), commit_id=sa.bindparam("commit_id"))
_add = _insert.on_conflict_do_nothing().returning(closing_commits.c.task_id)
_committers = (
    sa.select(*account_columns())
    .where(any_of(sa.func.lower(accounts.c.email, type_=sa.Text()), "emails"), accounts.c.kind == "user")
    .where(accounts.c.disabled_at.is_(None))
    .order_by(accounts.c.id)
)


def closes_something(payload: Mapping[str, Any], repository: Repository) -> bool:
    """Whether the messages of the push name tasks to close."""
    return bool(closed_by_push(payload, repository.full_name))


async def close_tasks(
    tx: Transaction, repository: Repository, payload: Mapping[str, Any], pusher: Actor | None, base: str
) -> None:
    """Complete what the push closes. Call it before its event is appended: whoever appends an event locks nothing more.

    A task that is not there, that is completed already, or that nobody concerned may complete stays as it is. `pusher`
    None: a command. `base`: what links in events start with. Raises `tasks.queries.Busy`.
    """
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
    people = await _find_committers(tx, list(new.values()))
    for task_id, commit in new.items():
        for actor in _candidates(people.get(commit.email.lower(), ()), pusher):
            with suppress(NotFound, Forbidden, Conflict):
                await _complete(Write(tx, actor, base.removesuffix("/api/v3")), task_id, target, commit)
                break


def _key(pair: tuple[str, PushedCommit]) -> tuple[str, str]:
    return pair[0], pair[1].id


async def _first_done(reader: Reader, repository_id: int) -> str | None:
    """The first column of the board whose tasks are completed."""
    listed = await columns.list_all(reader, repository_id)
    return next((each.id for each in listed if completes(each.stage, each.finished)), None)


async def _find_committers(tx: Transaction, commits: Sequence[PushedCommit]) -> Mapping[str, Sequence[Account]]:
    """The accounts by their addresses, in small letters."""
    emails = sorted({each.email.lower() for each in commits if "@" in each.email and "\0" not in each.email})
    found: dict[str, list[Account]] = {}
    for row in await tx.fetch_all(_committers, {"emails": emails}) if emails else ():
        account = account_of(row)
        found.setdefault((account.email or "").lower(), []).append(account)
    return found


def _candidates(committers: Sequence[Account], pusher: Actor | None) -> list[Actor]:
    """Who completes a task, in the order in which they are asked. Nobody does more than the token of the push could."""
    if pusher is None:
        command = "command"
        return [Actor(each, 0, command, frozenset(SCOPES)) for each in committers[:_ACCOUNTS_MAX]]
    acting = msgspec.structs.replace(pusher, need=_NEED, request=RequestRecord())
    others = [msgspec.structs.replace(acting, user=each) for each in committers[:_ACCOUNTS_MAX]]
    return [*others, acting]


async def _complete(write: Write, task_id: str, column_id: str, commit: PushedCommit) -> None:
    """Raises `NotFound`, `Forbidden`, `Conflict`, before anything is written; `tasks.queries.Busy`."""
    edit = TaskEdit(column_id=column_id)
    found = await actions.lock_task(write.tx, write.actor, task_id, edit)
    if found.task.completed_at is None:
        await actions.edit_task(write, found, edit, commit=CommitShape(commit.id, commit.title))
