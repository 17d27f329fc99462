"""The chore that adds what was noted of timesheets to their sums. Reports are right without it, and slower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.http.calls import Services
from workhook.storage import Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big
from workhook.work.timesheets.sum_tables import (
    NO_TASK,
    NOBODY,
    UNITS,
    Grain,
    timesheet_changes,
    timesheet_sums,
)

EVERY_S = 10.0
BATCH = 500  # SQLite has one writer: others wait for a batch

_notes, _sums = timesheet_changes.c, timesheet_sums.c
_KEYS = tuple(each.name for each in timesheet_sums.primary_key.columns)
_VALUES = ("timesheets", "duration_ms", "amount_minor")
_any = sa.select(_notes.id).limit(1)
# Another process that does the same takes the next ones. By the order in which they were noted: what a timesheet was is
# never taken off before it was added.
_next = sa.select(_notes.id).order_by(_notes.id).limit(big("limit")).with_for_update(skip_locked=True)
_taken = any_of(_notes.id, "ids")
_remove = sa.delete(timesheet_changes).where(_taken)
_remove_empty = sa.delete(timesheet_sums).where(
    sa.text("timesheets = 0"), _sums.duration_ms == 0, _sums.amount_minor == 0
)


def _add(grain: Grain) -> Any:
    user = _notes.user_id if grain in (Grain.USER_DAYS, Grain.USER_BLOCKS, Grain.TASK_BLOCKS) else sa.literal(NOBODY)
    task = _notes.task_id if grain is Grain.TASK_BLOCKS else sa.literal(NO_TASK)
    parts = (
        sa.select(
            _notes.repository_id,
            sa.literal_column(str(int(grain)), sa.SmallInteger()).label("grain"),
            (_notes.start_time // UNITS[grain]).label("period"),
            sa.cast(user, sa.BigInteger()).label("user_id"),
            sa.cast(task, sa.Text()).label("task_id"),
            _notes.billable,
            _notes.invoiced,
            *(_notes[name] for name in _VALUES),
        )
        .where(_taken)
        .subquery("parts")
    )
    keys = [parts.c[name] for name in _KEYS]
    # In one order, so that two who do this at once do not wait for each other.
    added = sa.select(*keys, *(sa.func.sum(parts.c[name]) for name in _VALUES)).group_by(*keys).order_by(*keys)
    insert = upsert(timesheet_sums).from_select([*_KEYS, *_VALUES], added)
    return insert.on_conflict_do_update(
        index_elements=_KEYS, set_={name: _sums[name] + insert.excluded[name] for name in _VALUES}
    )


_ADD = tuple(_add(grain) for grain in Grain)


async def add_changes(services: Services, now: int) -> int:
    """Add what was noted to the sums, in small transactions; several processes may do this at once. Answers how many
    notes there were. Raises `Unavailable`."""
    done = 0
    while await services.database.fetch_one(_any):  # so that nobody waits to write where there is nothing
        count = await services.database.in_transaction(_add_some)
        done += count
        if count < BATCH:
            break
    return done


async def _add_some(tx: Transaction) -> int:
    ids = [int(row["id"]) for row in await tx.fetch_all(_next, {"limit": BATCH})]
    if ids:
        await _add_these(tx, ids)
    return len(ids)


async def _add_these(tx: Transaction, ids: Sequence[int]) -> None:
    params = {"ids": list(ids)}
    for statement in _ADD:
        await tx.execute(statement, params)
    await tx.execute(_remove_empty)
    await tx.execute(_remove, params)
