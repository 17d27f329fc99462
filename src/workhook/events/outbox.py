"""How a change becomes an event: `append` inside the change's own transaction.

Whoever turns events into deliveries subscribes a fan-out; it runs in the same transaction, before the commit, once for
all events of the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events import order
from workhook.events.tables import events
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.signals import EVENTS
from workhook.storage.statements import PerDialect


class Event(msgspec.Struct, frozen=True):
    """An event of the open transaction."""

    id: int
    account_id: int
    repository_id: int | None
    name: str
    action: str | None


FanOut = Callable[[Transaction, Sequence[Event]], Awaitable[Mapping[int, int]]]
"""Answers how many deliveries each event (by id) will have."""

_COLUMNS = (
    "account_id", "repository_id", "name", "action", "payload", "size", "created_at", "actor_id", "listed",
)  # fmt: skip
_insert = PerDialect(
    sqlite=insert_into(events, *_COLUMNS).returning(events.c.id),
    postgresql=insert_into(events, *_COLUMNS).values(id=order.numbered).returning(events.c.id),
)
_subscribers: list[FanOut] = []
_PENDING = object()
_REPOSITORIES = object()
_ABOUT_HOOKS = frozenset({"hook", "ping"})  # they show a hook's settings, which are the admins' alone


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
    actor_id: int | None = None,
    to_hooks: bool = True,
) -> Event:
    """Record that something happened. `actor_id` is the account that did it.

    `to_hooks` False: the caller decides who gets it (a ping, a test), and it is no part of what happened in the place.
    """
    if not _subscribers:
        raise RuntimeError("No fan-out is subscribed: the event would reach nobody.")
    data = json.encode(payload)
    listed = to_hooks and name not in _ABOUT_HOOKS
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
            "actor_id": actor_id,
            "listed": listed,
        },
    )
    assert row is not None
    if listed and repository_id is not None:
        _tell_listeners(tx, repository_id)
    event = Event(row["id"], account_id, repository_id, name, action)
    if to_hooks:
        pending: list[Event] = tx.state.setdefault(_PENDING, [])
        if not pending:  # none yet, or all fanned out: also for an event that a step before the commit appends
            tx.before_commit(_fan_out)
        pending.append(event)
    return event


def _tell_listeners(tx: Transaction, repository_id: int) -> None:
    """After the commit, whoever follows the repository looks, in this process and in others."""
    repositories: set[int] = tx.state.setdefault(_REPOSITORIES, set())
    if not repositories:
        signals = tx.signals
        tx.after_commit(lambda: signals.send(EVENTS, repositories))
    repositories.add(repository_id)


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
