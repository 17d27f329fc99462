"""Finds deliveries of a hook: those matching filters, test deliveries, and those with a given text in the payload.

Filters are not checked row by row. They select index ranges in which every row matches: one for each event that the
hook has had (with the given action, if any), each outcome and each kind of attempt. The first rows of all ranges are
merged, in order of ID. The number of events is bounded by the catalog. Times are converted to ID bounds
(`storage.index_ranges`). Deliveries that were recorded late have their own index, as their IDs do not follow their
times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import SECOND_MS, to_millis_text
from workhook.events.payloads import to_show
from workhook.events.tables import events
from workhook.hooks.schemas import DispatchState
from workhook.hooks.tables import deliveries, dispatches, succeeded
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of, join_few, json_rows
from workhook.storage.index_ranges import IdRange, TimeIndex, index_range
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect

LATE_MS = 5_000  # deliveries recorded later than this are marked
SLACK_MS = 60_000  # all others are written within this time, which exceeds LATE_MS plus the longest statement


def recorded_at(delivered_at: int, now: int) -> int | None:
    """Return `recorded_at` of a delivery recorded now. Times are in milliseconds."""
    return now if now - delivered_at > LATE_MS else None


moments = TimeIndex(deliveries, "delivered_at", SLACK_MS, lambda table: table.c.recorded_at.is_(None))


class Filters(msgspec.Struct):
    """The filters of a list of deliveries. Times are in milliseconds and inclusive."""

    status: str | None = None
    event: str | None = None
    action: str | None = None
    guid: str | None = None
    since: int | None = None
    until: int | None = None
    redelivery: bool | None = None
    ids: list[int] | None = None

    def given(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class Shape(msgspec.Struct, frozen=True):
    """The part of the filters that determines the SQL statement."""

    names: frozenset[str]
    status: str | None
    redelivery: bool | None

    def conditions(self, table: sa.FromClause) -> list[sa.ColumnElement[bool]]:
        column, found = table.c, self.times(table)
        if self.status is not None:
            good = succeeded(table)
            found.append(good if self.status == "success" else sa.not_(good))
        if self.redelivery is not None:
            found.append(column.redelivery if self.redelivery else sa.not_(column.redelivery))
        found += [column[name] == sa.bindparam(name) for name in ("event", "action", "guid") if name in self.names]
        if "ids" in self.names:
            found.append(any_of(column.id, "ids"))
        return found

    def times(self, table: sa.FromClause) -> list[sa.ColumnElement[bool]]:
        at = table.c.delivered_at
        bounds = {"since": at >= bigint_param("since"), "until": at <= bigint_param("until")}
        return [bound for name, bound in bounds.items() if name in self.names]


# --- the state of a delivery's dispatch -------------------------------------------------------------------------------
# The columns are scalar subqueries, not joins, so that the few rows are found by index regardless of the planner's
# statistics. An event has few attempts at one hook.

HELD_MS = 15 * SECOND_MS  # longer than any attempt takes, so the dispatch is not in progress

CODES = 1000  # greater than every status code
_CODES = sa.literal_column(str(CODES), sa.BigInteger)


def _columns_of_dispatch(table: sa.FromClause) -> list[sa.ColumnElement[Any]]:
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


# --- filtered lists ---------------------------------------------------------------------------------------------------

_LISTED = (
    "id", "guid", "delivered_at", "redelivery", "duration_ms", "status", "status_code", "event", "action",
    "repository_id", "installation_id", "throttled_at",
)  # fmt: skip
Answered = Callable[[sa.FromClause, Shape], Sequence[sa.ColumnElement[Any]]]


def items(table: sa.FromClause, shape: Shape | None = None) -> list[sa.ColumnElement[Any]]:
    return [*(table.c[name] for name in _LISTED), *_columns_of_dispatch(table)]


def ids(table: sa.FromClause, shape: Shape) -> list[sa.ColumnElement[Any]]:
    return [table.c.id]


async def page(
    reader: Reader,
    hook_id: int,
    filters: Filters,
    within: IdRange,
    *,
    limit: int,
    newest_first: bool,
    answered: Answered = items,
    more: Mapping[str, object] | None = None,
) -> Sequence[Row]:
    """Return at most `limit` deliveries with IDs within the bounds. Raises `storage.slow.QueryTooSlow`.

    `answered` returns the columns, and `more` has their parameters. Reuse the function: statements are cached by it.
    """
    times = IdRange()
    if filters.guid is None and filters.ids is None:  # these match few rows anyway
        times = await moments.bounds(reader, since=filters.since, until=filters.until)
    given = filters.given("event", "action", "guid", "since", "until", "ids")
    params = {
        **given,
        "hook_id": hook_id,
        "low": max(within.low, times.low),
        "high": min(within.high, times.high),
        # Beyond the time bound, only deliveries that were recorded late can match.
        "late_low": max(within.low, times.low, times.high - 1),
        "late_high": within.high,
        "limit": limit,
        **(more or {}),
    }
    shape = Shape(frozenset(given), filters.status, filters.redelivery)
    # Without these filters, a single index range is sufficient.
    fetch = reader.fetch_slow if filters.given("status", "event", "action", "redelivery") else reader.fetch_all
    return await fetch(_statement(shape, newest_first, answered), params)


@cache
def _statement(shape: Shape, newest_first: bool, answered: Answered) -> PerDialect:
    return PerDialect.made_by(lambda dialect: _written(dialect, shape, newest_first, answered))


def _written(dialect: str, shape: Shape, newest_first: bool, answered: Answered) -> sa.Select[Any]:
    if "guid" in shape.names:
        ways = [_select_by_guid(shape)]
    elif "ids" in shape.names:
        ways = [_listed(shape, newest_first)]
    elif shape.names & {"event", "action"} or shape.status is not None or shape.redelivery is not None:
        ways = [_ranges(dialect, shape, newest_first)]
    else:
        row = deliveries.alias("any_row")
        every = index_range(dialect, [(row.c.hook_id, bigint_param("hook_id"))], row.c.id, newest_first=newest_first)
        ways = [sa.select(every.where(*shape.times(row)).subquery().c.id)]
    if "until" in shape.names and not shape.names & {"guid", "ids"}:
        ways.append(_late(shape, newest_first))
    found = ways[0].subquery("found") if len(ways) == 1 else sa.union_all(*ways).subquery("found")
    first = sa.select(found.c.id).order_by(_order(found.c.id, newest_first)).limit(bigint_param("limit"))
    return (
        sa.select(*answered(deliveries, shape))
        .where(deliveries.c.id.in_(first))  # as a join, SQLite might start from all deliveries
        .order_by(_order(deliveries.c.id, newest_first))
    )


def _order(number: sa.ColumnElement[Any], newest_first: bool) -> sa.ColumnElement[Any]:
    return number.desc() if newest_first else number


def _first(found: sa.Select[Any], number: sa.ColumnElement[Any], newest_first: bool) -> sa.Select[Any]:
    return found.order_by(_order(number, newest_first)).limit(bigint_param("limit"))


def _in_range(row: sa.FromClause, prefix: str = "") -> list[sa.ColumnElement[bool]]:
    return [
        row.c.hook_id == bigint_param("hook_id"),
        row.c.id > bigint_param(f"{prefix}low"),
        row.c.id < bigint_param(f"{prefix}high"),
    ]


def _listed(shape: Shape, newest_first: bool) -> sa.Select[Any]:
    row = deliveries.alias("listed")
    fitting = sa.select(row.c.id).where(*_in_range(row), *shape.conditions(row))
    return sa.select(_first(fitting, row.c.id, newest_first).subquery().c.id)


def _late(shape: Shape, newest_first: bool) -> sa.Select[Any]:
    """Select the deliveries recorded late, beyond the time bound."""
    row = deliveries.alias("late")
    late = sa.select(row.c.id).where(*_in_range(row, "late_"), row.c.recorded_at.is_not(None), *shape.conditions(row))
    return sa.select(_first(late, row.c.id, newest_first).subquery().c.id)


def _select_by_guid(shape: Shape) -> sa.Select[Any]:
    """Select all attempts of one event before filtering, because they are few."""
    row = deliveries.alias("named")
    names = ("id", "hook_id", "event", "action", "redelivery", "status_code", "guid", "delivered_at")
    found = sa.select(*(row.c[name] for name in names)).where(row.c.guid == sa.bindparam("guid"))
    same = found.cte("same").prefix_with("MATERIALIZED")
    return sa.select(same.c.id).where(*_in_range(same), *shape.conditions(same))


def _ranges(dialect: str, shape: Shape, newest_first: bool) -> sa.Select[Any]:
    """Select the first IDs for each event, outcome and kind of attempt."""
    event, kind = _events(shape).subquery("each_event"), _kinds(shape).subquery("each_kind")
    row = deliveries.alias("ranged")
    of_hook, *bounds = _in_range(row)
    conditions = [
        of_hook,
        row.c.event == event.c.event,
        succeeded(row).self_group() == kind.c.succeeded,
        row.c.redelivery == kind.c.redelivery,
        *bounds,
        *shape.times(row),
    ]
    if "action" in shape.names:
        conditions += [row.c.action == sa.bindparam("action"), row.c.action.is_not(None)]
    top = _first(sa.select(row.c.id).where(*conditions), row.c.id, newest_first)
    joined, few = join_few(dialect, event.join(kind, sa.true()), top.correlate(event, kind), deliveries)
    return sa.select(few.c.id).select_from(joined)


def _kinds(shape: Shape) -> sa.CompoundSelect[bool, bool]:
    flags = {True: sa.true(), False: sa.false()}
    outcomes = [flag for flag in flags if shape.status is None or flag == (shape.status == "success")]
    repeats = [flag for flag in flags if shape.redelivery is None or flag == shape.redelivery]
    rows = [
        sa.select(flags[outcome].label("succeeded"), flags[repeat].label("redelivery"))
        for outcome, repeat in product(outcomes, repeats)
    ]
    # OFFSET keeps PostgreSQL from inlining a single row's values into conditions, where NOT would prevent index use.
    return sa.union_all(*rows).offset(sa.literal_column("0"))


def _events(shape: Shape) -> sa.Select[Any]:
    """Select the distinct names of the hook's events (with the given action, if any), with one index probe per name."""
    if "event" in shape.names:
        return sa.select(sa.bindparam("event", type_=sa.Text()).label("event"))

    def next_event(name: str, after: sa.ColumnElement[Any] | None) -> sa.ColumnElement[Any]:
        row = deliveries.alias(name)
        found = sa.select(sa.func.min(row.c.event)).where(row.c.hook_id == bigint_param("hook_id"))
        if "action" in shape.names:
            found = found.where(row.c.action == sa.bindparam("action"), row.c.action.is_not(None))
        return (found if after is None else found.where(row.c.event > after)).scalar_subquery()

    walk = sa.select(next_event("first_event", None).label("event")).cte("walk", recursive=True)
    later = sa.select(next_event("later_event", walk.c.event).correlate(walk)).where(walk.c.event.is_not(None))
    walk = walk.union_all(later)
    return sa.select(walk.c.event).where(walk.c.event.is_not(None))


# --- test deliveries: samples and pushes that were sent again ---------------------------------------------------------

# Such events are never listed. Neither are events about hooks, which are real nevertheless.
_trials = (
    sa.select(deliveries.c.id)
    .join_from(deliveries, events, events.c.id == deliveries.c.event_id)
    .where(
        deliveries.c.hook_id == bigint_param("hook_id"),
        any_of(deliveries.c.id, "ids"),
        sa.not_(events.c.listed),
        sa.not_(events.c.published),
        # Events about hooks without an actor come from Workhook itself.
        sa.or_(events.c.name != sa.literal_column("'hook'", sa.Text()), events.c.actor_id.is_not(None)),
        events.c.name != sa.literal_column("'ping'", sa.Text()),
    )
)


async def find_test_deliveries(reader: Reader, hook_id: int, ids: Sequence[int]) -> frozenset[int]:
    """Return which of the hook's deliveries were tests. Excludes pings, which have their own event."""
    return await _among(reader, _trials, hook_id, ids)


_mine_of_some, _later = deliveries.alias("mine"), deliveries.alias("later")
_repeated = sa.select(_mine_of_some.c.id).where(
    _mine_of_some.c.hook_id == bigint_param("hook_id"),
    any_of(_mine_of_some.c.id, "ids"),
    sa.exists().where(_later.c.guid == _mine_of_some.c.guid, _later.c.id > _mine_of_some.c.id),
)


async def repeated(reader: Reader, hook_id: int, ids: Sequence[int]) -> frozenset[int]:
    """Return which of the hook's deliveries were attempted again later."""
    return await _among(reader, _repeated, hook_id, ids)


async def _among(reader: Reader, statement: sa.Select[Any], hook_id: int, ids: Sequence[int]) -> frozenset[int]:
    rows = await reader.fetch_all(statement, {"hook_id": hook_id, "ids": list(ids)}) if ids else ()
    return frozenset(row["id"] for row in rows)


# --- text search in the payloads of a few deliveries ------------------------------------------------------------------

SEARCHED_MAX = 200
SIZE_MAX = 64 * 1024  # bytes; larger payloads are not searched

_payloads = (
    sa.select(
        deliveries.c.id,
        events.c.size,
        sa.case((events.c.size <= bigint_param("size_max"), events.c.payload), else_=None).label("payload"),
    )
    .join_from(deliveries, events, events.c.id == deliveries.c.event_id)
    .where(deliveries.c.hook_id == bigint_param("hook_id"), any_of(deliveries.c.id, "ids"))
)


class Matches(msgspec.Struct, frozen=True):
    """`ids`: the deliveries whose payload contains the text. `too_large`: the number of deliveries not searched."""

    ids: frozenset[int]
    too_large: int


async def find_text(reader: Reader, hook_id: int, ids: Sequence[int], *texts: str) -> Matches:
    """Search the JSON payloads of up to `SEARCHED_MAX` deliveries, ignoring case and without an index."""
    assert len(ids) <= SEARCHED_MAX, "what is searched has an end"
    wanted, found, too_large = {text.casefold() for text in texts}, set(), 0
    for row in await reader.fetch_all(_payloads, {"hook_id": hook_id, "ids": list(ids), "size_max": SIZE_MAX}):
        if row["payload"] is None:
            too_large += 1
            continue
        payload = to_show(row["payload"]).decode("utf-8", "replace").casefold()
        if any(each in payload for each in wanted):
            found.add(row["id"])
    return Matches(frozenset(found), too_large)
