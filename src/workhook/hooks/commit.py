"""Events, their dispatches and their entries of the audit log, committed together: many events in one statement.

On PostgreSQL it is one statement, which commits by itself: one round trip, without BEGIN and COMMIT. On SQLite it is
one trip to the writer's thread.

It does what the subscribers of `events.outbox` do in a transaction (`audit.of_events`, `fan_out`): what an event
entails has to be changed in both places.

What was committed is handed to the worker of this process from memory, so that nothing is read again. It is only an
offer: what the worker does not take is read from the database by the process that has the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, ref

import msgspec
import sqlalchemy as sa
import structlog

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events import outbox
from workhook.events.tables import events
from workhook.hooks.fan_out import last_before_on_sqlite, new_on_sqlite, send_on_postgresql, send_on_sqlite, send_params
from workhook.hooks.tables import dispatches, hooks
from workhook.identity import audit
from workhook.identity.tables import audit_log
from workhook.storage import Database, Row
from workhook.storage.batching import Batcher
from workhook.storage.database import Step
from workhook.storage.dialects import arrays
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import DUE, EVENTS
from workhook.storage.statements import Params, hot

BEFORE_MAX = 64  # due dispatches of a hook: with more, they have to be read anyway
AHEAD_MS = 20  # how far another process's clock may be ahead

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class CommittedDispatch(msgspec.Struct, frozen=True):
    """One event for one hook: just committed, and due now. `event` has the values of `outbox.COLUMNS`.

    `version` is the hook's at the commit, `app_id` that of the OAuth app that created the hook, `hook_repository_id`
    None for an organization's hook. `before`: the hook's other dispatches that were due then; None if they were not
    requested, or if they are more than `BEFORE_MAX`.
    """

    id: int
    hook_id: int
    version: int
    guid: str
    event_id: int
    event: Mapping[str, Any]
    app_id: int | None = None
    hook_repository_id: int | None = None
    before: Sequence[int] | None = None


def before_on_postgresql(sent: sa.FromClause) -> sa.ColumnElement[Sequence[int]]:
    """A column of the commit: the hook's other due dispatches, beside the first of those that are `sent` to it."""
    return _with_the_first(sent, sa.func.array(_due(sent).scalar_subquery(), type_=sa.ARRAY(sa.BigInteger)))


def before_on_sqlite(sent: sa.FromClause, last_before: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """The same as JSON. `last_before`: the id of the last event before those of the commit, which SQLite sees."""
    some = _due(sent, last_before).subquery("some")
    return _with_the_first(sent, sa.select(sa.func.json_group_array(some.c.id)).scalar_subquery())


def _due(sent: sa.FromClause, last_before: sa.ColumnElement[int] | None = None) -> sa.Select[tuple[int]]:
    due = dispatches.alias("due_before")
    found = sa.select(due.c.id).where(due.c.hook_id == sent.c.hook_id, due.c.next_attempt_at <= big("due_until"))
    if last_before is not None:
        found = found.where(due.c.event_id <= last_before)
    return found.limit(BEFORE_MAX + 1).correlate(sent)


def _with_the_first(sent: sa.FromClause, found: sa.ColumnElement[_T]) -> sa.ColumnElement[_T]:
    first = sa.func.min(sent.c.id).over(partition_by=sent.c.hook_id)
    return sa.case((sent.c.id == first, found)).label("before")


def before_params() -> dict[str, int]:
    return {"due_until": now_ms() + AHEAD_MS}


def before_of(found: Sequence[int] | str | None) -> Sequence[int] | None:
    """`CommittedDispatch.before` of a row. The first of a hook lists all before it; the others only follow that one."""
    if found is None:
        return ()
    ids: Sequence[int] = json.decode(found) if isinstance(found, str) else found
    return ids if len(ids) <= BEFORE_MAX else None


class LocalWorker(Protocol):
    """What a commit knows of a worker."""

    def accepts_dispatches(self) -> bool:
        """Whether a commit should ask for `CommittedDispatch.before`."""

    def accept(self, new: CommittedDispatch) -> bool:
        """Return whether the worker will send it."""


_local_workers: WeakKeyDictionary[Database, LocalWorker] = WeakKeyDictionary()


def register_worker(database: Database, worker: LocalWorker) -> Callable[[], object]:
    """Offer `worker` what is committed to the database, until the returned function is called."""
    _local_workers[database] = worker
    return lambda: _local_workers.pop(database, None)


def accepts_dispatches(database: Database) -> bool:
    """Whether a worker may take something now."""
    worker = _local_workers.get(database)
    return worker is not None and worker.accepts_dispatches()


def offer(database: Database, new: CommittedDispatch) -> bool:
    """Return whether a worker of this process took it. It is committed, so the publisher gets no error from here."""
    worker = _local_workers.get(database)
    try:
        return worker is not None and worker.accept(new)
    except Exception:
        log.exception("handover_failed", hook_id=new.hook_id, dispatch_id=new.id)
        return False


class NewEvent(msgspec.Struct, frozen=True):
    """An event to commit. `event` has the values of `outbox.COLUMNS`, `entry` those of `audit.COLUMNS`, or is None if
    there is no entry in the audit log."""

    event: Mapping[str, Any]
    entry: Mapping[str, Any] | None


class Committed(msgspec.Struct, frozen=True):
    """A committed event and its dispatches."""

    event_id: int
    dispatches: list[CommittedDispatch]


def _found(made: sa.FromClause, sent: sa.FromClause, before: sa.ColumnElement[Any] | None) -> sa.Select[Any]:
    """The `made` events with the dispatches that were `sent`, which a worker may take if it knows what comes before."""
    return (
        sa.select(made.c.id.label("event_id"), sent.c.id.label("dispatch_id"), sent.c.hook_id, sent.c.guid)
        .add_columns(hooks.c.version, hooks.c.app_id, hooks.c.repository_id, *([] if before is None else [before]))
        .select_from(made.outerjoin(sent, sent.c.event_id == made.c.id).outerjoin(hooks, hooks.c.id == sent.c.hook_id))
        .order_by(made.c.id, sent.c.id)
    )


def _on_postgresql(*, handing: bool) -> sa.Select[Any]:
    made = outbox.insert_many.cte("made")
    answer = (dispatches.c.id, dispatches.c.event_id, dispatches.c.hook_id, dispatches.c.guid)
    sent = send_on_postgresql(made).returning(*answer).cte("sent")
    entry = arrays("entry", {column: audit_log.c[column].type for column in audit.COLUMNS})
    entries = sa.select(*(entry.c[name] for name in audit.COLUMNS)).order_by(entry.c.n)
    logged = sa.insert(audit_log).from_select(list(audit.COLUMNS), entries).cte("logged")
    return _found(made, sent, before_on_postgresql(sent) if handing else None).add_cte(logged)


_commit_on_postgresql = hot(_on_postgresql(handing=False))
_hand_on_postgresql = hot(_on_postgresql(handing=True))
_insert_event = insert_into(events, *outbox.COLUMNS)
_found_new = _found(events, dispatches, None).where(new_on_sqlite)
_hand_new = _found(events, dispatches, before_on_sqlite(dispatches, last_before_on_sqlite)).where(new_on_sqlite)

_committers: WeakKeyDictionary[Database, Batcher[NewEvent, Committed]] = WeakKeyDictionary()


def committer_of(database: Database) -> Batcher[NewEvent, Committed]:
    """Commits together what this process publishes while a commit is under way. Events of one repository get their ids
    in the order in which they were added."""
    found = _committers.get(database)
    if found is None:
        found = _committers[database] = Batcher(partial(_commit_and_signal, ref(database)), _queue)
    return found


def _queue(new: NewEvent) -> Hashable:
    return new.event["repository_id"] or ("account", new.event["account_id"])


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
    """Commit all events in their order, or none. Durable when it returns; raises what `Database.transaction` raises."""
    handing = accepts_dispatches(database)
    before = before_params() if handing else {}
    rows = [each.event for each in added]
    entries = [each.entry for each in added if each.entry is not None]
    if database.name == "postgresql":
        columns = {**send_params(), **before, **outbox.insert_many_params(rows)}
        columns.update({f"entry_{name}": [entry[name] for entry in entries] for name in audit.COLUMNS})
        statement = _hand_on_postgresql if handing else _commit_on_postgresql
        return _committed(await database.write_returning([], statement, columns), added, handing)
    several: Params = {"count": len(rows), **send_params()}
    steps: list[Step] = [(_insert_event, rows), (send_on_sqlite, [several]), (audit.insert, entries)]
    found = await database.write_returning(steps, _hand_new if handing else _found_new, {"count": len(rows), **before})
    return _committed(found, added, handing)


def _committed(rows: Sequence[Row], added: Sequence[NewEvent], handing: bool) -> list[Committed]:
    """`rows`: one for each dispatch, or for an event that reaches nobody, in the order of the events."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["event_id"], []).append(row)
    return [
        Committed(event_id, [_dispatch(row, new.event, handing) for row in sent if row["dispatch_id"] is not None])
        for (event_id, sent), new in zip(found.items(), added, strict=True)
    ]


def _dispatch(row: Row, event: Mapping[str, Any], handing: bool) -> CommittedDispatch:
    before = before_of(row["before"]) if handing else None
    return CommittedDispatch(
        row["dispatch_id"], row["hook_id"], row["version"], row["guid"], row["event_id"], event, row["app_id"],
        row["repository_id"], before,
    )  # fmt: skip
