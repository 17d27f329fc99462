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
from sqlalchemy.dialects.postgresql import ARRAY

from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events import order, outbox
from workhook.events.tables import events
from workhook.hooks.handover import (
    Fresh,
    before_of,
    before_on_postgresql,
    before_on_sqlite,
    before_params,
    may_be_taken,
    offer,
)
from workhook.hooks.match import ANY
from workhook.hooks.tables import dispatches, hooks
from workhook.identity import audit
from workhook.identity.tables import audit_log
from workhook.storage import Database, Row
from workhook.storage.database import Params, Step
from workhook.storage.gathering import Gatherer
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import DUE, EVENTS

GUID_TIME_CHARS = 13  # of a UUID of version 7: 48 bits of milliseconds, with a hyphen among them


class Telling(msgspec.Struct, frozen=True):
    """An event to commit. `event` has the values of `outbox.COLUMNS`, `entry` those of `audit.COLUMNS`; None: the
    audit log tells nothing of it."""

    event: Mapping[str, Any]
    entry: Mapping[str, Any] | None


class Dispatch(msgspec.Struct, frozen=True):
    """One event for one hook, due now. `version` is the hook's, `app_id` the OAuth app's that made the hook. `before`:
    as `handover.Fresh` has it; None where nobody takes anything."""

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


_QUOTE = sa.literal_column("""'"'""", sa.Text())
_ANYTHING = sa.literal_column(f"'{ANY}'", sa.Text())
_HYPHEN = sa.literal_column("'-'", sa.Text())
_VERSION = sa.literal_column("'-7'", sa.Text())
_NOTHING = sa.literal_column("0", sa.Integer())
_DISPATCHED = ("event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at")


def _wants(hook: sa.FromClause, event: sa.FromClause, position: str) -> sa.ColumnElement[bool]:
    """`match.wants` in SQL. `hook.events` is a JSON array of names, in which there are no quotes."""
    find = getattr(sa.func, position)
    quoted = _QUOTE + event.c.name + _QUOTE
    return sa.or_(find(hook.c.events, quoted) > _NOTHING, find(hook.c.events, _QUOTE + _ANYTHING + _QUOTE) > _NOTHING)


def _listens(hook: sa.FromClause, event: sa.FromClause) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Whether it is an active hook of the event's repository, and whether it is one of its organization."""
    of_repository = sa.and_(hook.c.active, hook.c.repository_id == event.c.repository_id)
    of_organization = sa.and_(hook.c.active, hook.c.repository_id.is_(None), hook.c.account_id == event.c.account_id)
    return of_repository, of_organization


def _arrays(name: str, columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.TableValuedAlias:
    """The parameters, an array a column, as a table; `n` counts its rows."""
    values: list[sa.BindParameter[Any]] = [
        sa.bindparam(f"{name}_{column}", type_=ARRAY(kind)) for column, kind in columns.items()
    ]
    shape = [sa.column(column, kind) for column, kind in columns.items()]
    return sa.func.unnest(*values).table_valued(*shape, with_ordinality="n", name=name).render_derived()


def _on_postgresql(*, handing: bool) -> sa.Select[Any]:
    told = _arrays("told", {column: events.c[column].type for column in outbox.COLUMNS})
    in_order = sa.select(*(told.c[name] for name in outbox.COLUMNS)).order_by(told.c.n).subquery("in_order")
    made = (
        sa.insert(events)
        .from_select(
            ["id", *outbox.COLUMNS],
            sa.select(order.number_in(in_order.c.repository_id), *in_order.c),
        )
        .returning(events.c.id, events.c.name, events.c.account_id, events.c.repository_id)
        .cte("made")
    )
    # Each part has its index.
    there, above = hooks.alias("there"), hooks.alias("above")
    found = sa.union_all(
        sa.select(there.c.id).where(_listens(there, made)[0], _wants(there, made, "strpos")),
        sa.select(above.c.id).where(_listens(above, made)[1], _wants(above, made, "strpos")),
    ).lateral("found")
    # A version 7 of a version 4: the time before, and of the random one what follows its own version.
    random = sa.func.substr(sa.cast(sa.func.gen_random_uuid(), sa.Text), 16)
    guid = sa.bindparam("time", type_=sa.Text()) + _VERSION + random
    sent = (
        sa.insert(dispatches)
        .from_select(
            list(_DISPATCHED),
            sa.select(made.c.id, found.c.id, guid, _NOTHING, _NOTHING, _NOTHING, big("now"), big("now"))
            .select_from(made.join(found, sa.true()))
            .order_by(made.c.id, found.c.id),
        )
        .returning(dispatches.c.id, dispatches.c.event_id, dispatches.c.hook_id, dispatches.c.guid)
        .cte("sent")
    )
    entry = _arrays("entry", {column: audit_log.c[column].type for column in audit.COLUMNS})
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


# SQLite has one writer: what was inserted last has the highest numbers.
_new = events.c.id > order.last_given - big("count")
_insert_event = insert_into(events, *outbox.COLUMNS)


def _dispatch_on_sqlite() -> sa.Insert:
    random = sa.func.lower(sa.func.hex(sa.func.randomblob(8)))
    variant = sa.func.substr(sa.literal_column("'89ab'"), sa.literal_column("1 + (random() & 3)"), 1)
    guid = (
        sa.bindparam("time", type_=sa.Text())
        + _VERSION
        + sa.func.substr(random, 1, 3)
        + _HYPHEN
        + variant
        + sa.func.substr(random, 4, 3)
        + _HYPHEN
        + sa.func.lower(sa.func.hex(sa.func.randomblob(6)))
    )
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(events.c.id, hooks.c.id, guid, _NOTHING, _NOTHING, _NOTHING, big("now"), big("now"))
        .select_from(events.join(hooks, sa.or_(*_listens(hooks, events))))
        .where(_new, _wants(hooks, events, "instr"))
        .order_by(events.c.id, hooks.c.id),
    )


def _found_on_sqlite(*, handing: bool) -> sa.Select[Any]:
    before = before_on_sqlite(dispatches, order.last_given - big("count"))
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
        .where(_new)
        .order_by(events.c.id, dispatches.c.id)
    )  # fmt: skip


_commit_on_postgresql = _on_postgresql(handing=False)
_hand_on_postgresql = _on_postgresql(handing=True)
_dispatch_new = _dispatch_on_sqlite()
_found_new = _found_on_sqlite(handing=False)
_hand_new = _found_on_sqlite(handing=True)


_committers: WeakKeyDictionary[Database, Gatherer[Telling, Committed]] = WeakKeyDictionary()


def committer_of(database: Database) -> Gatherer[Telling, Committed]:
    """Commits events of this process, those together that come while a commit is under way. Within a repository, the
    order in which they come is the order of their numbers."""
    found = _committers.get(database)
    if found is None:
        found = _committers[database] = Gatherer(partial(_commit_and_tell, ref(database)), _queue)
    return found


def _queue(telling: Telling) -> Hashable:
    return telling.event["repository_id"] or ("account", telling.event["account_id"])


async def _commit_and_tell(database_ref: ref[Database], told: Sequence[Telling]) -> list[Committed]:
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


def _fresh(event: Mapping[str, Any], event_id: int, sent: Dispatch) -> Fresh:
    return Fresh(
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


async def commit(database: Database, told: Sequence[Telling]) -> list[Committed]:
    """All of them, in their order, or none. Durable when it returns; raises what `Database.transaction` raises."""
    now, time = now_ms(), new_guid()[:GUID_TIME_CHARS]
    handing = may_be_taken(database)
    before = before_params() if handing else {}
    rows = [each.event for each in told]
    entries = [each.entry for each in told if each.entry is not None]
    if database.name == "postgresql":
        columns: dict[str, object] = {"now": now, "time": time, **before}
        columns.update({f"told_{name}": [row[name] for row in rows] for name in outbox.COLUMNS})
        columns.update({f"entry_{name}": [entry[name] for entry in entries] for name in audit.COLUMNS})
        statement = _hand_on_postgresql if handing else _commit_on_postgresql
        return _gathered(await database.write_returning([], statement, columns), handing=handing)
    several: Params = {"count": len(rows), "now": now, "time": time}
    steps: list[Step] = [(_insert_event, rows), (_dispatch_new, [several]), (audit.insert, entries)]
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
