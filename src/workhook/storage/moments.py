"""Times become bounds of ids, so that a list by time is a stretch of the index that its order is.

Rows are numbered when they are written, a little after the time that they tell of. A row that was written at most
`slack_ms` after its time has a higher number than every row that tells of `slack_ms` earlier, and a lower one than
every row that tells of `slack_ms` later. So halving finds, in some thirty looks at the primary key, bounds that no such
row of a stretch of time lies outside of; what the bounds let in beside it is looked at and left out by its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.storage.database import Reader
from workhook.storage.metadata import big

HIGHEST = 2**62  # above every id


class Bounds(msgspec.Struct, frozen=True):
    """Ids above `low` and below `high`."""

    low: int = 0
    high: int = HIGHEST


class Moments:
    """Of a table whose `id` and column `at` go together so. `in_time` (of the table or an alias of it) is true for the
    rows that were written within the slack; without it, all were."""

    def __init__(
        self,
        table: sa.Table,
        at: str,
        slack_ms: int,
        in_time: Callable[[sa.FromClause], sa.ColumnElement[bool]] | None = None,
    ) -> None:
        self._slack_ms = slack_ms
        self._statement = _halving(table, at, in_time)

    async def bounds(self, reader: Reader, *, since: int | None = None, until: int | None = None) -> Bounds:
        """Of the rows from `since` to `until` (milliseconds, both included)."""
        low, high = 0, HIGHEST
        if since is not None:
            low = (await self._halve(reader, since - self._slack_ms - 1))[0]
        if until is not None:
            high = (await self._halve(reader, until + self._slack_ms))[1]
        return Bounds(low, high)

    async def _halve(self, reader: Reader, moment: int) -> tuple[int, int]:
        """The number of a row, or a lower one, that tells of `moment` or earlier; and a higher number that only rows of
        later times have, or higher ones."""
        row = await reader.fetch_one(self._statement, {"moment": moment})
        assert row is not None, "it is an aggregate"
        return row["low"], row["high"] if row["high"] <= row["newest"] else HIGHEST


def _halving(
    table: sa.Table, at: str, in_time: Callable[[sa.FromClause], sa.ColumnElement[bool]] | None
) -> sa.Select[Any]:
    """Each step knows `low` and `high`, and the time of the first row from half-way between them on."""

    def time_from(number: sa.ColumnElement[int], name: str) -> sa.ColumnElement[Any]:
        row = table.alias(name)
        found = sa.select(row.c[at]).where(row.c.id >= number)
        if in_time is not None:
            found = found.where(in_time(row))
        return found.order_by(row.c.id).limit(sa.literal_column("1")).scalar_subquery()

    newest_row = table.alias("newest_row")
    newest = sa.func.coalesce(
        sa.select(sa.func.max(newest_row.c.id)).scalar_subquery(), sa.literal_column("0", sa.BigInteger)
    )
    top = sa.cast(newest, sa.BigInteger) + sa.literal_column("1", sa.BigInteger)
    zero = sa.cast(sa.literal_column("0"), sa.BigInteger)
    step = sa.select(
        zero.label("low"), top.label("high"), top.label("top"), time_from(_half(zero, top), "first_row").label("at")
    ).cte("step", recursive=True)
    earlier = step.c.at <= big("moment")
    half = _half(step.c.low, step.c.high)
    low, high = sa.case((earlier, half), else_=step.c.low), sa.case((earlier, step.c.high), else_=half)
    following = sa.select(low, high, step.c.top, time_from(_half(low, high), "next_row").correlate(step)).where(
        step.c.high - step.c.low > sa.literal_column("1")
    )
    step = step.union_all(following)
    return sa.select(
        sa.func.max(step.c.low).label("low"),
        sa.func.min(step.c.high).label("high"),
        (sa.func.max(step.c.top) - sa.literal_column("1")).label("newest"),
    )


def _half(low: sa.ColumnElement[Any], high: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    return (low + high) // sa.literal_column("2", sa.BigInteger())
