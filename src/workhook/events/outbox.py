"""Turns changes into events, inside the transaction of the change: `add`, or `append` if the caller needs the id.

What turns events into deliveries subscribes a fan-out. It runs in the same transaction, before the commit, once for all
events of the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.core import json, tracing
from workhook.core.clock import now_ms
from workhook.events import order
from workhook.events.tables import events
from workhook.storage import Transaction
from workhook.storage.dialects import arrays
from workhook.storage.metadata import insert_into
from workhook.storage.signals import EVENTS
from workhook.storage.statements import PerDialect, hot


class Event(msgspec.Struct, frozen=True):
    """An event of the open transaction."""

    id: int
    account_id: int
    repository_id: int | None
    name: str
    action: str | None


class Draft(msgspec.Struct, frozen=True):
    """A future event. `actor_id`: the account that did it; `installation_id`: of the app through which it did it;
    `published`: it was not seen here, but told by somebody who may publish."""

    account_id: int
    repository_id: int | None
    name: str
    action: str | None
    payload: Mapping[str, object]
    actor_id: int | None = None
    installation_id: int | None = None
    published: bool = False


_Added = tuple[Draft, Mapping[str, object]]  # with its row

FanOut = Callable[[Transaction, Sequence[Event]], Awaitable[None]]
"""Makes deliveries of events.

Either all events are `UNNUMBERED` or none is. Unnumbered events are the last of their transaction, and their insert is
deferred: what is deferred with them (`tx.defer`, `tx.defer_fetch`) runs in the same statement and finds them in
`WRITTEN`."""

Watcher = Callable[[Transaction, Draft, int], None]
"""Called with each event at once, and with the size of its payload in bytes. It may add a step before the commit that
raises, which rolls the transaction back."""

UNNUMBERED = 0
"""The id of an event that is not inserted yet."""

COLUMNS = (
    "account_id", "repository_id", "name", "action", "payload", "size", "created_at", "actor_id", "installation_id",
    "listed", "published", "traceparent",
)  # fmt: skip
_insert = PerDialect(
    sqlite=insert_into(events, *COLUMNS).returning(events.c.id),
    postgresql=insert_into(events, *COLUMNS).values(id=order.numbered).returning(events.c.id),
)
_TYPES = {column: events.c[column].type for column in COLUMNS}


def _insert_many() -> sa.Insert:
    added = arrays("added", _TYPES)
    in_order = sa.select(*(added.c[name] for name in COLUMNS)).order_by(added.c.n).subquery("in_order")
    return sa.insert(events).from_select(
        ["id", *COLUMNS], sa.select(order.number_in(in_order.c.repository_id), *in_order.c)
    )


insert_many = _insert_many().returning(events.c.id, events.c.name, events.c.account_id, events.c.repository_id)
"""Inserts any number of events in order, on PostgreSQL. Its parameters are made by `insert_many_params`."""
_insert_along = hot(PerDialect(sqlite=insert_into(events, *COLUMNS), postgresql=insert_many))
_insert_numbered = insert_into(events, "id", *COLUMNS)
_AT_ONCE = 500  # events that are encoded and inserted together
_subscribers: list[FanOut] = []
_watchers: list[Watcher] = []
_PENDING = object()
_ADDED = object()
_AWAITED = object()
_REPOSITORIES = object()
ABOUT_HOOKS = frozenset({"hook", "ping"})  # they show a hook's settings, which only admins may see


WRITTEN = sa.table(
    "written", *(sa.column(name, events.c[name].type) for name in ("id", "name", "account_id", "repository_id"))
)
"""On PostgreSQL, the events inserted by the same statement. On SQLite the last one's id is `order.last_given`."""


def subscribe(fan_out: FanOut) -> None:
    """Add a fan-out, behind the others. Subscribing twice has no effect."""
    if fan_out not in _subscribers:
        _subscribers.append(fan_out)


def watch(watcher: Watcher) -> None:
    """Add a watcher. Watching twice has no effect."""
    if watcher not in _watchers:
        _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Remove a watcher."""
    if watcher in _watchers:
        _watchers.remove(watcher)


def add(tx: Transaction, drafts: Sequence[Draft]) -> None:
    """Add events, in this order, and deliver them to hooks. They are inserted at the end of the transaction, or before
    anything else is appended."""
    added: list[_Added] = tx.state.setdefault(_ADDED, [])
    for draft in drafts:
        listed = draft.name not in ABOUT_HOOKS
        added.append((draft, _values(tx, draft, listed=listed)))
        if listed:
            _signal_listeners(tx, draft)
    if drafts:
        _await_fan_out(tx)


async def append(tx: Transaction, draft: Draft, *, to_hooks: bool = True) -> Event:
    """Insert an event now, for callers that need its id.

    `to_hooks` False: the caller sends it (a ping, a test), and it is not listed among what happened in the repository.
    """
    await _write_added(tx)
    listed = to_hooks and draft.name not in ABOUT_HOOKS
    event = await _insert_one(tx, draft, _values(tx, draft, listed=listed))
    if listed:
        _signal_listeners(tx, draft)
    if to_hooks:
        _await_fan_out(tx, [event])
    return event


async def _insert_one(tx: Transaction, draft: Draft, values: Mapping[str, object]) -> Event:
    row = await tx.fetch_one(_insert, values)
    assert row is not None
    return _event_of(draft, row["id"])


async def _write_added(tx: Transaction) -> None:
    """Insert what was added, in few statements, and queue it for the fan-out."""
    added: list[_Added] = tx.state.pop(_ADDED, [])
    appended: list[Event] = []
    if len(added) == 1:  # its id comes with its row: one statement less
        appended = [await _insert_one(tx, *added[0])]
    else:
        for start in range(0, len(added), _AT_ONCE):
            some = added[start : start + _AT_ONCE]
            numbers = await order.reserve(tx, [draft.repository_id for draft, _ in some])
            rows = [{"id": number, **values} for number, (_, values) in zip(numbers, some, strict=True)]
            tx.defer(_insert_numbered, rows)
            appended += [_event_of(draft, number) for number, (draft, _) in zip(numbers, some, strict=True)]
    if appended:
        _await_fan_out(tx, appended)


def is_watched() -> bool:
    """Whether something may refuse an event before it is committed."""
    return bool(_watchers)


def row_of(draft: Draft) -> dict[str, object]:
    """The columns of a listed event, without its id."""
    return _row_of(draft, json.encode(draft.payload), listed=draft.name not in ABOUT_HOOKS)


def insert_many_params(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The parameters of `insert_many` for these rows."""
    return {f"added_{name}": [row[name] for row in rows] for name in COLUMNS}


def _values(tx: Transaction, draft: Draft, *, listed: bool) -> dict[str, object]:
    if not _subscribers:
        raise RuntimeError("No fan-out is subscribed: the event would not be delivered.")
    data = json.encode(draft.payload)
    for watcher in _watchers:
        watcher(tx, draft, len(data))
    return _row_of(draft, data, listed=listed)


def _row_of(draft: Draft, payload: bytes, *, listed: bool) -> dict[str, object]:
    what = (draft.account_id, draft.repository_id, draft.name, draft.action, payload, len(payload), now_ms())
    who = (draft.actor_id, draft.installation_id)
    return dict(zip(COLUMNS, (*what, *who, listed, draft.published, tracing.current()), strict=True))


def _event_of(draft: Draft, number: int) -> Event:
    return Event(number, draft.account_id, draft.repository_id, draft.name, draft.action)


def _await_fan_out(tx: Transaction, appended: Sequence[Event] = ()) -> None:
    tx.state.setdefault(_PENDING, []).extend(appended)
    if not tx.state.get(_AWAITED):  # none is queued, or it has begun: a step before the commit may append as well
        tx.state[_AWAITED] = True
        tx.before_commit(_fan_out)


def _signal_listeners(tx: Transaction, draft: Draft) -> None:
    """After the commit, signal the repository's listeners, in this process and in others."""
    repositories: set[int] = tx.state.setdefault(_REPOSITORIES, set())
    if draft.repository_id is None:
        return
    if not repositories:
        tx.signal(EVENTS, repositories)
    repositories.add(draft.repository_id)


async def fan_out_now(tx: Transaction) -> list[int]:
    """Fan out what was appended so far; return the ids of these events."""
    await _write_added(tx)
    pending: list[Event] = tx.state.get(_PENDING, [])
    tx.state[_PENDING] = []
    if pending:
        await _deliver(tx, pending)
    return [event.id for event in pending]


async def _deliver(tx: Transaction, pending: Sequence[Event]) -> None:
    for subscriber in _subscribers:
        await subscriber(tx, pending)


async def _fan_out(tx: Transaction) -> None:
    tx.state[_AWAITED] = False
    added: Sequence[_Added] = tx.state.get(_ADDED, ())
    if 0 < len(added) <= _AT_ONCE and tx.is_last_step and not tx.state.get(_PENDING):
        del tx.state[_ADDED]
        rows = [values for _, values in added]
        tx.defer(_insert_along, [insert_many_params(rows)] if tx.dialect == "postgresql" else rows, name=WRITTEN.name)
        await _deliver(tx, [_event_of(draft, UNNUMBERED) for draft, _ in added])
    else:
        await fan_out_now(tx)
