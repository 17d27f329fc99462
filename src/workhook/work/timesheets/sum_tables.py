"""Sums over timesheets, which reports read instead of the timesheets themselves.

Triggers note each change of a timesheet in `timesheet_changes`, in the transaction of the change, whoever makes it;
`summing.add_changes` adds the notes to `timesheet_sums` and takes them away. What was spent is the sums and the notes
together, at every moment. A timesheet that runs is in neither: it grows by itself. Decision 34 tells why.
"""

from __future__ import annotations

from enum import IntEnum

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, MINUTE_MS
from workhook.storage.metadata import BigId, Millis, metadata


class Grain(IntEnum):
    """What a sum is over: whose time, and how much of the calendar. The numbers are stored."""

    QUARTERS = 1
    DAYS = 2
    USER_DAYS = 3
    USER_BLOCKS = 4
    TASK_BLOCKS = 5


UNITS = {
    # The days of every time zone of today begin at a quarter of an hour in UTC.
    Grain.QUARTERS: 15 * MINUTE_MS,
    Grain.DAYS: DAY_MS,
    Grain.USER_DAYS: DAY_MS,
    Grain.USER_BLOCKS: 32 * DAY_MS,
    Grain.TASK_BLOCKS: 32 * DAY_MS,
}
"""How long a period of a grain is: number n begins n times as long after the epoch, in UTC."""

NOBODY, NO_TASK = 0, ""
"""Of a sum that is over all people or all tasks, and of what has no task any more."""

timesheet_changes = sa.Table(
    "timesheet_changes",
    metadata,
    # No references: what is noted of a project that is removed meanwhile is taken away like any other.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("repository_id", sa.BigInteger, nullable=False),
    sa.Column("user_id", sa.BigInteger, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("billable", sa.Boolean, nullable=False),
    sa.Column("invoiced", sa.Boolean, nullable=False),
    sa.Column("start_time", Millis, nullable=False),
    # 1 for what is there now, -1 for what is there no more; the others are negative with it.
    sa.Column("timesheets", sa.BigInteger, nullable=False),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_timesheet_changes_repository_id", "repository_id", "start_time"),
    sqlite_autoincrement=True,
)

timesheet_sums = sa.Table(
    "timesheet_sums",
    metadata,
    sa.Column("repository_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("grain", sa.SmallInteger, primary_key=True),
    sa.Column("period", sa.BigInteger, primary_key=True),
    sa.Column("user_id", sa.BigInteger, primary_key=True),
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("billable", sa.Boolean, primary_key=True),
    sa.Column("invoiced", sa.Boolean, primary_key=True),
    sa.Column("timesheets", sa.BigInteger, nullable=False),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Index(
        "ix_timesheet_sums_empty",
        "repository_id",
        sqlite_where=sa.text("timesheets = 0"),
        postgresql_where=sa.text("timesheets = 0"),
    ),
    sqlite_with_rowid=False,
)
