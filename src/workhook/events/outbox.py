"""How a change becomes an event: `append` inside the change's own transaction.

Whoever turns events into deliveries subscribes a fan-out; it runs in the same transaction, before the commit, once for
all events of the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events.tables import events
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into


class Event(msgspec.Struct, frozen=True):
    """An event of the open transaction."""

    id: int
    account_id: int
    repository_id: int | None
    name: str
    action: str | None


FanOut = Callable[[Transaction, Sequence[Event]], Awaitable[Mapping[int, int]]]
"""Answers how many deliveries each event (by id) will have."""

_insert = insert_into(
    events, "account_id", "repository_id", "name", "action", "payload", "size", "created_at"
).returning(events.c.id)
_subscribers: list[FanOut] = []
_PENDING = object()


def subscribe(fan_out: FanOut) -> None:
    """Called by `bootstrap`; subscribing twice is once."""
    if fan_out not in _subscribers:
        _subscribers.append(fan_out)


async def append(
    tx: Transaction,
    *,
    account_id: int,
    repository_id: int | None,
    name: str,
    action: str | None,
    payload: Mapping[str, object],
    to_hooks: bool = True,
) -> Event:
    """Record that something happened. `to_hooks` False: the caller decides who gets it (a ping, a test)."""
    if not _subscribers:
        raise RuntimeError("No fan-out is subscribed: the event would reach nobody.")
    data = json.encode(payload)
    row = await tx.fetch_one(
        _insert,
        {
            "account_id": account_id,
            "repository_id": repository_id,
            "name": name,
            "action": action,
            "payload": data,
            "size": len(data),
            "created_at": now_ms(),
        },
    )
    assert row is not None
    event = Event(row["id"], account_id, repository_id, name, action)
    if to_hooks:
        pending: list[Event] = tx.state.setdefault(_PENDING, [])
        if not pending:  # none yet, or all fanned out: also for an event that a step before the commit appends
            tx.before_commit(_fan_out)
        pending.append(event)
    return event


async def fan_out_now(tx: Transaction) -> Mapping[int, int]:
    """Fan out what was appended so far, for a caller that answers with the number of deliveries (event id → number)."""
    pending: list[Event] = tx.state.get(_PENDING, [])
    if not pending:
        return {}
    tx.state[_PENDING] = []
    counts: dict[int, int] = {}
    for subscriber in _subscribers:
        for event_id, count in (await subscriber(tx, pending)).items():
            counts[event_id] = counts.get(event_id, 0) + count
    return counts


async def _fan_out(tx: Transaction) -> None:
    await fan_out_now(tx)
