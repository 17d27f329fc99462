"""The SQL of delivery: what is due, leases. That of records is in `recording`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from workhook.events.tables import events
from workhook.hooks.tables import dispatches, hooks, lanes, workers
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect, hot

# --- what is due -----------------------------------------------------------------------------------------------------


def _pending() -> sa.Select[Any]:
    """The hooks that have work, each with its earliest time: one index probe a hook, however long their queues are."""
    first, later, due = dispatches.alias("first"), dispatches.alias("later"), dispatches.alias("due")
    walk = (
        sa.select(sa.func.min(first.c.hook_id).label("hook_id"))
        .where(first.c.next_attempt_at.is_not(None))
        .cte("walk", recursive=True)
    )
    following = (
        sa.select(sa.func.min(later.c.hook_id))
        .where(later.c.next_attempt_at.is_not(None), later.c.hook_id > walk.c.hook_id)
        .scalar_subquery()
    )
    walk = walk.union_all(sa.select(following).where(walk.c.hook_id.is_not(None)))
    earliest = (
        sa.select(sa.func.min(due.c.next_attempt_at))
        .where(due.c.hook_id == walk.c.hook_id, due.c.next_attempt_at.is_not(None))
        .scalar_subquery()
    )
    return sa.select(walk.c.hook_id, earliest.label("due_at")).where(walk.c.hook_id.is_not(None))


_WORK = ("id", "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at")


def _due(dialect: str) -> sa.Select[Any]:
    """The next dispatches of each of the given hooks, oldest due first, without those already in hand."""
    inner = dispatches.alias("inner_dispatches")
    wanted = [inner.c[name] for name in _WORK] if dialect == "postgresql" else [inner.c.id]
    each: Any
    if dialect == "postgresql":
        ids = sa.func.unnest(sa.bindparam("hook_ids", type_=ARRAY(sa.Integer)))
        each = ids.table_valued("hook_id", name="lane").render_derived()
        hook_id = each.c.hook_id
    else:
        each = sa.func.json_each(sa.bindparam("hook_ids", type_=sa.Text)).table_valued("value", name="lane")
        hook_id = each.c.value
    top = (
        sa.select(*wanted)
        .where(
            inner.c.hook_id == hook_id,
            inner.c.next_attempt_at <= big("now"),
            any_of(inner.c.id, "busy", negate=True),
        )
        .order_by(inner.c.next_attempt_at, inner.c.id)
        .limit(big("per_lane"))
    )
    if dialect == "postgresql":
        lateral = top.lateral("due")
        source = each.join(lateral, sa.true())
        found = lateral.c
    else:
        source = each.join(dispatches, dispatches.c.id.in_(top.correlate(each)))
        found = dispatches.c
    source = source.join(events, events.c.id == found.event_id).join(hooks, hooks.c.id == found.hook_id)
    return (
        sa.select(
            *(found[name] for name in _WORK),
            events.c.name.label("event"),
            events.c.action,
            events.c.repository_id,
            events.c.installation_id,
            events.c.size,
            hooks.c.version,
        )
        .select_from(source)
        .order_by(found.next_attempt_at, found.id)
    )


_pending_hooks = _pending()
_due_dispatches = hot(PerDialect(sqlite=_due("sqlite"), postgresql=_due("postgresql")))
_payloads = hot(sa.select(events.c.id, events.c.payload).where(any_of(events.c.id, "event_ids")))


async def pending_hooks(reader: Reader) -> dict[int, int]:
    """hook id → when its next attempt is due (milliseconds)."""
    return {row["hook_id"]: row["due_at"] for row in await reader.fetch_all(_pending_hooks)}


async def due_dispatches(
    reader: Reader, hook_ids: Sequence[int], busy: Sequence[int], now: int, per_lane: int
) -> Sequence[Row]:
    params = {"hook_ids": list(hook_ids), "busy": list(busy), "now": now, "per_lane": per_lane}
    return await reader.fetch_all(_due_dispatches, params)


async def payloads(reader: Reader, event_ids: Sequence[int]) -> dict[int, bytes]:
    rows = await reader.fetch_all(_payloads, {"event_ids": list(event_ids)})
    return {row["id"]: row["payload"] for row in rows}


# --- leases ----------------------------------------------------------------------------------------------------------

# What this process has already, but lost sight of (a claim that failed half-way), is free to it. A CTE is evaluated
# once; PostgreSQL could run a subquery with LIMIT and SKIP LOCKED again for every row.
_free_lanes = (
    sa.select(lanes.c.hook_id)
    .where(
        any_of(lanes.c.hook_id, "hook_ids"),
        sa.or_(lanes.c.lease_until < big("now"), lanes.c.owner == sa.bindparam("owner_now", type_=sa.Text)),
    )
    .order_by(lanes.c.hook_id)
    .limit(big("limit"))
    .with_for_update(skip_locked=True)
    .cte("free")
)
_claim = (
    sa.update(lanes)
    .where(lanes.c.hook_id.in_(sa.select(_free_lanes.c.hook_id)))
    .values(owner=sa.bindparam("owner"), lease_until=big("lease_until"))
    .returning(lanes.c.hook_id, lanes.c.failing_since)
)
_mine = sa.and_(lanes.c.owner == sa.bindparam("owner"), any_of(lanes.c.hook_id, "hook_ids"))
_ours = sa.select(lanes.c.hook_id).where(_mine)
# A row that somebody holds is passed over: one lane's owner at work must not stop the renewal of all the others.
_unheld = _ours.order_by(lanes.c.hook_id).with_for_update(skip_locked=True).cte("unheld")
_renew = (
    sa.update(lanes)
    .where(lanes.c.hook_id.in_(sa.select(_unheld.c.hook_id)))
    .values(lease_until=big("lease_until"))
    .returning(lanes.c.hook_id)
)
_nobody: dict[str, object] = {"owner": sa.null(), "lease_until": sa.literal(0, sa.BigInteger)}
_release = sa.update(lanes).where(_mine).values(_nobody)
_owners = sa.select(lanes.c.owner).where(lanes.c.owner.is_not(None)).distinct()
_take_back = sa.update(lanes).where(any_of(lanes.c.owner, "owners")).values(_nobody)
_existing = sa.select(hooks.c.id).where(any_of(hooks.c.id, "hook_ids"))
_drop_waiting = (
    sa.update(dispatches)
    .where(any_of(dispatches.c.hook_id, "hook_ids"), dispatches.c.next_attempt_at.is_not(None))
    .values(next_attempt_at=sa.null(), wanted=0)
)
_drop_unasked = (
    sa.update(dispatches)
    .where(any_of(dispatches.c.id, "dispatch_ids"), dispatches.c.wanted == sa.literal(0, sa.Integer))
    .values(next_attempt_at=sa.null())
)
_seen = (
    upsert(workers)
    .values(owner=sa.bindparam("owner"), seen_until=big("seen_until"))
    .on_conflict_do_update(index_elements=["owner"], set_={"seen_until": big("seen_until")})
)
_gone = sa.delete(workers).where(sa.or_(any_of(workers.c.owner, "owners"), workers.c.seen_until < big("now")))
_health = sa.select(lanes.c.hook_id, lanes.c.failing_since).where(any_of(lanes.c.hook_id, "hook_ids"))
_alive = sa.select(sa.func.count().label("alive")).where(workers.c.seen_until >= big("now"))


async def claim(
    tx: Transaction, owner: str, hook_ids: Sequence[int], now: int, lease_until: int, limit: int
) -> Sequence[Row]:
    """Lease at most `limit` of the lanes, those that are free; rows of `hook_id` and `failing_since`."""
    params = {"owner": owner, "owner_now": owner, "now": now, "lease_until": lease_until, "limit": limit}
    return await tx.fetch_all(_claim, {**params, "hook_ids": list(hook_ids)})


async def renew(tx: Transaction, owner: str, hook_ids: Sequence[int], lease_until: int) -> tuple[set[int], set[int]]:
    """The lanes that are still ours, and those of them whose lease was prolonged: not those that somebody holds."""
    params = {"owner": owner, "hook_ids": list(hook_ids), "lease_until": lease_until}
    renewed = {row["hook_id"] for row in await tx.fetch_all(_renew, params)}
    ours = renewed if len(renewed) == len(hook_ids) else {row["hook_id"] for row in await tx.fetch_all(_ours, params)}
    return ours, renewed


async def release(tx: Transaction, owner: str, hook_ids: Sequence[int]) -> None:
    await tx.execute(_release, {"owner": owner, "hook_ids": list(hook_ids)})


async def lane_owners(reader: Reader) -> list[str]:
    return [row["owner"] for row in await reader.fetch_all(_owners)]


async def take_back(tx: Transaction, owners: Sequence[str], now: int) -> None:
    """Free what processes had that are known to be gone."""
    await tx.execute(_take_back, {"owners": list(owners)})
    await tx.execute(_gone, {"owners": list(owners), "now": now})


async def existing_hooks(reader: Reader, hook_ids: Sequence[int]) -> set[int]:
    return {row["id"] for row in await reader.fetch_all(_existing, {"hook_ids": list(hook_ids)})}


async def drop_waiting(tx: Transaction, hook_ids: Sequence[int]) -> int:
    """Nothing more is sent to these hooks; answers how many dispatches that concerned."""
    return await tx.execute(_drop_waiting, {"hook_ids": list(hook_ids)})


async def drop_unasked(tx: Transaction, dispatch_ids: Sequence[int]) -> None:
    """Drop these, except what somebody asked for by hand."""
    await tx.execute(_drop_unasked, {"dispatch_ids": list(dispatch_ids)})


async def report_alive(tx: Transaction, owner: str, now: int, seen_until: int) -> int:
    """Answers how many processes deliver, this one included."""
    await tx.execute(_gone, {"owners": [], "now": now})
    await tx.execute(_seen, {"owner": owner, "seen_until": seen_until})
    return await count_alive(tx, now)


async def count_alive(reader: Reader, now: int) -> int:
    """How many processes deliver; at least 1."""
    row = await reader.fetch_one(_alive, {"now": now})
    return max(1, row["alive"]) if row else 1


async def failing_since(reader: Reader, hook_ids: Sequence[int]) -> dict[int, int | None]:
    """hook id → since when its receiver has had no success (milliseconds)."""
    rows = await reader.fetch_all(_health, {"hook_ids": list(hook_ids)})
    return {row["hook_id"]: row["failing_since"] for row in rows}
