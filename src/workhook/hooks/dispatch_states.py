"""The state of a delivery's dispatch: the number of the attempt, and the next step.

The columns are scalar subqueries, not joins, so that the few rows are found by index regardless of the planner's
statistics. An event has few attempts at one hook.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import SECOND_MS, to_millis_text
from workhook.hooks.records import DispatchState
from workhook.hooks.tables import deliveries, dispatches
from workhook.storage import Row
from workhook.storage.dialects import json_rows

HELD_MS = 15 * SECOND_MS  # longer than any attempt takes, so the dispatch is not in progress

CODES = 1000  # greater than every status code
_CODES = sa.literal_column(str(CODES), sa.BigInteger)


def columns(table: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    """Return the columns that `dispatch_fields` reads, for `deliveries` or an alias. Each costs one lookup per row."""
    dispatch, attempt = dispatches.alias("dispatch"), deliveries.alias("attempt")
    now = sa.select(json_rows(*(dispatch.c[name] for name in ("attempts", "retries", "wanted", "next_attempt_at"))))
    made = (
        sa.select(
            sa.func.count(sa.case((attempt.c.id > table.c.id, 1))).label("later"),
            # The status of the highest ID, which is below 2^53. Not ordered by ID: PostgreSQL might use the ID's index.
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


def dispatch_fields(row: Row, retries: int | None, now: int) -> dict[str, object]:
    """Return the dispatch fields of `DeliveryItem`. `retries`: the hook's number of retries, or None if unknown."""
    [[later, newest]] = json.decode(row["attempts_made"])
    found = json.decode(row["dispatch"])
    # It is kept as long as its deliveries, unless it was deleted manually.
    [[attempts, repeats, wanted, next_at]] = found or [[1 + later, 0, 0, None]]
    # Counted back from the newest, because older ones may be purged. An attempt recorded too late has no number.
    attempt = max(1, attempts - later)
    # A requested redelivery restarts the schedule after the previous attempts.
    most = None if retries is None or not found else max(attempts, attempts - repeats + 1 + retries)
    state: DispatchState
    if next_at is None:
        state = "delivered" if 200 <= newest % CODES < 300 else "given_up"
    elif now - next_at > HELD_MS:
        state = "held"
    else:
        state = "pending" if wanted else "retrying"
    return {
        "dispatch_state": state,
        "attempt": attempt,
        "attempts_max": most,
        "next_attempt_at": None if next_at is None else to_millis_text(next_at),
    }
