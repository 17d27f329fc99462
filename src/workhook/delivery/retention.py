"""Removes what is older than the retention, in small batches, so that nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import sqlalchemy as sa
import structlog

from workhook.core.clock import DAY_MS, now_ms
from workhook.delivery import metrics
from workhook.events.tables import event_keys, events
from workhook.hooks.tables import deliveries, dispatches
from workhook.storage import Database
from workhook.storage.metadata import big
from workhook.storage.sweeping import in_batches

INTERVAL_S = 3600.0
BATCH = 1000

log = structlog.get_logger(__name__)


def _oldest(column: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(column).where(*conditions).limit(big("limit")).offset(big("offset"))


# The same tables once more, to choose rows of them.
_delivery, _dispatch, _event, _event_key = [
    table.alias(f"old_{table.name}") for table in (deliveries, dispatches, events, event_keys)
]
# Deliveries, then dispatches, then events: an event behind a pending attempt is kept, however old it is.
_STEPS: dict[str, sa.Delete] = {
    "deliveries": sa.delete(deliveries).where(
        deliveries.c.id.in_(_oldest(_delivery.c.id, _delivery.c.delivered_at < big("before")))
    ),
    "dispatches": sa.delete(dispatches).where(
        # Once more, of the row itself: a redelivery that was asked for while this waited for the row keeps it.
        dispatches.c.next_attempt_at.is_(None),
        dispatches.c.id.in_(
            _oldest(
                _dispatch.c.id,
                _dispatch.c.next_attempt_at.is_(None),
                _dispatch.c.event_id.in_(sa.select(events.c.id).where(events.c.created_at < big("before"))),
                ~sa.exists().where(deliveries.c.guid == _dispatch.c.guid),
            )
        ),
    ),
    "events": sa.delete(events).where(
        events.c.id.in_(
            _oldest(
                _event.c.id,
                _event.c.created_at < big("before"),
                ~sa.exists().where(dispatches.c.event_id == _event.c.id),
            )
        )
    ),
}
_keys = sa.tuple_(event_keys.c.scope, event_keys.c.key)
_old_keys = sa.select(_event_key.c.scope, _event_key.c.key).where(_event_key.c.created_at < big("before"))
_forget_keys = sa.delete(event_keys).where(_keys.in_(_old_keys.limit(big("limit")).offset(big("offset"))))


async def prune(database: Database, before: int, now: int) -> dict[str, int]:
    """Remove what was created before `before` (milliseconds); publishers' ids after a day. Answers rows by table."""
    removed = {table: await _remove(database, table, statement, before) for table, statement in _STEPS.items()}
    removed["event_keys"] = await _remove(database, "event_keys", _forget_keys, now - DAY_MS)
    return removed


async def _remove(database: Database, table: str, statement: sa.Delete, before: int) -> int:
    async def some(limit: int, offset: int) -> int:
        params = {"before": before, "limit": limit, "offset": offset}
        count = await database.in_transaction(lambda tx: tx.execute(statement, params))
        metrics.PRUNED.labels(table).inc(count)
        return count

    return await in_batches(table, BATCH, some)


class Retention:
    """Prunes at the start and then every hour. Two processes at it at once do no harm."""

    def __init__(self, database: Database, days: int) -> None:
        self._database = database
        self._keep_ms = days * DAY_MS
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retention")

    async def _run(self) -> None:
        while True:
            try:
                removed = await prune(self._database, now_ms() - self._keep_ms, now_ms())
                if any(removed.values()):
                    log.info("pruned", **removed)
            except Exception:
                metrics.TROUBLE.labels("retention").inc()
                log.exception("retention_failed")
            await asyncio.sleep(INTERVAL_S)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
