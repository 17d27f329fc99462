"""Finds ranges of IDs by time, and reads ranges of the IDs of one owner.

A row gets its ID when it is written, a little after the time it shows. If rows are written at most `slack_ms` after
their time, two rows whose times differ by more than `slack_ms` have IDs in the same order. A binary search of the
primary key therefore finds, in about thirty probes, two IDs that enclose all rows of a time range. Other rows between
them are excluded by their time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.storage.database import Reader
from workhook.storage.metadata import bigint_param

HIGHEST = 2**62  # above every ID

ColumnValue = tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]]
"""A column and its value, which is constant in the range."""


def index_range(
    dialect: str, alike: Sequence[ColumnValue], number: sa.ColumnElement[int], *, newest_first: bool, high: str = "high"
) -> sa.Select[Any]:
    """Return at most `limit` IDs of an index range in order. The index has the columns `alike`, followed by the ID.

    The IDs are above the parameter `low` and below the one named `high`. On PostgreSQL the order is written to match no
    other index. Otherwise the planner might scan the table by ID, past other owners' rows, when a large owner has none
    of the newest rows.
    """
    columns, values = [each for each, _ in alike], [each for _, each in alike]
    low, most = bigint_param("low"), bigint_param(high)
    if dialect == "postgresql":
        key = sa.tuple_(*columns, number)
        conditions = [key > sa.tuple_(*values, low), key < sa.tuple_(*values, most)]
        order = [*columns, number]
    else:
        same = [column == value for column, value in alike]
        conditions, order = [*same, number > low, number < most], [number]
    falling = [each.desc() for each in order] if newest_first else order
    return sa.select(number).where(*conditions).order_by(*falling).limit(bigint_param("limit"))


class IdRange(msgspec.Struct, frozen=True):
    """IDs above `low` and below `high`, both excluded."""

    low: int = 0
    high: int = HIGHEST


class TimeIndex:
    """A search for IDs by time in a table whose `id` follows the column `at`.

    `in_time`, called with the table or an alias of it, is true for rows written within the slack. Without it, all rows
    count as such.
    """

    def __init__(
        self,
        table: sa.Table,
        at: str,
        slack_ms: int,
        in_time: Callable[[sa.FromClause], sa.ColumnElement[bool]] | None = None,
    ) -> None:
        self._slack_ms = slack_ms
        self._statement = _halving(table, at, in_time)

    async def bounds(self, reader: Reader, *, since: int | None = None, until: int | None = None) -> IdRange:
        """Return bounds of the IDs of rows from `since` to `until` (milliseconds, both included)."""
        low, high = 0, HIGHEST
        if since is not None:
            low = (await self._halve(reader, since - self._slack_ms - 1))[0]
        if until is not None:
            high = (await self._halve(reader, until + self._slack_ms))[1]
        return IdRange(low, high)

    async def _halve(self, reader: Reader, moment: int) -> tuple[int, int]:
        """Return two IDs: rows up to the first are of `moment` or earlier, and rows from the second on are later."""
        row = await reader.fetch_row(self._statement, {"moment": moment})
        return row["low"], row["high"] if row["high"] <= row["newest"] else HIGHEST


def _halving(
    table: sa.Table, at: str, in_time: Callable[[sa.FromClause], sa.ColumnElement[bool]] | None
) -> sa.Select[Any]:
    """Return the recursive binary search.

    Each step has `low`, `high`, and the time `at` of the first row at or after their midpoint.
    """

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
    earlier = step.c.at <= bigint_param("moment")
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
