"""Writes many outcomes in one statement, or in one round trip of a transaction.

An attempt changes its dispatch only if the process still has the lease under which it was sent, and nobody has changed
the dispatch since. Otherwise another process sends it too, or has done so: this attempt is then recorded as a repeat,
and the other process decides what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from workhook.hooks.tables import deliveries, dispatches, lanes, workers
from workhook.storage import Database, Reader
from workhook.storage.dialects import any_of, arrays
from workhook.storage.metadata import big, insert_into

DELIVERY_COLUMNS = tuple(column.name for column in deliveries.columns if column.name != "id")
ADVANCE_COLUMNS = ("advanced_id", "expected", "manual", "after", "next_at", "sent_epoch")
_ADVANCE_TYPES = (sa.BigInteger, sa.Integer, sa.Integer, sa.Integer, sa.BigInteger, sa.BigInteger)

DeliveryRow = tuple[object, ...]
"""The values of `DELIVERY_COLUMNS`."""

AdvanceRow = tuple[int, int, int, int, int | None, int]
"""What changes in a dispatch: its id; the attempts that it must still have; how many redeliveries this attempt was; its
retries after this attempt; when the next attempt is due (milliseconds, or None); the epoch of the lease that must still
hold."""


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
            # What was dropped while it was in flight stays dropped; a redelivery asked for meanwhile is due now.
            next_attempt_at=sa.case(
                (dispatches.c.next_attempt_at.is_(None), None), (left > 0, big("now")), else_=done["next_at"]
            ),
        )
        .returning(dispatches.c.id)
    )


def _advance_sqlite() -> sa.Update:
    """`done` is one JSON array of rows."""
    done = sa.func.json_each(sa.bindparam("done", type_=sa.Text)).table_valued("value", name="done")
    return _advance({name: sa.func.json_extract(done.c.value, sa.literal_column(f"'$[{place}]'"))
                     for place, name in enumerate(ADVANCE_COLUMNS)})  # fmt: skip


def _record_postgresql() -> sa.Select[Any]:
    """Both tables in one statement, which commits by itself: one round trip. Each column is an array."""
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
_advance_all = _advance_sqlite()
_record_all = _record_postgresql()
_attempts = sa.select(dispatches.c.id, dispatches.c.attempts).where(any_of(dispatches.c.id, "dispatch_ids"))
_failing = sa.update(lanes).where(lanes.c.hook_id == sa.bindparam("hook_id")).values(failing_since=big("since"))
_all = deliveries.alias("all_deliveries")
_last = sa.select(sa.func.max(_all.c.id)).scalar_subquery()
# On SQLite, which has one writer: of the rows that were inserted last.
_mark_repeats = (
    sa.update(deliveries)
    .where(deliveries.c.id > _last - big("count"), any_of(deliveries.c.dispatch_id, "late"))
    .values(redelivery=True)
)


async def record(
    database: Database,
    delivered: Sequence[DeliveryRow],
    advances: Sequence[AdvanceRow],
    failing: Mapping[int, int | None],
    now: int,
) -> set[int]:
    """Commit the outcomes of attempts. Return the dispatches that were not changed (see above).

    `failing`: hook id → since when its receiver fails (milliseconds), None for not any more.
    """
    # Lanes before dispatches, and both by id, as everywhere: another order of locks would meet a deadlock.
    advances = sorted(advances)
    health = [{"hook_id": each, "since": failing[each]} for each in sorted(failing)]
    late = {each[0] for each in advances}
    if database.name == "postgresql":
        columns: dict[str, object] = dict(zip(_MADE, map(list, zip(*delivered, strict=True)), strict=True))
        columns.update(zip(_DONE, map(list, zip(*advances, strict=True)), strict=True))
        steps = [(_failing, health)]
        moved = await database.write_returning(steps, _record_all, {**columns, "now": now})
        return late - {row["id"] for row in moved}
    async with database.transaction() as tx:
        await tx.execute_many(_failing, health)
        tx.defer(_insert_delivery, [dict(zip(DELIVERY_COLUMNS, row, strict=True)) for row in delivered])
        late -= {row["id"] for row in await tx.fetch_with_deferred(_advance_all, {"done": advances, "now": now})}
        if late:
            await tx.execute(_mark_repeats, {"late": list(late), "count": len(delivered)})
    return late


async def attempts_of(reader: Reader, dispatch_ids: Sequence[int]) -> dict[int, int]:
    """dispatch id → how many attempts at it are recorded."""
    rows = await reader.fetch_all(_attempts, {"dispatch_ids": list(dispatch_ids)})
    return {row["id"]: row["attempts"] for row in rows}
