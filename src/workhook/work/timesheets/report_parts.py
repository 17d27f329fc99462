"""What a report adds up: sums where a whole period is asked for, and timesheets at the ends of the span.

A span from one moment to another is covered by periods, the longest first; what is left at its ends is shorter than the
shortest of them. To the sums comes what was noted since they were made, and what runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.core.clock import HOUR_MS
from workhook.identity.tables import accounts
from workhook.storage.metadata import big
from workhook.work.timesheets.sum_tables import UNITS, Grain, timesheet_changes, timesheet_sums
from workhook.work.timesheets.tables import timesheets

ALWAYS = (0, 1 << 52)
"""The span of a report without bounds: longer than any time that can be given."""

Span = tuple[int, int]
_NOTHING: Span = (0, 0)
_ENDS = 2

now, _since, _rate = big("now"), timesheets.c.running_since, timesheets.c.billable_rate_minor
# `rules.elapsed_ms` and `rules.amount_minor`; the hours are split off so that the product stays within 64 bits.
_elapsed = timesheets.c.duration_ms + sa.case((sa.and_(timesheets.c.is_active, _since < now), now - _since), else_=0)
_amount = (_elapsed // HOUR_MS) * _rate + ((_elapsed % HOUR_MS) * _rate + HOUR_MS // 2) // HOUR_MS
_paid = sa.and_(timesheets.c.billable, _rate.is_not(None))
SUMS = ("timesheets", "duration_ms", "billable_ms", "amount_minor")


def cover(since: int, to: int, grains: Sequence[Grain]) -> dict[str, int]:
    """The parameters of `parts` for the span from `since` until before `to`. `grains`: the longest first."""
    left: list[Span] = [(since, to)] if since < to else []
    params, summed = dict[str, int](), list[int]()
    for grain, most in zip(grains, (1, _ENDS), strict=False):
        unit, found, rest = UNITS[grain], list[Span](), list[Span]()
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


def _name(params: dict[str, int], name: str, spans: Sequence[Span], most: int) -> None:
    assert len(spans) <= most, "ends that are no whole period are two at most"
    for number in range(most):
        params[f"{name}_{number}_since"], params[f"{name}_{number}_to"] = (*spans, *[_NOTHING] * most)[number]


def _within(column: sa.ColumnElement[int], name: str) -> sa.ColumnElement[bool]:
    """The first condition is of the parameters alone: what is empty is not looked at anywhere."""
    first, last = big(f"{name}_since"), big(f"{name}_to")
    return sa.and_(first < last, column >= first, column < last)


def parts(
    grains: Sequence[Grain], keys: Sequence[str], unit_ms: int, places: sa.Select[Any], names: frozenset[str]
) -> sa.CompoundSelect[Any]:
    """Rows of `keys` and `SUMS` that a report adds up. `keys`: `bucket` (a number of `unit_ms`), or columns.
    `places`: the projects' repository ids. `names`: the filters; `user`, `billable`, `invoiced`."""
    found: list[sa.Select[Any]] = []
    for grain, most in zip(grains, (1, _ENDS), strict=False):
        found += [_of_sums(grain, f"grain{grain:d}_{number}", keys, unit_ms) for number in range(most)]
    if grains:
        found += [_of_changes(keys, unit_ms), _of_timesheets("summed_0", keys, unit_ms).where(timesheets.c.is_active)]
    found += [_of_timesheets(f"raw_{number}", keys, unit_ms) for number in range(_ENDS)]
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
    }
    return part.where(table.c.repository_id.in_(places), *(conditions[name] for name in sorted(names)))


def _of_sums(grain: Grain, name: str, keys: Sequence[str], unit_ms: int) -> sa.Select[Any]:
    sums = timesheet_sums.c
    if "bucket" in keys:
        assert unit_ms == UNITS[grain], "the periods are the buckets"
    return sa.select(
        *_keys(timesheet_sums, keys, sums.period),
        sums.timesheets,
        sums.duration_ms,
        sa.case((sums.billable, sums.duration_ms), else_=0).label("billable_ms"),
        sums.amount_minor,
    ).where(sums.grain == sa.literal_column(f"{grain:d}"), _within(sums.period, name))


def _of_changes(keys: Sequence[str], unit_ms: int) -> sa.Select[Any]:
    notes = timesheet_changes.c
    return sa.select(
        *_keys(timesheet_changes, keys, notes.start_time // unit_ms),
        notes.timesheets,
        notes.duration_ms,
        sa.case((notes.billable, notes.duration_ms), else_=0).label("billable_ms"),
        notes.amount_minor,
    ).where(_within(notes.start_time, "summed_0"))


def _of_timesheets(name: str, keys: Sequence[str], unit_ms: int) -> sa.Select[Any]:
    return sa.select(
        *_keys(timesheets, keys, timesheets.c.start_time // unit_ms),
        sa.literal_column("1").label("timesheets"),
        _elapsed.label("duration_ms"),
        sa.case((timesheets.c.billable, _elapsed), else_=0).label("billable_ms"),
        sa.case((_paid, _amount), else_=0).label("amount_minor"),
    ).where(_within(timesheets.c.start_time, name))


def _keys(table: sa.Table, keys: Sequence[str], bucket: sa.ColumnElement[int]) -> list[sa.ColumnElement[Any]]:
    task = table.c.task_id if table is not timesheets else sa.func.coalesce(table.c.task_id, "")
    others: dict[str, sa.ColumnElement[Any]] = {"bucket": bucket, "task_id": task}
    return [(others[each] if each in others else table.c[each]).label(each) for each in keys]
