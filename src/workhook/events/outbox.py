"""How a change becomes an event: `append` inside the change's own transaction, `append_many` for many things at once.

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


class Draft(msgspec.Struct, frozen=True):
    """What is to become an event. `actor_id` is the account that did it."""

    account_id: int
    repository_id: int | None
    name: str
    action: str | None
    payload: Mapping[str, object]
    actor_id: int | None = None


FanOut = Callable[[Transaction, Sequence[Event]], Awaitable[Mapping[int, int]]]
"""Answers how many deliveries each event (by id) will have."""

_COLUMNS = (
    "account_id", "repository_id", "name", "action", "payload", "size", "created_at", "actor_id", "listed",
)  # fmt: skip
_insert = PerDialect(
    sqlite=insert_into(events, *_COLUMNS).returning(events.c.id),
    postgresql=insert_into(events, *_COLUMNS).values(id=order.numbered).returning(events.c.id),
)
_insert_numbered = insert_into(events, "id", *_COLUMNS)
_AT_ONCE = 500  # events that are made bytes of and inserted together
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
    draft = Draft(account_id, repository_id, name, action, payload, actor_id)
    listed = to_hooks and name not in _ABOUT_HOOKS
    row = await tx.fetch_one(_insert, _values(draft, listed=listed))
    assert row is not None
    event = _event_of(draft, row["id"])
    if listed:
        _tell_listeners(tx, [event])
    if to_hooks:
        _await_fan_out(tx, [event])
    return event


async def append_many(tx: Transaction, drafts: Sequence[Draft]) -> list[Event]:
    """`append` for each, in their order, in few statements however many they are. Their hooks get them."""
    if len(drafts) == 1:  # its number comes with its row: one statement less
        return [await append(tx, **msgspec.structs.asdict(drafts[0]))]
    appended: list[Event] = []
    for start in range(0, len(drafts), _AT_ONCE):
        some = drafts[start : start + _AT_ONCE]
        numbers = await order.reserve(tx, [each.repository_id for each in some])
        rows = [
            {"id": number, **_values(each, listed=each.name not in _ABOUT_HOOKS)}
            for number, each in zip(numbers, some, strict=True)
        ]
        await tx.execute_many(_insert_numbered, rows)
        appended += [_event_of(each, number) for number, each in zip(numbers, some, strict=True)]
    _tell_listeners(tx, [each for each in appended if each.name not in _ABOUT_HOOKS])
    _await_fan_out(tx, appended)
    return appended


def _values(draft: Draft, *, listed: bool) -> dict[str, object]:
    if not _subscribers:
        raise RuntimeError("No fan-out is subscribed: the event would reach nobody.")
    data = json.encode(draft.payload)
    return {
        "account_id": draft.account_id,
        "repository_id": draft.repository_id,
        "name": draft.name,
        "action": draft.action,
        "payload": data,
        "size": len(data),
        "created_at": now_ms(),
        "actor_id": draft.actor_id,
        "listed": listed,
    }


def _event_of(draft: Draft, number: int) -> Event:
    return Event(number, draft.account_id, draft.repository_id, draft.name, draft.action)


def _await_fan_out(tx: Transaction, appended: Sequence[Event]) -> None:
    pending: list[Event] = tx.state.setdefault(_PENDING, [])
    if not pending and appended:  # none yet, or all fanned out: also for one that a step before the commit appends
        tx.before_commit(_fan_out)
    pending += appended


def _tell_listeners(tx: Transaction, appended: Sequence[Event]) -> None:
    """After the commit, whoever follows the repositories looks, in this process and in others."""
    changed = {each.repository_id for each in appended if each.repository_id is not None}
    repositories: set[int] = tx.state.setdefault(_REPOSITORIES, set())
    if changed and not repositories:
        signals = tx.signals
        tx.after_commit(lambda: signals.send(EVENTS, repositories))
    repositories |= changed


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
