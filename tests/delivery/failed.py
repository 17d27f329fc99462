"""Two webhooks with many failed deliveries."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events.tables import events
from workhook.hooks import redelivery
from workhook.hooks.tables import deliveries, dispatches, hooks, lanes
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into

EVENTS = 2 * redelivery.BATCH + 500
"""Events per webhook. Each was attempted twice; every tenth also has a successful third attempt."""

HOOK, OTHER = 1, 2


def _columns(table: sa.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


async def fill(tx: Transaction, account_id: int, url: str = "http://x/") -> None:
    """Insert two webhooks whose events failed twice. Every tenth event succeeded at the third attempt."""
    now = now_ms()
    nothing = dict.fromkeys(_columns(hooks))
    await tx.execute_many(
        insert_into(hooks, *_columns(hooks)),
        [
            {**nothing, "id": hook, "account_id": account_id, "active": True, "events": '["push"]',
             "config": json.encode_text({"url": url, "retries": "0"}), "version": 1, "created_at": now,
             "updated_at": now}
            for hook in (HOOK, OTHER)
        ],
    )  # fmt: skip
    lane = {"failing_since": None, "manual_minute": 0, "manual_count": 0}
    await tx.execute_many(insert_into(lanes, *_columns(lanes)), [{"hook_id": hook, **lane} for hook in (HOOK, OTHER)])
    numbers = [(hook, EVENTS * hook + n) for hook in (HOOK, OTHER) for n in range(EVENTS)]
    guids = {number: new_guid() for _, number in numbers}
    await tx.execute_many(
        insert_into(events, *_columns(events)),
        [
            {"id": number, "account_id": account_id, "repository_id": None, "name": "push", "action": None,
             "payload": b"{}", "size": 2, "created_at": now, "actor_id": None, "installation_id": None, "listed": True,
             "published": False, "traceparent": None}
            for _, number in numbers
        ],
    )  # fmt: skip
    await tx.execute_many(
        insert_into(dispatches, *_columns(dispatches)),
        [
            {"id": number, "event_id": number, "hook_id": hook, "guid": guids[number], "attempts": 2, "retries": 1,
             "wanted": 0, "next_attempt_at": None, "created_at": now}
            for hook, number in numbers
        ],
    )  # fmt: skip
    await tx.execute_many(
        insert_into(deliveries, *_columns(deliveries)),
        [
            {"id": attempt * 10 * EVENTS + number, "dispatch_id": number, "hook_id": hook, "event_id": number,
             "repository_id": None, "installation_id": None, "guid": guids[number], "event": "push", "action": None,
             "delivered_at": now, "throttled_at": None, "duration_ms": 1, "redelivery": attempt > 1,
             "status": "x", "status_code": 200 if attempt == 3 else 500, "url": "http://x/", "request_headers": b"{}",
             "response_headers": b"{}", "response_body": b"", "recorded_at": None}
            for attempt in (1, 2, 3)
            for hook, number in numbers
            if attempt < 3 or number % 10 == 3
        ],
    )  # fmt: skip
