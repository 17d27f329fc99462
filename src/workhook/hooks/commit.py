"""Commits published events together with their dispatches and audit log entries.

Many events form one statement, which on PostgreSQL commits by itself: one round trip, without BEGIN and COMMIT.

Committed dispatches are offered to this process's worker in memory, which avoids reading them again. If the worker
declines, the process that owns the lane reads them from the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

import msgspec
import structlog

from workhook.core import json
from workhook.events import outbox
from workhook.hooks.fan_out import BEFORE_MAX, send_on_premises
from workhook.identity import audit
from workhook.identity.queries import Premise
from workhook.storage import Database, Row, Transaction
from workhook.storage.batching import Batcher
from workhook.storage.signals import DUE, EVENTS

log = structlog.get_logger(__name__)


class CommittedDispatch(msgspec.Struct, frozen=True):
    """A committed dispatch of one event to one hook, due now.

    `before`: the hook's other dispatches that were due, or None if they were not requested or exceed `BEFORE_MAX`.
    """

    id: int
    hook_id: int
    version: int  # of the hook at the commit
    guid: str
    event_id: int
    event: Mapping[str, Any]  # the values of `outbox.COLUMNS`
    app_id: int | None = None  # the OAuth app that created the hook
    hook_repository_id: int | None = None  # None for an organization's hook
    before: Sequence[int] | None = None


def parse_before(found: Sequence[int] | str | None) -> Sequence[int] | None:
    """Return `CommittedDispatch.before` for a row."""
    if found is None:
        return ()  # not the first dispatch of the hook, which lists the preceding ones
    ids: Sequence[int] = json.decode(found) if isinstance(found, str) else found
    return ids if len(ids) <= BEFORE_MAX else None


class LocalWorker(Protocol):
    def accepts_dispatches(self) -> bool:
        """Return whether a commit should collect `CommittedDispatch.before`."""

    def accept(self, new: CommittedDispatch) -> bool:
        """Return whether the worker will send the dispatch."""


_local_workers: WeakKeyDictionary[Database, LocalWorker] = WeakKeyDictionary()


def register_worker(database: Database, worker: LocalWorker) -> Callable[[], object]:
    """Offer commits of this process to `worker` until the returned function is called."""
    _local_workers[database] = worker
    return lambda: _local_workers.pop(database, None)


def accepts_dispatches(database: Database) -> bool:
    """Return whether the worker of this process may currently accept dispatches."""
    worker = _local_workers.get(database)
    return worker is not None and worker.accepts_dispatches()


def offer(database: Database, new: CommittedDispatch) -> bool:
    """Return whether the worker of this process accepted the dispatch. It is committed, so errors are only logged."""
    worker = _local_workers.get(database)
    try:
        return worker is not None and worker.accept(new)
    except Exception:
        log.exception("handover_failed", hook_id=new.hook_id, dispatch_id=new.id)
        return False


class NewEvent(msgspec.Struct, frozen=True):
    event: Mapping[str, Any]  # the values of `outbox.COLUMNS`
    entry: Mapping[str, Any] | None  # those of `audit.COLUMNS`, or None if the event is not audited
    premise: Premise | None = None  # the condition the event depends on, unless it was just checked


class Committed(msgspec.Struct, frozen=True):
    event_id: int
    dispatches: list[CommittedDispatch]


_committers: WeakKeyDictionary[Database, Batcher[NewEvent, Committed]] = WeakKeyDictionary()


def committer_of(database: Database) -> Batcher[NewEvent, Committed]:
    """Return the batcher for published events. IDs within a repository follow the order of adding events."""
    if database not in _committers:
        _committers[database] = Batcher(
            partial(_commit_and_signal, ref(database)),
            lambda new: new.event["repository_id"] or ("account", new.event["account_id"]),
        )
    return _committers[database]


async def _commit_and_signal(database_ref: ref[Database], added: Sequence[NewEvent]) -> list[Committed]:
    database = database_ref()
    assert database is not None, "the caller that waits for the commit has it"
    committed = await commit(database, added)
    if due := {sent.hook_id for each in committed for sent in each.dispatches if not offer(database, sent)}:
        database.signals.send(DUE, due)
    if followed := {each.event["repository_id"] for each in added if each.event["listed"]} - {None}:
        database.signals.send(EVENTS, followed)
    return committed


async def commit(database: Database, added: Sequence[NewEvent]) -> list[Committed]:
    """Commit all events in order, or none.

    The commit is durable on return. Raises the errors of `Database.transaction`, and `ConditionFailed` if a premise
    does not hold.
    """
    handing = accepts_dispatches(database)
    entries = [each.entry for each in added if each.entry is not None]
    premises = [each.premise for each in added if each.premise is not None]

    async def write(tx: Transaction) -> list[Row]:
        found = list[Row]()
        outbox.insert(tx, [each.event for each in added])
        tx.defer(audit.insert, entries)
        await send_on_premises(tx, len(added), premises, found.extend, with_before=handing)
        return found

    return _committed(await database.in_transaction(write), added, handing)


def _committed(rows: Sequence[Row], added: Sequence[NewEvent], handing: bool) -> list[Committed]:
    """Group `rows` by event. Rows are in event order, one per dispatch; an event without dispatches has one row."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["event_id"], []).append(row)
    return [
        Committed(event_id, [_dispatch(row, new.event, handing) for row in sent if row["dispatch_id"] is not None])
        for (event_id, sent), new in zip(found.items(), added, strict=True)
    ]


def _dispatch(row: Row, event: Mapping[str, Any], handing: bool) -> CommittedDispatch:
    return CommittedDispatch(
        row["dispatch_id"], row["hook_id"], row["version"], row["guid"], row["event_id"], event, row["app_id"],
        row["repository_id"], parse_before(row["before"]) if handing else None,
    )  # fmt: skip
