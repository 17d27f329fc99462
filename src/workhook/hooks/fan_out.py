"""Inserts a dispatch per matching hook, in the transaction of the change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events import order, outbox
from workhook.events.catalog import ANY_EVENT
from workhook.events.outbox import Event
from workhook.hooks.records import HookViewer
from workhook.hooks.sending import send_on_postgresql, send_on_sqlite, send_params
from workhook.hooks.tables import dispatches, hooks
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import DUE
from workhook.storage.statements import PerDialect, hot

_listening = sa.select(hooks.c.id, hooks.c.events, hooks.c.app_id).where(
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
        sqlite=sa.select(dispatches.c.hook_id)
        .where(dispatches.c.event_id > order.last_given - big("count"))
        .distinct(),
        postgresql=sa.select(_SENT.c.hook_id).distinct(),
    )
)
_insert = insert_into(
    dispatches, "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at"
)
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


def wants(subscribed: Sequence[str], event: str) -> bool:
    """`*` is every event, present and future."""
    return event in subscribed or ANY_EVENT in subscribed


async def fan_out(tx: Transaction, events: Sequence[Event]) -> Mapping[int, int]:
    """An `outbox.FanOut`: the number of deliveries by event id."""
    if events[0].id == outbox.UNNUMBERED:
        await _send_deferred(tx, len(events))
        return {}
    by_owner: dict[tuple[int, int | None], list[Event]] = defaultdict(list)
    for event in events:
        by_owner[event.account_id, event.repository_id].append(event)
    pairs: list[tuple[int, int]] = []
    app_of: dict[int, int | None] = {}
    for (account_id, repository_id), there in by_owner.items():
        owner = {"account_id": account_id, "repository_id": repository_id}
        rows = await tx.fetch_with_deferred(_listening, owner)
        listening = [(row["id"], json.decode(row["events"])) for row in rows]
        app_of.update({row["id"]: row["app_id"] for row in rows})
        pairs += [(event.id, hook_id) for event in there for hook_id, names in listening if wants(names, event.name)]
    await insert_dispatches(tx, pairs)
    counts: dict[int, int] = dict.fromkeys((event.id for event in events), 0)
    apps: Counter[tuple[int, int | None]] = tx.state.setdefault(_REACHED, Counter())
    for event_id, hook_id in pairs:
        counts[event_id] = counts.get(event_id, 0) + 1
        apps[event_id, app_of[hook_id]] += 1
    return counts


async def _send_deferred(tx: Transaction, count: int) -> None:
    """Insert the dispatches in the statement that inserts the events."""
    counted = {"count": count}

    def tell(rows: Sequence[Row]) -> None:
        if rows:
            tx.signal(DUE, {row["hook_id"] for row in rows})

    tx.defer(_send, [{**send_params(), **counted}], name=_SENT.name)
    await tx.defer_fetch(_reached_by_new, counted, tell)


def reached(tx: Transaction, event_id: int, viewer: HookViewer) -> int:
    """How many of the hooks that the viewer sees get an event that was fanned out."""
    apps: Counter[tuple[int, int | None]] = tx.state.get(_REACHED, Counter())
    if viewer.everything:
        return sum(count for (each, _), count in apps.items() if each == event_id)
    return apps[event_id, viewer.app_id]


async def fan_out_about(tx: Transaction, event: Event, app_id: int | None) -> None:
    """Send an event about a hook, appended with `to_hooks=False`. It shows the hook, so it goes only to hooks of the
    same app. `app_id`: the hook's."""
    rows = await tx.fetch_all(_listening, {"account_id": event.account_id, "repository_id": event.repository_id})
    fitting = [row["id"] for row in rows if row["app_id"] == app_id and wants(json.decode(row["events"]), event.name)]
    await insert_dispatches(tx, [(event.id, hook_id) for hook_id in fitting])


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
