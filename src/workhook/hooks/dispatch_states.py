"""What a delivery tells of its dispatch: which attempt it was, and what comes next.

The columns are scalar subqueries, not joins: a few rows are looked up by an index, whatever the planner knows of the
tables. The attempts of one event at one hook are few.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.clock import SECOND_MS, to_millis_text
from workhook.hooks.records import DispatchState
from workhook.hooks.tables import deliveries, dispatches
from workhook.storage import Row

HELD_MS = 15 * SECOND_MS  # what has been due for longer than an attempt takes is not just under way

_NOTHING = sa.literal_column("0", sa.BigInteger)


class Told(msgspec.Struct, frozen=True):
    """The fields of `DeliveryItem` that are about the dispatch."""

    dispatch_state: DispatchState
    attempt: int
    attempts_max: int | None
    next_attempt_at: str | None


def columns(table: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    """The columns that `told` reads, for each row of `deliveries` or an alias of it."""
    dispatch, later, last = dispatches.alias("dispatch"), deliveries.alias("later"), deliveries.alias("last")

    def of_dispatch(name: str) -> sa.ColumnElement[Any]:
        found = sa.select(dispatch.c[name]).where(dispatch.c.id == table.c.dispatch_id)
        return found.correlate(table).scalar_subquery().label(f"dispatch_{name}")

    after = sa.select(sa.func.count()).where(later.c.guid == table.c.guid, later.c.id > table.c.id)
    newest = (
        sa.select(last.c.status_code)
        .where(last.c.guid == table.c.guid)
        # An order that the primary key does not have: PostgreSQL might go through the table by it.
        .order_by((last.c.id + _NOTHING).desc())
        .limit(sa.literal_column("1"))
    )
    return [
        *(of_dispatch(name) for name in ("attempts", "retries", "wanted", "next_attempt_at")),
        after.correlate(table).scalar_subquery().label("attempts_after"),
        newest.correlate(table).scalar_subquery().label("newest_status_code"),
    ]


def told(row: Row, retries: int | None, now: int) -> Told:
    """`row` has `columns`. `retries`: how many the hook allows after a failed attempt; None: not known. `now` in
    milliseconds."""
    next_at: int | None = row["dispatch_next_attempt_at"]
    attempts: int | None = row["dispatch_attempts"]
    # Counted from the newest: older ones may be purged. What a process recorded too late is no attempt of its own.
    attempt = 1 if attempts is None else max(1, attempts - row["attempts_after"])
    most = None
    if attempts is not None and retries is not None:
        before = attempts - row["dispatch_retries"]  # a redelivery that somebody asked for begins a schedule anew
        most = max(attempts, before + 1 + retries)
    return Told(_state_of(row, next_at, now), attempt, most, None if next_at is None else to_millis_text(next_at))


def _state_of(row: Row, next_at: int | None, now: int) -> DispatchState:
    if next_at is None:
        return "delivered" if 200 <= row["newest_status_code"] < 300 else "given_up"
    if now - next_at > HELD_MS:
        return "held"
    return "pending" if row["dispatch_wanted"] else "retrying"
