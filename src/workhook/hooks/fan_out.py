"""Inserts a dispatch for each matching hook, with the statement that inserts the events of a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events import order, outbox
from workhook.events.catalog import ANY_EVENT
from workhook.events.outbox import Draft
from workhook.events.tables import events
from workhook.hooks.schemas import Hook
from workhook.hooks.tables import dispatches, hooks
from workhook.identity.queries import Premise, premise_params, premises_hold
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.signals import DUE
from workhook.storage.statements import PerDialect, hot

BEFORE_MAX = 64  # due dispatches of a hook; with more, they must be read anyway
AHEAD_MS = 20  # allowed clock skew of other processes
GUID_TIME_CHARS = 13  # the first 13 characters of a UUIDv7: 48 bits of milliseconds and a hyphen

_QUOTE = sa.literal_column("""'"'""", sa.Text())
_ANYTHING = sa.literal_column(f"'{ANY_EVENT}'", sa.Text())
_HYPHEN = sa.literal_column("'-'", sa.Text())
_VERSION = sa.literal_column("'-7'", sa.Text())
_NOTHING = sa.literal_column("0", sa.Integer())
_DISPATCHED = ("event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at")


def _wants(hook: sa.FromClause, event: sa.FromClause, position: str) -> sa.ColumnElement[bool]:
    """Match like `fan_out.wants`, in SQL. `hook.events` is a JSON array of names without quotes."""
    find = getattr(sa.func, position)
    quoted = _QUOTE + event.c.name + _QUOTE
    return sa.or_(find(hook.c.events, quoted) > _NOTHING, find(hook.c.events, _QUOTE + _ANYTHING + _QUOTE) > _NOTHING)


def _listens(hook: sa.FromClause, event: sa.FromClause) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Match active hooks of the event's repository, and those of its organization."""
    of_repository = sa.and_(hook.c.active, hook.c.repository_id == event.c.repository_id)
    of_organization = sa.and_(hook.c.active, hook.c.repository_id.is_(None), hook.c.account_id == event.c.account_id)
    return of_repository, of_organization


def _send_on_postgresql(made: sa.FromClause) -> sa.Insert:
    # Each part uses its own index.
    hook, above = hooks.alias("there"), hooks.alias("above")
    found = sa.union_all(
        sa.select(hook.c.id).where(_listens(hook, made)[0], _wants(hook, made, "strpos")),
        sa.select(above.c.id).where(_listens(above, made)[1], _wants(above, made, "strpos")),
    ).lateral("found")
    # Converts a random version 4 UUID to version 7: the time, then the part of the random UUID after its version digit.
    random = sa.func.substr(sa.cast(sa.func.gen_random_uuid(), sa.Text), 16)
    guid = sa.bindparam("time", type_=sa.Text()) + _VERSION + random
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(made.c.id, found.c.id, guid, _NOTHING, _NOTHING, _NOTHING, bigint_param("now"), bigint_param("now"))
        .select_from(made.join(found, sa.true()))
        .order_by(made.c.id, found.c.id),
    )


_last_before_on_sqlite = order.last_given - bigint_param("count")
_new_on_sqlite = events.c.id > _last_before_on_sqlite
"""The `count` events inserted last. SQLite has a single writer, so they have the highest numbers."""


def _send_on_sqlite() -> sa.Insert:
    random = sa.func.lower(sa.func.hex(sa.func.randomblob(8)))
    variant = sa.func.substr(sa.literal_column("'89ab'"), sa.literal_column("1 + (random() & 3)"), 1)
    guid = sa.bindparam("time", type_=sa.Text()) + _VERSION + sa.func.substr(random, 1, 3) + _HYPHEN + variant
    guid = guid + sa.func.substr(random, 4, 3) + _HYPHEN + sa.func.lower(sa.func.hex(sa.func.randomblob(6)))
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(events.c.id, hooks.c.id, guid, _NOTHING, _NOTHING, _NOTHING, bigint_param("now"), bigint_param("now"))
        .select_from(events.join(hooks, sa.or_(*_listens(hooks, events))))
        .where(_new_on_sqlite, _wants(hooks, events, "instr"))
        .order_by(events.c.id, hooks.c.id),
    )


_ANSWERED = (dispatches.c.id, dispatches.c.event_id, dispatches.c.hook_id, dispatches.c.guid)
_SENT = sa.table("sent", *(sa.column(each.name, each.type) for each in _ANSWERED))
_send = hot(PerDialect(sqlite=_send_on_sqlite(), postgresql=_send_on_postgresql(outbox.WRITTEN).returning(*_ANSWERED)))


def _select_dispatches(
    made: sa.FromClause, sent: sa.FromClause, before: sa.ColumnElement[Any] | None
) -> sa.Select[Any]:
    """Select the `made` events with the dispatches that were `sent`. Only the first one to each hook has `before`."""
    first = sa.func.min(sent.c.id).over(partition_by=sent.c.hook_id)
    more = [] if before is None else [sa.case((sent.c.id == first, before)).label("before")]
    return (
        sa.select(made.c.id.label("event_id"), sent.c.id.label("dispatch_id"), sent.c.hook_id, sent.c.guid)
        .add_columns(hooks.c.version, hooks.c.app_id, hooks.c.repository_id, *more)
        .select_from(made.outerjoin(sent, sent.c.event_id == made.c.id).outerjoin(hooks, hooks.c.id == sent.c.hook_id))
        .order_by(made.c.id, sent.c.id)
    )


def _due_before(sent: sa.FromClause) -> sa.Select[Any]:
    # Referenced by name alone, because this must not find the dispatches sent by the same statement.
    due = sa.table("dispatches", *(sa.column(each.name, each.type) for each in dispatches.c)).alias("due_before")
    found = sa.select(due.c.id).where(
        due.c.hook_id == sent.c.hook_id, due.c.next_attempt_at <= bigint_param("due_until")
    )
    if sent is dispatches:  # SQLite also finds the dispatches just sent
        found = found.where(due.c.event_id <= _last_before_on_sqlite)
    return found.limit(BEFORE_MAX + 1).correlate(sent)


_some = _due_before(dispatches).subquery("some")
_before_on_sqlite = sa.select(sa.func.json_group_array(_some.c.id)).scalar_subquery()
_before_on_postgresql = sa.func.array(_due_before(_SENT).scalar_subquery(), type_=sa.ARRAY(sa.BigInteger))
_sent = hot(
    PerDialect(
        sqlite=_select_dispatches(events, dispatches, None).where(_new_on_sqlite),
        postgresql=_select_dispatches(outbox.WRITTEN, _SENT, None),
    )
)
_with_before = PerDialect(
    sqlite=_select_dispatches(events, dispatches, _before_on_sqlite).where(_new_on_sqlite),
    postgresql=_select_dispatches(outbox.WRITTEN, _SENT, _before_on_postgresql),
)


def _on_premises(statement: PerDialect) -> PerDialect:
    def of(dialect: str) -> sa.Select[Any]:
        plain = statement.of(dialect)
        assert isinstance(plain, sa.Select)
        return plain.where(premises_hold(dialect))

    return hot(PerDialect.made_by(of))


_sent_on_premises = _on_premises(_sent)
_sent_on_premises_with_before = _on_premises(_with_before)
_listening = sa.select(hooks.c.id, hooks.c.events, hooks.c.app_id, hooks.c.repository_id).where(
    hooks.c.active,
    sa.or_(
        hooks.c.repository_id == bigint_param("repository_id"),
        sa.and_(hooks.c.repository_id.is_(None), hooks.c.account_id == bigint_param("account_id")),
    ),
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


class FanOutResults(list[Row]):
    """A transaction's rows: one per dispatch, and one for each event without any."""


def wants(subscribed: Sequence[str], event: str) -> bool:
    """Return whether the subscription includes the event. `*` includes every event, present and future."""
    return event in subscribed or ANY_EVENT in subscribed


async def fan_out(tx: Transaction, drafts: Sequence[Draft]) -> None:
    """Create a dispatch for each hook subscribed to one of the events. Implements `outbox.FanOut`."""

    def signal(rows: Sequence[Row]) -> None:
        tx.get_local(FanOutResults).extend(rows)
        if due := {row["hook_id"] for row in rows} - {None}:
            tx.signal(DUE, due)

    _defer_send(tx, len(drafts))
    await tx.defer_fetch(_sent, {"count": len(drafts)}, signal)


async def send_on_premises(
    tx: Transaction,
    count: int,
    premises: Iterable[Premise],
    then: Callable[[Sequence[Row]], None],
    *,
    with_before: bool,
) -> None:
    """Create the dispatches of `count` events, or fail the transaction with `ConditionFailed` if a premise is untrue.

    `then` receives a row per dispatch, and one for each event without any, in event order. `with_before`: a hook's
    first row also lists its other due dispatches, at most `BEFORE_MAX + 1`.
    """
    _defer_send(tx, count)
    params = {"count": count, "due_until": now_ms() + AHEAD_MS, **premise_params(premises)}
    await tx.defer_fetch(_sent_on_premises_with_before if with_before else _sent_on_premises, params, then)


def _defer_send(tx: Transaction, count: int) -> None:
    tx.defer(_send, [{"now": now_ms(), "time": new_guid()[:GUID_TIME_CHARS], "count": count}], name=_SENT.name)


async def send_now(tx: Transaction) -> Sequence[Row]:
    """Fan out the events added to the outbox so far; return the `FanOutResults`."""
    await outbox.send(tx)
    await tx.flush()
    return tx.get_local(FanOutResults)


async def fan_out_about(tx: Transaction, draft: Draft, hook: Hook) -> None:
    """Append an event about `hook`, and send it to the hooks whose creators see `hook`."""
    event_id = await outbox.append(tx, draft)
    rows = await tx.fetch_all(_listening, {"account_id": draft.account_id, "repository_id": draft.repository_id})
    fitting = [row for row in rows if _may_show(row, hook) and wants(json.decode(row["events"]), draft.name)]
    await insert_dispatches(tx, [(event_id, row["id"]) for row in fitting])


def _may_show(receiving: Row, hook: Hook) -> bool:
    """Return whether an event about `hook` may reach a receiver.

    An organization's hook created by an OAuth app may belong to an app that cannot read repositories.
    """
    if hook.repository_id is None:
        return bool(receiving["app_id"] == hook.app_id)
    return receiving["repository_id"] is not None or receiving["app_id"] in (None, hook.app_id)


async def insert_dispatches(tx: Transaction, pairs: Sequence[tuple[int, int]], *, by_hand: bool = False) -> None:
    """Make each (event, hook) pair due now. `by_hand`: requested by a person, so sent even if the hook is inactive."""
    if not pairs:
        return
    now = now_ms()
    new = {"attempts": 0, "retries": 0, "wanted": int(by_hand), "next_attempt_at": now, "created_at": now}
    rows = [{**new, "event_id": event_id, "hook_id": hook_id, "guid": new_guid()} for event_id, hook_id in pairs]
    await tx.execute_many(_insert, rows)
    tx.signal(DUE, {hook_id for _, hook_id in pairs})


async def send_by_hand(tx: Transaction, draft: Draft, hook: Hook) -> None:
    """Append an event and send it to this hook only, even if it is inactive."""
    await insert_dispatches(tx, [(await outbox.append(tx, draft), hook.id)], by_hand=True)


async def drop_waiting(tx: Transaction, hook_ids: Sequence[int]) -> None:
    """Drop the waiting dispatches of these hooks. Rows are locked in order of ID, as they are everywhere else."""
    await tx.execute(_drop_waiting, {"hook_ids": list(hook_ids)})
