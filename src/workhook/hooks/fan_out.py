"""Inserts a dispatch per matching hook, in the transaction of the change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events.outbox import Event
from workhook.hooks.match import matching
from workhook.hooks.tables import dispatches, hooks
from workhook.storage import Transaction
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import DUE

_listening = sa.select(hooks.c.id, hooks.c.events).where(
    hooks.c.active,
    sa.or_(
        hooks.c.repository_id == big("repository_id"),
        sa.and_(hooks.c.repository_id.is_(None), hooks.c.account_id == big("account_id")),
    ),
)
_insert = insert_into(
    dispatches, "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at"
)


async def fan_out(tx: Transaction, events: Sequence[Event]) -> Mapping[int, int]:
    """An `outbox.FanOut`: the number of deliveries by event id."""
    by_place: dict[tuple[int, int | None], list[Event]] = defaultdict(list)
    for event in events:
        by_place[event.account_id, event.repository_id].append(event)
    pairs: list[tuple[int, int]] = []
    for (account_id, repository_id), there in by_place.items():
        rows = await tx.fetch_all(_listening, {"account_id": account_id, "repository_id": repository_id})
        listening = [(row["id"], json.decode(row["events"])) for row in rows]
        pairs += [(event.id, hook_id) for event in there for hook_id in matching(listening, event.name)]
    await insert_dispatches(tx, pairs)
    counts: dict[int, int] = dict.fromkeys((event.id for event in events), 0)
    for event_id, _ in pairs:
        counts[event_id] += 1
    return counts


async def insert_dispatches(tx: Transaction, pairs: Sequence[tuple[int, int]], *, by_hand: bool = False) -> None:
    """Make each (event, hook) due now, and wake whoever delivers once it is committed.

    `by_hand`: somebody asked for just this one, so that it is sent even if the hook is off.
    """
    if not pairs:
        return
    now = now_ms()
    await tx.execute_many(
        _insert,
        [
            {
                "event_id": event_id,
                "hook_id": hook_id,
                "guid": new_guid(),
                "attempts": 0,
                "retries": 0,
                "wanted": int(by_hand),
                "next_attempt_at": now,
                "created_at": now,
            }
            for event_id, hook_id in pairs
        ],
    )
    wake(tx, {hook_id for _, hook_id in pairs})


def wake(tx: Transaction, hook_ids: set[int]) -> None:
    """After the commit, tell the workers that these hooks have something due."""
    signals = tx.signals
    tx.after_commit(lambda: signals.send(DUE, hook_ids))
