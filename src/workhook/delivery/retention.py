"""Purges rows older than the retention period in small batches, so nothing waits for it.

Each run passes over the old rows once in key order, up to the ID of the newest old row, which it reads first. The work
grows linearly with the number of rows, because a batch counts rows read, whether they are kept or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
import structlog

from workhook.core.clock import DAY_MS
from workhook.delivery import metrics
from workhook.events.tables import event_keys, events
from workhook.hooks.tables import arrivals, deliveries, dispatches
from workhook.http.calls import Services
from workhook.storage import Database, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.sweeping import AgedRows, in_order

EVERY_S = 3600.0
BATCH = 1000  # rows read

log = structlog.get_logger(__name__)


class _Way(NamedTuple):
    """A pass over a table.

    `following` selects the `id` and the time (`at`) of at most `limit` rows after the key in its parameters, up to
    `upto`; `first` precedes all rows. `remove` takes `ids`.
    """

    table: sa.Table
    following: sa.Select[Any]
    first: dict[str, int]
    remove: sa.Delete


def _newest(id_: sa.Column[int], at: sa.Column[int]) -> sa.Select[Any]:
    """Select the highest ID of the newest time before `before`, with one probe of the time index.

    IDs nearly follow the times, so a few old rows may have a higher ID; they are removed an hour later.
    """
    return sa.select(id_).where(at < bigint_param("before")).order_by(at.desc(), id_.desc()).limit(_ONE)


def _way(
    table: sa.Table, key: Sequence[sa.Column[int]], at: sa.ColumnElement[int], *conditions: sa.ColumnElement[bool]
) -> _Way:
    # The time is compared in Python, because with a condition, PostgreSQL would read all old rows from the time index.
    columns = {each.name: each for each in (table.c.id, *key)}
    following = (
        sa.select(*columns.values(), at.label("at"))
        .where(sa.tuple_(*key) > sa.tuple_(*(bigint_param(each.name) for each in key)), key[0] <= bigint_param("upto"))
        .order_by(*key)
        .limit(bigint_param("limit"))
    )
    remove = sa.delete(table).where(any_of(table.c.id, "ids"), *conditions)
    return _Way(table, following, {each.name: 0 for each in key}, remove)


_ONE: sa.ColumnElement[int] = sa.literal_column("1", sa.Integer())
# Scalar subqueries, not joins, so that the few rows are found by index regardless of the planner's statistics.
_event_created_at = sa.select(events.c.created_at).where(events.c.id == dispatches.c.event_id).scalar_subquery()
_shown = sa.select(deliveries.c.id).where(deliveries.c.guid == dispatches.c.guid).limit(_ONE).scalar_subquery()
_sent = sa.select(dispatches.c.id).where(dispatches.c.event_id == events.c.id).limit(_ONE).scalar_subquery()

_newest_delivery = _newest(deliveries.c.id, deliveries.c.delivered_at)
_newest_arrival = _newest(arrivals.c.id, arrivals.c.arrived_at)
_newest_event = _newest(events.c.id, events.c.created_at)
_old_arrivals = _way(arrivals, [arrivals.c.id], arrivals.c.arrived_at)
_old_deliveries = _way(deliveries, [deliveries.c.id], deliveries.c.delivered_at)
# Due dispatches are kept. The condition is on the row itself, because a redelivery may have changed it meanwhile.
_old_dispatches = _way(
    dispatches,
    [dispatches.c.event_id, dispatches.c.hook_id],
    _event_created_at,
    dispatches.c.next_attempt_at.is_(None),
    _shown.is_(None),
)
_old_events = _way(events, [events.c.id], events.c.created_at, _sent.is_(None))

_keys_by_age = AgedRows(event_keys.c.created_at, event_keys.c.scope, event_keys.c.key)


async def prune(database: Database, before: int, now: int) -> dict[str, int]:
    """Remove rows created before `before` (milliseconds), and publishers' IDs after a day. Returns counts by table."""
    delivery, event = await _bound(database, _newest_delivery, before), await _bound(database, _newest_event, before)
    arrival = await _bound(database, _newest_arrival, before)
    # Deliveries, then dispatches, then events: an event with a pending attempt is kept, however old it is.
    removed = {
        "deliveries": await _remove(database, _old_deliveries, before, delivery),
        "dispatches": await _remove(database, _old_dispatches, before, event),
        "events": await _remove(database, _old_events, before, event),
        "arrivals": await _remove(database, _old_arrivals, before, arrival),
        "event_keys": await _keys_by_age.delete(database, now - DAY_MS, BATCH),
    }
    metrics.PRUNED.labels("event_keys").inc(removed["event_keys"])
    return removed


async def prune_old(services: Services, now: int) -> int:
    """Remove rows older than the retention period. Runs as a chore; several processes may run it at once."""
    removed = await prune(services.database, now - services.settings.retention_days * DAY_MS, now)
    if any(removed.values()):
        log.info("pruned", **removed)
    return sum(removed.values())


async def _bound(database: Database, newest: sa.Select[Any], before: int) -> int:
    row = await database.fetch_one(newest, {"before": before})
    return row["id"] if row else 0


async def _remove(database: Database, way: _Way, before: int, upto: int) -> int:
    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        behind = way.first if last is None else {name: last[name] for name in way.first}
        return await database.fetch_all(way.following, {**behind, "upto": upto, "limit": limit})

    async def remove(last: Row | None, rows: Sequence[Row]) -> int:
        old = [row["id"] for row in rows if row["at"] is not None and row["at"] < before]
        if not old:
            return 0
        count = await database.in_transaction(lambda tx: tx.execute(way.remove, {"ids": old}))
        metrics.PRUNED.labels(way.table.name).inc(count)
        return count

    return await in_order(way.table.name, BATCH, following, remove)
