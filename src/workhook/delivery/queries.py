"""The SQL of delivery: due dispatches, hooks and outcomes. The SQL of processes is in `lane_assignment`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from workhook.events.payloads import from_stored
from workhook.events.tables import events
from workhook.hooks.tables import deliveries, dispatches, hooks, lanes, workers
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.dialects import any_of, arrays, join_by_key, join_few
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.statements import PerDialect, hot

# --- due dispatches --------------------------------------------------------------------------------------------------


def _pending() -> sa.Select[Any]:
    """Select a page of the hooks with work, each with its earliest due time, by one index probe per hook."""
    first, later, due = dispatches.alias("first"), dispatches.alias("later"), dispatches.alias("due")
    walk = (
        sa.select(sa.func.min(first.c.hook_id).label("hook_id"), sa.literal_column("1", sa.Integer).label("number"))
        .where(first.c.next_attempt_at.is_not(None), first.c.hook_id > bigint_param("after"))
        .cte("walk", recursive=True)
    )
    following = (
        sa.select(sa.func.min(later.c.hook_id))
        .where(later.c.next_attempt_at.is_not(None), later.c.hook_id > walk.c.hook_id)
        .scalar_subquery()
    )
    more = sa.and_(walk.c.hook_id.is_not(None), walk.c.number < bigint_param("limit"))
    walk = walk.union_all(sa.select(following, walk.c.number + sa.literal_column("1", sa.Integer)).where(more))
    earliest = (
        sa.select(sa.func.min(due.c.next_attempt_at))
        .where(due.c.hook_id == walk.c.hook_id, due.c.next_attempt_at.is_not(None))
        .scalar_subquery()
    )
    return sa.select(walk.c.hook_id, earliest.label("due_at")).where(walk.c.hook_id.is_not(None))


_WORK = ("id", "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at")
_OF_EVENT = ("action", "repository_id", "installation_id", "size", "traceparent")


def _each_lane(dialect: str, *, since: bool = False) -> tuple[Any, ...]:
    """Return the lanes, their IDs and, on PostgreSQL with `since`, their start times.

    Without these, PostgreSQL would scan completed dispatches, whose index entries it keeps during a long read.
    """
    if dialect == "sqlite":
        each = sa.func.json_each(sa.bindparam("hook_ids", type_=sa.Text)).table_valued("value", name="lane")
        return each, each.c.value
    columns = {"hook_id": sa.bindparam("hook_ids", type_=sa.ARRAY(sa.Integer))}
    if since:
        columns["since"] = sa.bindparam("since", type_=sa.ARRAY(sa.BigInteger))
    each = sa.func.unnest(*columns.values()).table_valued(*columns, name="lane").render_derived()
    return each, *each.c


def _due(dialect: str) -> sa.Select[Any]:
    """Select the next dispatches of each of the given hooks, earliest due first, except those already in memory."""
    inner = dispatches.alias("inner_dispatches")
    each, hook_id, *since = _each_lane(dialect, since=True)
    top = (
        sa.select(*(inner.c[name] for name in _WORK))
        .where(
            inner.c.hook_id == hook_id,
            *(inner.c.next_attempt_at >= each for each in since),
            inner.c.next_attempt_at <= bigint_param("now"),
            any_of(inner.c.id, "busy", negate=True),
        )
        .order_by(inner.c.next_attempt_at, inner.c.id)
        .limit(bigint_param("per_lane"))
        .correlate(each)
    )
    joined, few = join_few(dialect, each, top, dispatches)
    joined, event = join_by_key(dialect, joined, events, few.c.event_id, ("name", *_OF_EVENT))
    joined, hook = join_by_key(dialect, joined, hooks, few.c.hook_id, ("version",))
    return (
        sa.select(
            *(few.c[name] for name in _WORK),
            event.c.name.label("event"),
            *(event.c[name] for name in _OF_EVENT),
            hook.c.version,
        )
        .select_from(joined)
        .order_by(few.c.next_attempt_at, few.c.id)
    )


def _later(dialect: str) -> sa.Select[Any]:
    """Select the next due times of each of the given hooks."""
    inner = dispatches.alias("inner_dispatches")
    each, hook_id = _each_lane(dialect)
    top = (
        sa.select(inner.c.hook_id, inner.c.next_attempt_at, inner.c.id)
        .where(inner.c.hook_id == hook_id, inner.c.next_attempt_at > bigint_param("now"))
        .order_by(inner.c.next_attempt_at, inner.c.id)
        .limit(bigint_param("per_lane"))
        .correlate(each)
    )
    joined, few = join_few(dialect, each, top, dispatches)
    return sa.select(few.c.hook_id, few.c.next_attempt_at).select_from(joined)


_pending_hooks = _pending()
_later_times = PerDialect.made_by(_later)
_due_dispatches = hot(PerDialect.made_by(_due))
_payloads = hot(sa.select(events.c.id, events.c.payload).where(any_of(events.c.id, "event_ids")))


async def pending_hooks(reader: Reader, after: int, limit: int) -> dict[int, int]:
    """Return hook ID → due time of its next attempt (milliseconds) for the first `limit` hooks above `after`."""
    rows = await reader.fetch_all(_pending_hooks, {"after": after, "limit": limit})
    return {row["hook_id"]: row["due_at"] for row in rows}


async def later_times(reader: Reader, hook_ids: Sequence[int], now: int, per_lane: int) -> dict[int, list[int]]:
    """Return hook ID → sorted due times after `now`, at most `per_lane` for each hook."""
    found: dict[int, list[int]] = {}
    params = {"hook_ids": list(hook_ids), "now": now, "per_lane": per_lane}
    for row in await reader.fetch_all(_later_times, params):
        found.setdefault(row["hook_id"], []).append(row["next_attempt_at"])
    return {hook_id: sorted(times) for hook_id, times in found.items()}


async def due_dispatches(
    reader: Reader, since: Mapping[int, int], busy: Sequence[int], now: int, per_lane: int
) -> Sequence[Row]:
    """Return the next dispatches of these hooks, except the `busy` ones.

    `since` maps hook IDs to the due time to start from (milliseconds), which SQLite does not need.
    """
    params = {
        "hook_ids": list(since), "since": list(since.values()), "busy": list(busy), "now": now, "per_lane": per_lane,
    }  # fmt: skip
    return await reader.fetch_all(_due_dispatches, params)


async def payloads(reader: Reader, event_ids: Sequence[int]) -> dict[int, bytes]:
    rows = await reader.fetch_all(_payloads, {"event_ids": list(event_ids)})
    found = {row["id"]: from_stored(row["payload"]) for row in rows}
    return {event_id: payload for event_id, payload in found.items() if payload is not None}


# --- hooks -----------------------------------------------------------------------------------------------------------

_drop_unasked = (
    sa.update(dispatches)
    .where(any_of(dispatches.c.id, "dispatch_ids"), dispatches.c.wanted == sa.literal(0, sa.Integer))
    .values(next_attempt_at=sa.null())
)
_health = sa.select(lanes.c.hook_id, lanes.c.failing_since).where(any_of(lanes.c.hook_id, "hook_ids"))


async def drop_unrequested(tx: Transaction, dispatch_ids: Sequence[int]) -> None:
    """Drop dispatches, except those requested by hand."""
    await tx.execute(_drop_unasked, {"dispatch_ids": list(dispatch_ids)})


async def failing_since(reader: Reader, hook_ids: Sequence[int]) -> dict[int, int | None]:
    """Return by hook ID when its receiver began to fail (milliseconds), or None if it is not failing."""
    rows = await reader.fetch_all(_health, {"hook_ids": list(hook_ids)})
    return {row["hook_id"]: row["failing_since"] for row in rows}


# --- outcomes ---------------------------------------------------------------------------------------------------------
#
# Many outcomes are written in one statement, or in one round trip of a transaction. An attempt updates its dispatch
# only if the process still has the lease under which it was sent and the dispatch has not changed since. Otherwise
# another process sends it too, or has already done so: this attempt is recorded as a redelivery, and the other process
# decides the next step.

DELIVERY_COLUMNS = tuple(column.name for column in deliveries.columns if column.name != "id")
ADVANCE_COLUMNS = ("advanced_id", "expected", "manual", "after", "next_at", "sent_epoch")
_ADVANCE_TYPES = (sa.BigInteger, sa.Integer, sa.Integer, sa.Integer, sa.BigInteger, sa.BigInteger)

DeliveryRow = tuple[object, ...]
"""A row of `DELIVERY_COLUMNS`."""

AdvanceRow = tuple[int, int, int, int, int | None, int]
"""The update of a dispatch: its ID, the number of attempts it must still have, how many redeliveries this attempt
counts for, its retries after this attempt, the due time of the next attempt (milliseconds, or None), and the epoch of
the lease that must still be valid."""


def _advance(done: Mapping[str, sa.ColumnElement[Any]]) -> sa.Update:
    left = dispatches.c.wanted - done["manual"]
    return (
        sa.update(dispatches)
        .where(
            dispatches.c.id == done["advanced_id"],
            dispatches.c.attempts == done["expected"],
            sa.exists().where(workers.c.epoch == done["sent_epoch"]),
        )
        .values(
            attempts=dispatches.c.attempts + 1,
            retries=sa.case((left > 0, 0), else_=done["after"]),
            wanted=sa.case((left > 0, left), else_=0),
            # A dispatch dropped while in flight stays dropped; a redelivery requested meanwhile is due now.
            next_attempt_at=sa.case(
                (dispatches.c.next_attempt_at.is_(None), None), (left > 0, bigint_param("now")), else_=done["next_at"]
            ),
        )
        .returning(dispatches.c.id)
    )


def _record_postgresql() -> sa.Select[Any]:
    """Write both tables in one self-committing statement, which takes one round trip. Each column is an array."""
    done = arrays("done", dict(zip(ADVANCE_COLUMNS, (kind() for kind in _ADVANCE_TYPES), strict=True)))
    advanced = _advance(dict(done.c)).cte("advanced")
    made = arrays("made", {name: deliveries.c[name].type for name in DELIVERY_COLUMNS})
    columns = {name: made.c[name] for name in DELIVERY_COLUMNS}
    columns["redelivery"] = sa.or_(made.c.redelivery, advanced.c.id.is_(None)).label("redelivery")
    rows = (
        sa.select(*columns.values())
        .select_from(made.outerjoin(advanced, advanced.c.id == made.c.dispatch_id))
        .order_by(made.c.n)
    )
    inserted = sa.insert(deliveries).from_select(DELIVERY_COLUMNS, rows).cte("inserted")
    return sa.select(advanced.c.id).add_cte(inserted)


_MADE = [f"made_{name}" for name in DELIVERY_COLUMNS]
_DONE = [f"done_{name}" for name in ADVANCE_COLUMNS]
_insert_delivery = insert_into(deliveries, *DELIVERY_COLUMNS)
_rows = sa.func.json_each(sa.bindparam("done", type_=sa.Text)).table_valued("value", name="done")
_advance_all = _advance({name: sa.func.json_extract(_rows.c.value, sa.literal_column(f"'$[{place}]'"))
                         for place, name in enumerate(ADVANCE_COLUMNS)})  # fmt: skip
_record_all = hot(_record_postgresql())
_attempts = sa.select(dispatches.c.id, dispatches.c.attempts).where(any_of(dispatches.c.id, "dispatch_ids"))
_failing = (
    sa.update(lanes).where(lanes.c.hook_id == sa.bindparam("hook_id")).values(failing_since=bigint_param("since"))
)
_all = deliveries.alias("all_deliveries")
_last = sa.select(sa.func.max(_all.c.id)).scalar_subquery()
# SQLite only, which has a single writer: limited to the rows inserted last.
_mark_repeats = (
    sa.update(deliveries)
    .where(deliveries.c.id > _last - bigint_param("count"), any_of(deliveries.c.dispatch_id, "late"))
    .values(redelivery=True)
)


async def record(
    database: Database,
    delivered: Sequence[DeliveryRow],
    advances: Sequence[AdvanceRow],
    failing: Mapping[int, int | None],
    now: int,
) -> set[int]:
    """Commit the outcomes of attempts. Returns the dispatches that were not updated (see above).

    `failing` maps hook IDs to when the receiver began to fail (milliseconds), or None if it succeeds again.
    """
    # Lock lanes before dispatches, and both by ID, as everywhere else, because another order could deadlock.
    advances = sorted(advances)
    health = [{"hook_id": each, "since": failing[each]} for each in sorted(failing)]
    late = {each[0] for each in advances}
    if database.name == "postgresql":
        columns: dict[str, object] = dict(zip(_MADE, map(list, zip(*delivered, strict=True)), strict=True))
        columns.update(zip(_DONE, map(list, zip(*advances, strict=True)), strict=True))

        async def write(tx: Transaction) -> list[Row]:
            moved = list[Row]()
            await tx.execute_many(_failing, health)
            await tx.defer_fetch(_record_all, {**columns, "now": now}, moved.extend)  # writes on COMMIT
            return moved

        return late - {row["id"] for row in await database.in_transaction(write)}
    async with database.transaction() as tx:
        await tx.execute_many(_failing, health)
        tx.defer(_insert_delivery, [dict(zip(DELIVERY_COLUMNS, row, strict=True)) for row in delivered])
        late -= {row["id"] for row in await tx.fetch_all(_advance_all, {"done": advances, "now": now})}
        if late:
            await tx.execute(_mark_repeats, {"late": list(late), "count": len(delivered)})
    return late


async def attempts_of(reader: Reader, dispatch_ids: Sequence[int]) -> dict[int, int]:
    rows = await reader.fetch_all(_attempts, {"dispatch_ids": list(dispatch_ids)})
    return {row["id"]: row["attempts"] for row in rows}
