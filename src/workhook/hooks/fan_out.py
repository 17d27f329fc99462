"""Inserts a dispatch per matching hook, in the transaction of the change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events import order, outbox
from workhook.events.catalog import ANY_EVENT
from workhook.events.outbox import Event
from workhook.events.tables import events
from workhook.hooks.records import Hook, HookViewer
from workhook.hooks.tables import dispatches, hooks
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import DUE
from workhook.storage.statements import PerDialect, hot

GUID_TIME_CHARS = 13  # of a UUID of version 7: 48 bits of milliseconds, with a hyphen among them

_QUOTE = sa.literal_column("""'"'""", sa.Text())
_ANYTHING = sa.literal_column(f"'{ANY_EVENT}'", sa.Text())
_HYPHEN = sa.literal_column("'-'", sa.Text())
_VERSION = sa.literal_column("'-7'", sa.Text())
_NOTHING = sa.literal_column("0", sa.Integer())
_DISPATCHED = ("event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at")


def _wants(hook: sa.FromClause, event: sa.FromClause, position: str) -> sa.ColumnElement[bool]:
    """`fan_out.wants` in SQL. `hook.events` is a JSON array of names, in which there are no quotes."""
    find = getattr(sa.func, position)
    quoted = _QUOTE + event.c.name + _QUOTE
    return sa.or_(find(hook.c.events, quoted) > _NOTHING, find(hook.c.events, _QUOTE + _ANYTHING + _QUOTE) > _NOTHING)


def _listens(hook: sa.FromClause, event: sa.FromClause) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Whether it is an active hook of the event's repository, and whether it is one of its organization."""
    of_repository = sa.and_(hook.c.active, hook.c.repository_id == event.c.repository_id)
    of_organization = sa.and_(hook.c.active, hook.c.repository_id.is_(None), hook.c.account_id == event.c.account_id)
    return of_repository, of_organization


def send_on_postgresql(made: sa.FromClause) -> sa.Insert:
    """`made`: the events, with the columns of `outbox.WRITTEN`. The parameters are those of `send_params`."""
    # Each part has its index.
    there, above = hooks.alias("there"), hooks.alias("above")
    found = sa.union_all(
        sa.select(there.c.id).where(_listens(there, made)[0], _wants(there, made, "strpos")),
        sa.select(above.c.id).where(_listens(above, made)[1], _wants(above, made, "strpos")),
    ).lateral("found")
    # A version 7 of a version 4: the time before, and of the random one what follows its own version.
    random = sa.func.substr(sa.cast(sa.func.gen_random_uuid(), sa.Text), 16)
    guid = sa.bindparam("time", type_=sa.Text()) + _VERSION + random
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(made.c.id, found.c.id, guid, _NOTHING, _NOTHING, _NOTHING, big("now"), big("now"))
        .select_from(made.join(found, sa.true()))
        .order_by(made.c.id, found.c.id),
    )


last_before_on_sqlite = order.last_given - big("count")
new_on_sqlite = events.c.id > last_before_on_sqlite
"""The events that were inserted last, `count` of them: SQLite has one writer, so they have the highest numbers."""


def _send_on_sqlite() -> sa.Insert:
    random = sa.func.lower(sa.func.hex(sa.func.randomblob(8)))
    variant = sa.func.substr(sa.literal_column("'89ab'"), sa.literal_column("1 + (random() & 3)"), 1)
    guid = sa.bindparam("time", type_=sa.Text()) + _VERSION + sa.func.substr(random, 1, 3) + _HYPHEN + variant
    guid = guid + sa.func.substr(random, 4, 3) + _HYPHEN + sa.func.lower(sa.func.hex(sa.func.randomblob(6)))
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(events.c.id, hooks.c.id, guid, _NOTHING, _NOTHING, _NOTHING, big("now"), big("now"))
        .select_from(events.join(hooks, sa.or_(*_listens(hooks, events))))
        .where(new_on_sqlite, _wants(hooks, events, "instr"))
        .order_by(events.c.id, hooks.c.id),
    )


send_on_sqlite = _send_on_sqlite()


def send_params() -> dict[str, object]:
    return {"now": now_ms(), "time": new_guid()[:GUID_TIME_CHARS]}


_listening = sa.select(hooks.c.id, hooks.c.events, hooks.c.app_id, hooks.c.repository_id).where(
    hooks.c.active,
    sa.or_(
        hooks.c.repository_id == big("repository_id"),
        sa.and_(hooks.c.repository_id.is_(None), hooks.c.account_id == big("account_id")),
    ),
)
_SENT = sa.table("sent", sa.column("hook_id", sa.BigInteger()))
_send = hot(
    PerDialect(sqlite=send_on_sqlite, postgresql=send_on_postgresql(outbox.WRITTEN).returning(dispatches.c.hook_id))
)
_reached_by_new = hot(
    PerDialect(
        sqlite=sa.select(dispatches.c.hook_id).where(dispatches.c.event_id > last_before_on_sqlite).distinct(),
        postgresql=sa.select(_SENT.c.hook_id).distinct(),
    )
)
_insert = insert_into(dispatches, *_DISPATCHED)
_waiting = (
    sa.select(dispatches.c.id)
    .where(any_of(dispatches.c.hook_id, "hook_ids"), dispatches.c.next_attempt_at.is_not(None))
    .order_by(dispatches.c.id)
    .with_for_update()
    .cte("waiting")
)
_drop_waiting = (
    sa.update(dispatches).where(dispatches.c.id.in_(sa.select(_waiting.c.id))).values(next_attempt_at=None, wanted=0)
)
_REACHED = object()
_Maker = tuple[int | None, int | None]  # the app and the repository of a hook
_Reached = Counter[tuple[int, _Maker]]  # by event


def wants(subscribed: Sequence[str], event: str) -> bool:
    """`*` is every event, present and future."""
    return event in subscribed or ANY_EVENT in subscribed


async def fan_out(tx: Transaction, events: Sequence[Event]) -> None:
    """An `outbox.FanOut`."""
    if events[0].id == outbox.UNNUMBERED:  # their dispatches are inserted in the statement that inserts them
        counted = {"count": len(events)}
        tx.defer(_send, [{**send_params(), **counted}], name=_SENT.name)
        await tx.defer_fetch(_reached_by_new, counted, partial(_signal_due, tx))
        return
    by_owner: dict[tuple[int, int | None], list[Event]] = defaultdict(list)
    for event in events:
        by_owner[event.account_id, event.repository_id].append(event)
    pairs: list[tuple[int, int]] = []
    maker_of: dict[int, _Maker] = {}
    for (account_id, repository_id), there in by_owner.items():
        owner = {"account_id": account_id, "repository_id": repository_id}
        rows = await tx.fetch_with_deferred(_listening, owner)
        listening = [(row["id"], json.decode(row["events"])) for row in rows]
        maker_of.update({row["id"]: (row["app_id"], row["repository_id"]) for row in rows})
        pairs += [(event.id, hook_id) for event in there for hook_id, names in listening if wants(names, event.name)]
    await insert_dispatches(tx, pairs)
    makers: _Reached = tx.state.setdefault(_REACHED, Counter())
    makers.update((event_id, maker_of[hook_id]) for event_id, hook_id in pairs)


def _signal_due(tx: Transaction, rows: Sequence[Row]) -> None:
    if rows:
        tx.signal(DUE, {row["hook_id"] for row in rows})


def reached(tx: Transaction, event_id: int, viewer: HookViewer) -> int:
    """Return how many of the hooks that the viewer sees get an event that was fanned out."""
    makers: _Reached = tx.state.get(_REACHED, Counter())
    return sum(
        count
        for (each, (app_id, repository_id)), count in makers.items()
        if each == event_id and viewer.sees(app_id=app_id, repository_id=repository_id)
    )


async def fan_out_about(tx: Transaction, event: Event, hook: Hook) -> None:
    """Send an event about `hook`, appended with `to_hooks=False`, to the hooks whose makers see `hook`."""
    rows = await tx.fetch_all(_listening, {"account_id": event.account_id, "repository_id": event.repository_id})
    fitting = [row["id"] for row in rows if _may_show(row, hook) and wants(json.decode(row["events"]), event.name)]
    await insert_dispatches(tx, [(event.id, hook_id) for hook_id in fitting])


def _may_show(receiving: Row, hook: Hook) -> bool:
    """Return whether an event about `hook` may reach a receiver.

    An organization's hook that an OAuth app created may belong to an app that cannot read repositories.
    """
    if hook.repository_id is None:
        return bool(receiving["app_id"] == hook.app_id)
    return receiving["repository_id"] is not None or receiving["app_id"] in (None, hook.app_id)


async def insert_dispatches(tx: Transaction, pairs: Sequence[tuple[int, int]], *, by_hand: bool = False) -> None:
    """Make each (event, hook) due now, and wake the workers after the commit.

    `by_hand`: somebody asked for this one, so it is sent even if the hook is off.
    """
    if not pairs:
        return
    now = now_ms()
    new = {"attempts": 0, "retries": 0, "wanted": int(by_hand), "next_attempt_at": now, "created_at": now}
    rows = [{**new, "event_id": event_id, "hook_id": hook_id, "guid": new_guid()} for event_id, hook_id in pairs]
    await tx.execute_many(_insert, rows)
    tx.signal(DUE, {hook_id for _, hook_id in pairs})


async def drop_waiting(tx: Transaction, hook_ids: Sequence[int]) -> None:
    """Send nothing more of what waits for these hooks. Their rows are locked by id, as everywhere."""
    await tx.execute(_drop_waiting, {"hook_ids": list(hook_ids)})
