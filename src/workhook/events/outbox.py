"""Turns changes into events, within the transaction of the change.

`add` queues events. Before the commit, one statement inserts them together with the rows that subscribers derive from
them: the dispatches to webhooks and the entry in the audit log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from workhook.core import json, tracing
from workhook.core.clock import now_ms
from workhook.events import order
from workhook.events.payloads import to_stored
from workhook.events.tables import events
from workhook.storage import Transaction
from workhook.storage.dialects import arrays
from workhook.storage.metadata import insert_into
from workhook.storage.signals import EVENTS
from workhook.storage.statements import PerDialect, hot


class Draft(msgspec.Struct, frozen=True):
    """An event to be inserted. `actor_id` is the account that caused it.

    `installation_id` is that of the app it acted through, and `published` means that a publisher reported the event.
    """

    account_id: int
    repository_id: int | None
    name: str
    action: str | None
    payload: Mapping[str, object]
    actor_id: int | None = None
    installation_id: int | None = None
    published: bool = False


class Outbox:
    """The events of one transaction that are not inserted yet."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Draft, Mapping[str, object]]] = []  # with their rows
        self.is_queued = False  # a step before the commit will send them
        self.repositories: set[int] = set()  # listeners of these are signaled after the commit


F = TypeVar("F")


class Subscribers(list[F]):
    """Functions to call, in the order of subscription."""

    def subscribe(self, function: F) -> None:
        """Subscribe a function. Subscribing it twice has no effect."""
        if function not in self:
            self.append(function)


FanOut = Callable[[Transaction, Sequence[Draft]], Awaitable[None]]
"""Processes events whose insert is deferred.

Statements deferred with the insert (`tx.defer`, `tx.defer_fetch`) run in the same statement and find the events in
`WRITTEN`.
"""

Watcher = Callable[[Transaction, Draft, int], None]
"""Called immediately with each event and the size of its payload in bytes.

May register a check that runs before the commit and can abort it.
"""

AT_ONCE = 500  # events per statement, so that a large change stays below PostgreSQL's size limit

COLUMNS = (
    "account_id", "repository_id", "name", "action", "payload", "size", "created_at", "actor_id", "installation_id",
    "listed", "published", "traceparent",
)  # fmt: skip


_added = arrays("added", {column: events.c[column].type for column in COLUMNS})
_in_order = sa.select(*(_added.c[name] for name in COLUMNS)).order_by(_added.c.n).subquery("in_order")
_numbered = sa.select(order.number_in(_in_order.c.repository_id), *_in_order.c)
_written = (events.c.id, events.c.name, events.c.account_id, events.c.repository_id)
WRITTEN = sa.table("written", *(sa.column(each.name, each.type) for each in _written))
"""On PostgreSQL, the events inserted by the same statement. On SQLite the last one's ID is `order.last_given`."""
_insert = hot(
    PerDialect(
        sqlite=insert_into(events, *COLUMNS).returning(events.c.id),
        postgresql=sa.insert(events).from_select(["id", *COLUMNS], _numbered).returning(*_written),
    )
)
fan_outs = Subscribers[FanOut]()
watchers = Subscribers[Watcher]()
ABOUT_HOOKS = frozenset({"hook", "ping"})  # they show a webhook's settings, which only admins may see


def add(tx: Transaction, drafts: Sequence[Draft]) -> None:
    """Add events in this order and deliver them to webhooks.

    They are inserted at the end of the transaction, or before anything else is appended.
    """
    outbox = tx.get_local(Outbox)
    for draft in drafts:
        listed = draft.name not in ABOUT_HOOKS
        outbox.waiting.append((draft, _watched_row(tx, draft, listed=listed)))
        if listed and draft.repository_id is not None:
            if not outbox.repositories:
                tx.signal(EVENTS, outbox.repositories)
            outbox.repositories.add(draft.repository_id)
    if drafts and not outbox.is_queued:
        outbox.is_queued = True
        tx.before_commit(send)


async def append(tx: Transaction, draft: Draft) -> int:
    """Insert an event immediately and return its ID.

    The caller delivers it (a ping, a test). It is not fanned out, and the activity does not list it.
    """
    await send(tx)
    row = await tx.fetch_row(_insert, _insert_params(tx, [_watched_row(tx, draft, listed=False)])[0])
    number: int = row["id"]
    return number


async def send(tx: Transaction) -> None:
    """Insert and fan out the added events with the next statement of the transaction."""
    outbox = tx.get_local(Outbox)
    waiting, outbox.waiting, outbox.is_queued = outbox.waiting, [], False
    for start in range(0, len(waiting), AT_ONCE):
        some = waiting[start : start + AT_ONCE]
        if tx.deferred_read is not None:  # of an earlier call
            await tx.flush()
        insert(tx, [row for _, row in some])
        for fan_out in fan_outs:
            await fan_out(tx, [draft for draft, _ in some])


def insert(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of `row_of` with the next statement of the transaction, which finds the events in `WRITTEN`."""
    tx.defer(_insert, _insert_params(tx, rows), name=WRITTEN.name)


def _insert_params(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    rows = [{**row, "payload": to_stored(row["name"], row["payload"])} for row in rows]
    # PostgreSQL inserts all rows at once.
    return [{f"added_{name}": [row[name] for row in rows] for name in COLUMNS}] if tx.dialect == "postgresql" else rows


def row_of(draft: Draft, *, listed: bool | None = None) -> dict[str, Any]:
    """Return the columns of an event, without its ID.

    With `listed` None, all events except those about webhooks are listed.
    """
    payload = json.encode(draft.payload)
    columns = (draft.account_id, draft.repository_id, draft.name, draft.action, payload, len(payload), now_ms())
    who = (draft.actor_id, draft.installation_id)
    listed = draft.name not in ABOUT_HOOKS if listed is None else listed
    return dict(zip(COLUMNS, (*columns, *who, listed, draft.published, tracing.current()), strict=True))


def _watched_row(tx: Transaction, draft: Draft, *, listed: bool) -> dict[str, Any]:
    if not fan_outs:
        raise RuntimeError("No fan-out is subscribed: the event would not be delivered.")
    row = row_of(draft, listed=listed)
    for watcher in watchers:
        watcher(tx, draft, row["size"])
    return row
