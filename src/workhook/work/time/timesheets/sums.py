"""Sums over timesheets, which reports read instead of the timesheets themselves.

Triggers record each change of a timesheet in `timesheet_changes`, within its transaction; the chore `add_changes` adds
the changes to `timesheet_sums` and deletes them. The time spent is always the total of sums and changes, so reports are
correct without the chore, only slower. A running timesheet is in neither. Decision 18 gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Literal

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from workhook.http.calls import Services
from workhook.identity.tables import accounts
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import GROWS, Millis, bigint_param, numbered_table, partial_index, plain_table
from workhook.storage.schema import ddl, trigger_function
from workhook.work.time.timesheets.schemas import IS_PAUSED, timesheets

EVERY_S = 10.0
BATCH = 500  # SQLite has a single writer, and other writers wait for a batch


class Granularity(IntEnum):
    """The granularity of a sum: its period, and whether it is per person or per task. The numbers are stored."""

    QUARTERS = 1
    DAYS = 2
    USER_DAYS = 3
    USER_BLOCKS = 4
    TASK_BLOCKS = 5


UNITS = {
    # In all current time zones, days begin at a quarter of an hour in UTC.
    Granularity.QUARTERS: 15 * MINUTE_MS,
    Granularity.DAYS: DAY_MS,
    Granularity.USER_DAYS: DAY_MS,
    Granularity.USER_BLOCKS: 32 * DAY_MS,
    Granularity.TASK_BLOCKS: 32 * DAY_MS,
}
"""The length of each grain's periods. Period n begins n times this length after the epoch, in UTC."""

NOBODY, NO_TASK = 0, ""
"""The keys of sums over all people or all tasks, and of time without a task."""

# Without foreign keys, because changes of a project that is removed in the meantime are deleted like any others.
timesheet_changes = numbered_table(
    "timesheet_changes",
    sa.Column("repository_id", sa.BigInteger, nullable=False),
    sa.Column("user_id", sa.BigInteger, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("billable", sa.Boolean, nullable=False),
    sa.Column("invoiced", sa.Boolean, nullable=False),
    sa.Column("start_time", Millis, nullable=False),
    # 1 for an added timesheet, -1 for a removed one; the other values have the same sign.
    sa.Column("timesheets", sa.BigInteger, nullable=False),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_timesheet_changes_repository_id", "repository_id", "start_time"),
    info={GROWS: True},
)

timesheet_sums = plain_table(
    "timesheet_sums",
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
    partial_index("ix_timesheet_sums_empty", "repository_id", where=sa.text("timesheets = 0")),
    sqlite_with_rowid=False,
    info={GROWS: True},
)

_changes, _sums = timesheet_changes.c, timesheet_sums.c
_KEYS = tuple(each.name for each in timesheet_sums.primary_key.columns)
_VALUES = ("timesheets", "duration_ms", "amount_minor")
_first_change = sa.select(_changes.id).limit(1)
# In their order, so that nothing is subtracted before it is added. A concurrent process skips to later ones.
_next = sa.select(_changes.id).order_by(_changes.id).limit(bigint_param("limit")).with_for_update(skip_locked=True)
_by_ids = any_of(_changes.id, "ids")
_remove = sa.delete(timesheet_changes).where(_by_ids)
_remove_empty = sa.delete(timesheet_sums).where(
    sa.text("timesheets = 0"), _sums.duration_ms == 0, _sums.amount_minor == 0
)


def _add(grain: Granularity) -> Any:
    user = _changes.user_id if grain >= Granularity.USER_DAYS else sa.literal(NOBODY)
    task = _changes.task_id if grain is Granularity.TASK_BLOCKS else sa.literal(NO_TASK)
    parts = (
        sa.select(
            _changes.repository_id,
            sa.literal_column(str(int(grain)), sa.SmallInteger()).label("grain"),
            (_changes.start_time // UNITS[grain]).label("period"),
            sa.cast(user, sa.BigInteger()).label("user_id"),
            sa.cast(task, sa.Text()).label("task_id"),
            _changes.billable,
            _changes.invoiced,
            *(_changes[name] for name in _VALUES),
        )
        .where(_by_ids)
        .subquery("parts")
    )
    keys = [parts.c[name] for name in _KEYS]
    # Sorted, so that two processes cannot deadlock.
    added = sa.select(*keys, *(sa.func.sum(parts.c[name]) for name in _VALUES)).group_by(*keys).order_by(*keys)
    insert = upsert(timesheet_sums).from_select([*_KEYS, *_VALUES], added)
    return insert.on_conflict_do_update(
        index_elements=_KEYS, set_={name: _sums[name] + insert.excluded[name] for name in _VALUES}
    )


_ADD = tuple(_add(grain) for grain in Granularity)


async def add_changes(services: Services, now: int) -> int:
    """Add the changes to the sums in small transactions, and return their number. Raises `Unavailable`.

    Several processes may run this concurrently.
    """
    done = 0
    while await services.database.fetch_one(_first_change):  # without changes, no transaction waits to write
        count = await services.database.in_transaction(_add_some)
        done += count
        if count < BATCH:
            break
    return done


async def _add_some(tx: Transaction) -> int:
    ids = [int(row["id"]) for row in await tx.fetch_all(_next, {"limit": BATCH})]
    if ids:
        for statement in _ADD:
            await tx.execute(statement, {"ids": ids})
        await tx.execute(_remove_empty)
        await tx.execute(_remove, {"ids": ids})
    return len(ids)


# --- triggers that record changes -------------------------------------------------------------------------------------

_RECORDED = ("repository_id", "user_id", "task_id", "billable", "invoiced", "start_time", *_VALUES)
_OBSERVED = (
    "repository_id", "user_id", "task_id", "start_time", "duration_ms", "is_active", "billable", "billable_rate_minor",
    "invoice_id",
)  # fmt: skip


@ddl
def _change_triggers(dialect: str) -> Iterable[str]:
    more, less = _record_change("new.", ""), _record_change("old.", "-")
    of_update = f"AFTER UPDATE OF {', '.join(_OBSERVED)} ON timesheets"
    if dialect == "sqlite":
        changed = " OR ".join(f"old.{each} IS NOT new.{each}" for each in _OBSERVED)
        return [
            f"CREATE TRIGGER timesheet_sums_insert AFTER INSERT ON timesheets BEGIN {more} END",
            f"CREATE TRIGGER timesheet_sums_delete AFTER DELETE ON timesheets BEGIN {less} END",
            f"CREATE TRIGGER timesheet_sums_update {of_update} WHEN {changed} BEGIN {less} {more} END",
        ]
    more, less = _record_change("new.", "", "{schema}"), _record_change("old.", "-", "{schema}")
    changed = " OR ".join(f"old.{each} IS DISTINCT FROM new.{each}" for each in _OBSERVED)
    return [
        *trigger_function("timesheet_sums_insert", "AFTER INSERT ON timesheets FOR EACH ROW", more),
        *trigger_function("timesheet_sums_delete", "AFTER DELETE ON timesheets FOR EACH ROW", less),
        *trigger_function("timesheet_sums_update", f"{of_update} FOR EACH ROW WHEN ({changed})", f"{less} {more}"),
    ]


def _record_change(row: str, sign: str, schema: str = "") -> str:
    spent, rate = f"{row}duration_ms", f"{row}billable_rate_minor"
    # `worth_of` in a trigger
    product = f"({spent} / 3600000) * {rate} + (({spent} % 3600000) * {rate} + 1800000) / 3600000"
    values = (
        f"{row}repository_id", f"{row}user_id", f"coalesce({row}task_id, '')", f"{row}billable",
        f"{row}invoice_id IS NOT NULL", f"{row}start_time", f"{sign}1", f"{sign}{spent}",
        f"{sign}(CASE WHEN {row}billable AND {rate} IS NOT NULL THEN {product} ELSE 0 END)",
    )  # fmt: skip
    into = f"INSERT INTO {schema}timesheet_changes ({', '.join(_RECORDED)})"
    return f"{into} SELECT {', '.join(values)} WHERE NOT {row}is_active;"


# --- parts of a report: the sums of whole periods, and the timesheets at the ends of the span -------------------------

# A span is covered by periods, longest first; the remainder at its ends is shorter than the shortest period. The
# changes and the running timesheets are added to the sums.

ALWAYS = (0, 1 << 52)
"""The span of a report without bounds, longer than any time that can be given."""

_Span = tuple[int, int]
_NOTHING: _Span = (0, 0)
_ENDS = 2

_now, _since, _rate = bigint_param("now"), timesheets.c.running_since, timesheets.c.billable_rate_minor
# as in `rules.elapsed_ms`
_counted = timesheets.c.duration_ms + sa.case((sa.and_(timesheets.c.is_active, _since < _now), _now - _since), else_=0)
_elapsed = _counted // SECOND_MS * SECOND_MS


def worth_of(duration_ms: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """`kernel.durations.amount_minor` in SQL. The hours are split off to keep the product within 64 bits."""
    return (duration_ms // HOUR_MS) * _rate + ((duration_ms % HOUR_MS) * _rate + HOUR_MS // 2) // HOUR_MS


_spent_on_task = sa.select(sa.func.sum(_elapsed).label("ms")).where(timesheets.c.task_id == sa.bindparam("task_id"))
_amount = worth_of(_elapsed)
_paid = sa.and_(timesheets.c.billable, _rate.is_not(None))
SUMS = ("timesheets", "duration_ms", "billable_ms", "amount_minor")


async def find_spent_on_task(reader: Reader, task_id: str, now: int) -> int:
    """Return the milliseconds spent on a task."""
    return int((await reader.fetch_row(_spent_on_task, {"task_id": task_id, "now": now}))["ms"] or 0)


def cover(since: int, to: int, grains: Sequence[Granularity]) -> dict[str, int]:
    """Return the parameters of `report_parts` for the span [`since`, `to`). `grains` are ordered longest first."""
    left: list[_Span] = [(since, to)] if since < to else []
    params, summed = dict[str, int](), list[int]()
    for grain, most in zip(grains, (1, _ENDS), strict=False):
        unit, found, rest = UNITS[grain], list[_Span](), list[_Span]()
        for first, last in left:
            begin, end = -(-first // unit), last // unit
            if begin < end:
                found.append((begin, end))
                summed += [begin * unit, end * unit]
                rest += [(first, begin * unit), (end * unit, last)]
            else:
                rest.append((first, last))
        left = [(first, last) for first, last in rest if first < last]
        _name(params, f"grain{grain:d}", found, most)
    _name(params, "summed", [(min(summed), max(summed))] if summed else [], 1)
    _name(params, "raw", left, _ENDS)
    return params


def _name(params: dict[str, int], name: str, spans: Sequence[_Span], most: int) -> None:
    assert len(spans) <= most, "a span has two ends"
    for number in range(most):
        params[f"{name}_{number}_since"], params[f"{name}_{number}_to"] = (*spans, *[_NOTHING] * most)[number]


def _within(column: sa.ColumnElement[int], name: str) -> sa.ColumnElement[bool]:
    """Return the condition that the column is in the span `name`. The database reads no rows for an empty span."""
    first, last = bigint_param(f"{name}_since"), bigint_param(f"{name}_to")
    return sa.and_(first < last, column >= first, column < last)


def report_parts(
    grains: Sequence[Granularity], keys: Sequence[str], unit_ms: int, places: sa.Select[Any], names: frozenset[str]
) -> sa.CompoundSelect[Any]:
    """Return the rows of `keys` and `SUMS` that a report adds up.

    `keys` are `bucket` (a number of `unit_ms`) or columns. `places` selects the projects' repository IDs. `names` are
    the filters: `user`, `billable`, `invoiced`, or `unbilled` for what an invoice can claim: finished, billable, and
    not invoiced.
    """
    found: list[sa.Select[Any]] = []
    unbilled = "unbilled" in names
    for grain, most in zip(grains, (1, _ENDS), strict=False):
        assert "bucket" not in keys or unit_ms == UNITS[grain], "the periods are the buckets"
        of_grain = _summed(timesheet_sums, keys, _sums.period).where(_sums.grain == sa.literal_column(f"{grain:d}"))
        found += [of_grain.where(_within(_sums.period, f"grain{grain:d}_{number}")) for number in range(most)]
    if grains:
        changed = _summed(timesheet_changes, keys, _changes.start_time // unit_ms)
        found.append(changed.where(_within(_changes.start_time, "summed_0")))
        if unbilled:  # the sums contain paused timers
            found.append(_of_timesheets("summed_0", keys, unit_ms, sign=-1).where(sa.text(IS_PAUSED)))
        else:
            found.append(_of_timesheets("summed_0", keys, unit_ms).where(timesheets.c.is_active))
    raw = (_of_timesheets(f"raw_{number}", keys, unit_ms) for number in range(_ENDS))
    found += [each.where(timesheets.c.finished) if unbilled else each for each in raw]
    return sa.union_all(*(_filtered(each, places, names) for each in found))


def _filtered(part: sa.Select[Any], places: sa.Select[Any], names: frozenset[str]) -> sa.Select[Any]:
    table = part.get_final_froms()[0]
    invoiced = timesheets.c.invoice_id.is_not(None) if table is timesheets else table.c.invoiced
    named = accounts.alias("named")
    user = sa.select(named.c.id).where(named.c.login_key == sa.bindparam("user")).scalar_subquery()
    conditions = {
        "user": table.c.user_id == user,
        "billable": table.c.billable == sa.bindparam("billable", type_=sa.Boolean()),
        "invoiced": invoiced == sa.bindparam("invoiced", type_=sa.Boolean()),
        "unbilled": sa.and_(table.c.billable, sa.not_(invoiced)),
    }
    return part.where(table.c.repository_id.in_(places), *(conditions[name] for name in sorted(names)))


def _summed(table: sa.Table, keys: Sequence[str], bucket: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Select `keys` and `SUMS` of a table that contains sums."""
    billable_ms = sa.case((table.c.billable, table.c.duration_ms), else_=0).label("billable_ms")
    sums = (table.c.timesheets, table.c.duration_ms, billable_ms, table.c.amount_minor)
    return sa.select(*_key_columns(table, keys, bucket), *sums)


def _of_timesheets(name: str, keys: Sequence[str], unit_ms: int, sign: Literal[1, -1] = 1) -> sa.Select[Any]:
    sums: dict[str, sa.ColumnElement[int]] = {
        "timesheets": sa.literal_column("1"),
        "duration_ms": _elapsed,
        "billable_ms": sa.case((timesheets.c.billable, _elapsed), else_=0),
        "amount_minor": sa.case((_paid, _amount), else_=0),
    }
    return sa.select(
        *_key_columns(timesheets, keys, timesheets.c.start_time // unit_ms),
        *((each if sign == 1 else -each).label(column) for column, each in sums.items()),
    ).where(_within(timesheets.c.start_time, name))


def _key_columns(table: sa.Table, keys: Sequence[str], bucket: sa.ColumnElement[int]) -> list[sa.ColumnElement[Any]]:
    task = table.c.task_id if table is not timesheets else sa.func.coalesce(table.c.task_id, "")
    others: dict[str, sa.ColumnElement[Any]] = {"bucket": bucket, "task_id": task}
    return [(others[each] if each in others else table.c[each]).label(each) for each in keys]
