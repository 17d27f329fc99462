"""What a delivery tells of its dispatch: which attempt it was, and what comes next.

The columns are scalar subqueries, not joins: a few rows are looked up by an index, whatever the planner knows of the
tables. The attempts of one event at one hook are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import SECOND_MS, to_millis_text
from workhook.hooks.records import DispatchState
from workhook.hooks.tables import deliveries, dispatches
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.metadata import big

HELD_MS = 15 * SECOND_MS  # what has been due for longer than an attempt takes is not just under way

CODES = 1000  # above every status code
_CODES = sa.literal_column(str(CODES), sa.BigInteger)


class Told(msgspec.Struct, frozen=True):
    """The fields of `DeliveryItem` that are about the dispatch."""

    dispatch_state: DispatchState
    attempt: int
    attempts_max: int | None
    next_attempt_at: str | None


def columns(table: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    """Return the columns that `told` reads, for each row of `deliveries` or an alias of it: each is one look-up."""
    dispatch, attempt = dispatches.alias("dispatch"), deliveries.alias("attempt")
    now = sa.select(json_rows(*(dispatch.c[name] for name in ("attempts", "retries", "wanted", "next_attempt_at"))))
    made = (
        sa.select(
            sa.func.count(sa.case((attempt.c.id > table.c.id, 1))).label("later"),
            # The status of the highest id, which is below 2^53. No order by id: PostgreSQL might follow its index.
            sa.func.max(attempt.c.id * _CODES + attempt.c.status_code).label("newest"),
        )
        .where(attempt.c.guid == table.c.guid)
        .correlate(table)
        .subquery("made")
    )
    return [
        now.where(dispatch.c.id == table.c.dispatch_id).correlate(table).scalar_subquery().label("dispatch"),
        sa.select(json_rows(made.c.later, made.c.newest)).correlate(table).scalar_subquery().label("attempts_made"),
    ]


_mine, _later = deliveries.alias("mine"), deliveries.alias("later")
_repeated = sa.select(_mine.c.id).where(
    _mine.c.hook_id == big("hook_id"),
    any_of(_mine.c.id, "ids"),
    sa.exists().where(_later.c.guid == _mine.c.guid, _later.c.id > _mine.c.id),
)


async def repeated(reader: Reader, hook_id: int, ids: Sequence[int]) -> frozenset[int]:
    """Return those of these deliveries of the hook that a later attempt followed."""
    if not ids:
        return frozenset()
    rows = await reader.fetch_all(_repeated, {"hook_id": hook_id, "ids": list(ids)})
    return frozenset(row["id"] for row in rows)


def told(row: Row, retries: int | None, now: int) -> Told:
    """`row` has `columns`. `retries`: how many the hook allows after a failed attempt; None: not known. `now` in
    milliseconds."""
    [[later, newest]] = json.decode(row["attempts_made"])
    code = newest % CODES
    found = json.decode(row["dispatch"])
    if not found:  # it is kept as long as its deliveries, unless somebody has removed it by hand
        return Told(_state_of(code, None, 0, now), 1, None, None)
    [[attempts, repeats, wanted, next_at]] = found
    # Counted from the newest: older ones may be purged. What a process recorded too late is no attempt of its own.
    attempt = max(1, attempts - later)
    # A redelivery that somebody asked for begins a schedule anew, after the attempts that there were.
    most = None if retries is None else max(attempts, attempts - repeats + 1 + retries)
    next_text = None if next_at is None else to_millis_text(next_at)
    return Told(_state_of(code, next_at, wanted, now), attempt, most, next_text)


def _state_of(code: int, next_at: int | None, wanted: int, now: int) -> DispatchState:
    if next_at is None:
        return "delivered" if 200 <= code < 300 else "given_up"
    if now - next_at > HELD_MS:
        return "held"
    return "pending" if wanted else "retrying"
