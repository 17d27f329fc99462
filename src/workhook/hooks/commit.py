"""Events, their dispatches and their entries of the audit log, committed together: many events in one statement.

On PostgreSQL it is one statement, which commits by itself: one round trip, without BEGIN and COMMIT. On SQLite it is
one trip to the writer's thread.

It does what the subscribers of `events.outbox` do in a transaction (`audit.of_events`, `fan_out`): what an event
entails has to be changed in both places.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import msgspec
import sqlalchemy as sa

from workhook.events import outbox
from workhook.events.tables import events
from workhook.hooks.handover import (
    CommittedDispatch,
    before_of,
    before_on_postgresql,
    before_on_sqlite,
    before_params,
    may_be_taken,
    offer,
)
from workhook.hooks.sending import last_before_on_sqlite, new_on_sqlite, send_on_postgresql, send_on_sqlite, send_params
from workhook.hooks.tables import dispatches, hooks
from workhook.identity import audit
from workhook.identity.tables import audit_log
from workhook.storage import Database, Row
from workhook.storage.batching import Batcher
from workhook.storage.database import Step
from workhook.storage.dialects import arrays
from workhook.storage.metadata import insert_into
from workhook.storage.signals import DUE, EVENTS
from workhook.storage.statements import Params, hot


class NewEvent(msgspec.Struct, frozen=True):
    """An event to commit. `event` has the values of `outbox.COLUMNS`, `entry` those of `audit.COLUMNS`, or is None if
    there is no entry in the audit log."""

    event: Mapping[str, Any]
    entry: Mapping[str, Any] | None


class Committed(msgspec.Struct, frozen=True):
    """A committed event and its dispatches."""

    event_id: int
    dispatches: list[CommittedDispatch]


def _on_postgresql(*, handing: bool) -> sa.Select[Any]:
    made = outbox.insert_told.cte("made")
    sent = (
        send_on_postgresql(made)
        .returning(dispatches.c.id, dispatches.c.event_id, dispatches.c.hook_id, dispatches.c.guid)
        .cte("sent")
    )
    entry = arrays("entry", {column: audit_log.c[column].type for column in audit.COLUMNS})
    logged = (
        sa.insert(audit_log)
        .from_select(list(audit.COLUMNS), sa.select(*(entry.c[name] for name in audit.COLUMNS)).order_by(entry.c.n))
        .cte("logged")
    )
    return (
        sa.select(
            made.c.id.label("event_id"), sent.c.id.label("dispatch_id"), sent.c.hook_id, sent.c.guid, hooks.c.version,
            hooks.c.app_id, *([before_on_postgresql(sent)] if handing else []),
        )
        .select_from(
            made.outerjoin(sent, sent.c.event_id == made.c.id).outerjoin(hooks, hooks.c.id == sent.c.hook_id)
        )
        .order_by(made.c.id, sent.c.id)
        .add_cte(logged)
    )  # fmt: skip


def _found_on_sqlite(*, handing: bool) -> sa.Select[Any]:
    before = before_on_sqlite(dispatches, last_before_on_sqlite)
    return (
        sa.select(
            events.c.id.label("event_id"), dispatches.c.id.label("dispatch_id"), dispatches.c.hook_id,
            dispatches.c.guid, hooks.c.version, hooks.c.app_id, *([before] if handing else []),
        )
        .select_from(
            events.outerjoin(dispatches, dispatches.c.event_id == events.c.id).outerjoin(
                hooks, hooks.c.id == dispatches.c.hook_id
            )
        )
        .where(new_on_sqlite)
        .order_by(events.c.id, dispatches.c.id)
    )  # fmt: skip


_commit_on_postgresql = hot(_on_postgresql(handing=False))
_hand_on_postgresql = hot(_on_postgresql(handing=True))
_insert_event = insert_into(events, *outbox.COLUMNS)
_found_new = _found_on_sqlite(handing=False)
_hand_new = _found_on_sqlite(handing=True)


_committers: WeakKeyDictionary[Database, Batcher[NewEvent, Committed]] = WeakKeyDictionary()


def committer_of(database: Database) -> Batcher[NewEvent, Committed]:
    """Commits together what this process publishes while a commit is under way. Events of one repository get their ids
    in the order in which they were added."""
    found = _committers.get(database)
    if found is None:
        found = _committers[database] = Batcher(partial(_commit_and_tell, ref(database)), _queue)
    return found


def _queue(new: NewEvent) -> Hashable:
    return new.event["repository_id"] or ("account", new.event["account_id"])


async def _commit_and_tell(database_ref: ref[Database], told: Sequence[NewEvent]) -> list[Committed]:
    database = database_ref()
    assert database is not None, "the caller that waits for the commit has it"
    committed = await commit(database, told)
    if due := {sent.hook_id for each in committed for sent in each.dispatches if not offer(database, sent)}:
        database.signals.send(DUE, due)
    followed = {each.event["repository_id"] for each in told if each.event["listed"]} - {None}
    if followed:
        database.signals.send(EVENTS, followed)
    return committed


async def commit(database: Database, told: Sequence[NewEvent]) -> list[Committed]:
    """Commit all events in their order, or none. Durable when it returns; raises what `Database.transaction` raises."""
    handing = may_be_taken(database)
    before = before_params() if handing else {}
    rows = [each.event for each in told]
    entries = [each.entry for each in told if each.entry is not None]
    if database.name == "postgresql":
        columns = {**send_params(), **before, **outbox.told_params(rows)}
        columns.update({f"entry_{name}": [entry[name] for entry in entries] for name in audit.COLUMNS})
        statement = _hand_on_postgresql if handing else _commit_on_postgresql
        return _committed(await database.write_returning([], statement, columns), told, handing)
    several: Params = {"count": len(rows), **send_params()}
    steps: list[Step] = [(_insert_event, rows), (send_on_sqlite, [several]), (audit.insert, entries)]
    found = await database.write_returning(steps, _hand_new if handing else _found_new, {"count": len(rows), **before})
    return _committed(found, told, handing)


def _committed(rows: Sequence[Row], told: Sequence[NewEvent], handing: bool) -> list[Committed]:
    """`rows`: one for each dispatch, or for an event that reaches nobody, in the order of the events."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["event_id"], []).append(row)
    return [
        Committed(event_id, [_dispatch(row, new.event, handing) for row in sent if row["dispatch_id"] is not None])
        for (event_id, sent), new in zip(found.items(), told, strict=True)
    ]


def _dispatch(row: Row, event: Mapping[str, Any], handing: bool) -> CommittedDispatch:
    before = before_of(row["before"]) if handing else None
    return CommittedDispatch(
        row["dispatch_id"], row["hook_id"], row["version"], row["guid"], row["event_id"], event, row["app_id"], before
    )
