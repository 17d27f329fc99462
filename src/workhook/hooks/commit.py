"""Events, their dispatches and their entries of the audit log, committed together: many events in one statement.

On PostgreSQL it is one statement, which commits by itself: one round trip, without BEGIN and COMMIT. On SQLite it is
one trip to the writer's thread.

It does what the subscribers of `events.outbox` do in a transaction, `audit.of_events` and `fan_out`: who changes what
an event entails changes it here, too.
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
from workhook.hooks.sending import (
    last_before_on_sqlite,
    new_on_sqlite,
    send_on_postgresql,
    send_on_sqlite,
    send_params,
)
from workhook.hooks.tables import dispatches, hooks
from workhook.identity import audit
from workhook.identity.tables import audit_log
from workhook.storage import Database, Row
from workhook.storage.database import Step
from workhook.storage.dialects import arrays
from workhook.storage.gathering import Batcher
from workhook.storage.metadata import insert_into
from workhook.storage.signals import DUE, EVENTS
from workhook.storage.statements import Params, hot


class NewEvent(msgspec.Struct, frozen=True):
    """An event to commit. `event` has the values of `outbox.COLUMNS`, `entry` those of `audit.COLUMNS`; None: the
    audit log tells nothing of it."""

    event: Mapping[str, Any]
    entry: Mapping[str, Any] | None


class Dispatch(msgspec.Struct, frozen=True):
    """One event for one hook, due now. `version` is the hook's, `app_id` the OAuth app's that made the hook. `before`:
    as `handover.CommittedDispatch` has it; None where nobody takes anything."""

    id: int
    hook_id: int
    guid: str
    version: int
    app_id: int | None
    before: Sequence[int] | None = None


class Committed(msgspec.Struct, frozen=True):
    """An event with its number, and whom it reaches."""

    event_id: int
    dispatches: list[Dispatch]


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
    """Commits events of this process, those together that come while a commit is under way. Within a repository, the
    order in which they come is the order of their numbers."""
    found = _committers.get(database)
    if found is None:
        found = _committers[database] = Batcher(partial(_commit_and_tell, ref(database)), _queue)
    return found


def _queue(telling: NewEvent) -> Hashable:
    return telling.event["repository_id"] or ("account", telling.event["account_id"])


async def _commit_and_tell(database_ref: ref[Database], told: Sequence[NewEvent]) -> list[Committed]:
    database = database_ref()
    assert database is not None, "whoever waits for the commit has it"
    committed = await commit(database, told)
    due = set()
    for telling, each in zip(told, committed, strict=True):
        for sent in each.dispatches:
            if not offer(database, _fresh(telling.event, each.event_id, sent)):
                due.add(sent.hook_id)
    if due:
        database.signals.send(DUE, due)
    followed = {each.event["repository_id"] for each in told if each.event["listed"]} - {None}
    if followed:
        database.signals.send(EVENTS, followed)
    return committed


def _fresh(event: Mapping[str, Any], event_id: int, sent: Dispatch) -> CommittedDispatch:
    return CommittedDispatch(
        dispatch_id=sent.id,
        hook_id=sent.hook_id,
        version=sent.version,
        guid=sent.guid,
        event_id=event_id,
        event=event["name"],
        action=event["action"],
        repository_id=event["repository_id"],
        installation_id=event["installation_id"],
        payload=event["payload"],
        due_at=event["created_at"],
        before=sent.before,
    )


async def commit(database: Database, told: Sequence[NewEvent]) -> list[Committed]:
    """All of them, in their order, or none. Durable when it returns; raises what `Database.transaction` raises."""
    handing = may_be_taken(database)
    before = before_params() if handing else {}
    rows = [each.event for each in told]
    entries = [each.entry for each in told if each.entry is not None]
    if database.name == "postgresql":
        columns = {**send_params(), **before, **outbox.told_params(rows)}
        columns.update({f"entry_{name}": [entry[name] for entry in entries] for name in audit.COLUMNS})
        statement = _hand_on_postgresql if handing else _commit_on_postgresql
        return _gathered(await database.write_returning([], statement, columns), handing=handing)
    several: Params = {"count": len(rows), **send_params()}
    steps: list[Step] = [(_insert_event, rows), (send_on_sqlite, [several]), (audit.insert, entries)]
    found = await database.write_returning(steps, _hand_new if handing else _found_new, {"count": len(rows), **before})
    return _gathered(found, handing=handing)


def _gathered(rows: Sequence[Row], *, handing: bool) -> list[Committed]:
    found: dict[int, list[Dispatch]] = {}
    for row in rows:
        of_event = found.setdefault(row["event_id"], [])
        if row["dispatch_id"] is not None:
            before = before_of(row["before"]) if handing else None
            of_event.append(
                Dispatch(row["dispatch_id"], row["hook_id"], row["guid"], row["version"], row["app_id"], before)
            )
    return [Committed(event_id, sent) for event_id, sent in found.items()]
