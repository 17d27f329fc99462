"""The SQL of records: many outcomes in one statement, or one trip, of a transaction of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from workhook.hooks.tables import deliveries, dispatches, lanes
from workhook.storage import Database, Reader
from workhook.storage.database import Step
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into

DELIVERY_COLUMNS = tuple(column.name for column in deliveries.columns if column.name != "id")
ADVANCE_COLUMNS = ("advanced_id", "expected", "manual", "after", "next_at")
_ADVANCE_TYPES = (sa.BigInteger, sa.Integer, sa.Integer, sa.Integer, sa.BigInteger)

DeliveryRow = tuple[object, ...]
"""The values of `DELIVERY_COLUMNS`."""

AdvanceRow = tuple[int, int, int, int, int | None]
"""What changes in a dispatch: its id; the attempts that it must still have; redeliveries that this attempt was; its
retries after this attempt; when the next attempt is due (milliseconds, or None)."""


def _advance(done: Mapping[str, sa.ColumnElement[Any]]) -> sa.Update:
    left = dispatches.c.wanted - done["manual"]
    return (
        sa.update(dispatches)
        .where(dispatches.c.id == done["advanced_id"], dispatches.c.attempts == done["expected"])
        .values(
            attempts=dispatches.c.attempts + 1,
            retries=sa.case((left > 0, 0), else_=done["after"]),
            wanted=sa.case((left > 0, left), else_=0),
            # What was dropped while it was in flight stays dropped; a redelivery asked for meanwhile is due now.
            next_attempt_at=sa.case(
                (dispatches.c.next_attempt_at.is_(None), None), (left > 0, big("now")), else_=done["next_at"]
            ),
        )
    )


def _advance_sqlite() -> sa.Update:
    """`done` is one JSON array of rows."""
    done = sa.func.json_each(sa.bindparam("done", type_=sa.Text)).table_valued("value", name="done")
    return _advance({name: sa.func.json_extract(done.c.value, sa.literal_column(f"'$[{place}]'"))
                     for place, name in enumerate(ADVANCE_COLUMNS)})  # fmt: skip


def _record_postgresql() -> sa.Update:
    """Both tables in one statement, which commits by itself: one trip. An array a column."""
    made = _unnested("made", {name: deliveries.c[name].type for name in DELIVERY_COLUMNS})
    inserted = sa.insert(deliveries).from_select(DELIVERY_COLUMNS, sa.select(*made.c)).cte("inserted")
    done = _unnested("done", dict(zip(ADVANCE_COLUMNS, (kind() for kind in _ADVANCE_TYPES), strict=True)))
    return _advance(dict(done.c)).add_cte(inserted)


def _unnested(name: str, columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.TableValuedAlias:
    arrays: list[sa.BindParameter[Any]] = [sa.bindparam(column, type_=ARRAY(kind)) for column, kind in columns.items()]
    shape = [sa.column(column, kind) for column, kind in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*shape, name=name).render_derived()


_insert_delivery = insert_into(deliveries, *DELIVERY_COLUMNS)
_advance_all = _advance_sqlite()
_record_all = _record_postgresql()
_attempts = sa.select(dispatches.c.id, dispatches.c.attempts).where(any_of(dispatches.c.id, "dispatch_ids"))
_failing = sa.update(lanes).where(lanes.c.hook_id == sa.bindparam("hook_id")).values(failing_since=big("since"))


async def record(
    database: Database,
    delivered: Sequence[DeliveryRow],
    advances: Sequence[AdvanceRow],
    failing: Mapping[int, int | None],
    now: int,
) -> None:
    """Commit what came of attempts. An advance changes a dispatch only at the attempt that it was made for.

    `failing`: hook id → since when its receiver fails (milliseconds), None for not any more.
    """
    # Lanes before dispatches, and both by id, as everywhere: another order of locks would meet a deadlock.
    advances = sorted(advances)
    steps: list[Step] = [(_failing, [{"hook_id": each, "since": failing[each]} for each in sorted(failing)])]
    if database.name == "postgresql":
        columns: dict[str, object] = dict(zip(DELIVERY_COLUMNS, map(list, zip(*delivered, strict=True)), strict=True))
        columns.update(zip(ADVANCE_COLUMNS, map(list, zip(*advances, strict=True)), strict=True))
        steps.append((_record_all, [{**columns, "now": now}]))
    else:
        rows = [dict(zip(DELIVERY_COLUMNS, row, strict=True)) for row in delivered]
        steps += [(_insert_delivery, rows), (_advance_all, [{"done": advances, "now": now}])]
    await database.write(steps)


async def attempts_of(reader: Reader, dispatch_ids: Sequence[int]) -> dict[int, int]:
    """dispatch id → how many attempts at it are recorded."""
    rows = await reader.fetch_all(_attempts, {"dispatch_ids": list(dispatch_ids)})
    return {row["id"]: row["attempts"] for row in rows}
