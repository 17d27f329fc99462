"""The health of a hook: results of its deliveries in the last 24 hours, its backlog, and why it is inactive.

Every read is a bounded index range, however many deliveries, dispatches and audit entries are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core import json
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms, to_millis_text
from workhook.hooks import history
from workhook.hooks.history import Filters, Shape
from workhook.hooks.schemas import DeliveryId, Hook
from workhook.hooks.tables import deliveries, dispatches, succeeded
from workhook.http.wire_types import Time
from workhook.identity.tables import audit_log
from workhook.storage import Reader, Row
from workhook.storage.index_ranges import HIGHEST, ColumnValue, IdRange, index_range
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect

SCAN_MAX = 10_000
HOURS = 24
_ENTRIES = 1000  # of the audit log, per action
_REASONS = {
    "right_lost": "The users who authorize the app may no longer manage webhooks here.",
    "consent_taken_back": "No user who can manage webhooks here still authorizes the app.",
}


_Millis = Annotated[int, Meta(ge=0)]


class HealthBucket(msgspec.Struct):
    """The deliveries of one hour."""

    at: Annotated[Time, Meta(description="Start of the hour.")]
    succeeded: Annotated[int, Meta(ge=0)]
    failed: Annotated[int, Meta(ge=0)]


class LastFailure(msgspec.Struct):
    """The newest failed delivery of all that are kept."""

    id: DeliveryId
    at: Time
    status: Annotated[str, Meta(description="Why it failed.", examples=["Invalid HTTP Response: 500"])]
    status_code: Annotated[int, Meta(ge=200, le=599, description="As in the delivery.", examples=[500])]


class HookHealth(msgspec.Struct):
    """The health of a webhook over the last 24 hours."""

    active: Annotated[bool, Meta(description="Whether events are delivered to it.")]
    off_reason: Annotated[
        str | None,
        Meta(
            description="Reason why Workhook disabled it; null if it did not.",
            examples=["The receiver answered 410 Gone."],
        ),
    ]
    since: Annotated[Time, Meta(description="When the counted deliveries begin: 24 hours ago, or later if `capped`.")]
    deliveries: Annotated[int, Meta(ge=0, le=SCAN_MAX, description="Number of attempts since then.")]
    capped: Annotated[bool, Meta(description="True if there were more: only the newest 10,000 are counted.")]
    success_rate: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Share of attempts with a 2xx response; null without attempts.", examples=[0.998]),
    ]
    p50_ms: Annotated[_Millis | None, Meta(description="Median duration.", examples=[80])]
    p95_ms: Annotated[_Millis | None, Meta(description="95th percentile of the duration.", examples=[420])]
    buckets: Annotated[
        list[HealthBucket], Meta(min_length=HOURS, max_length=HOURS, description="The last 24 hours, oldest first.")
    ]
    pending: Annotated[int, Meta(ge=0, le=SCAN_MAX, description="Events waiting for a first attempt or a retry.")]
    pending_capped: Annotated[bool, Meta(description="True if more than 10,000 are waiting.")]
    oldest_pending_at: Annotated[Time | None, Meta(description="When the oldest due event became due.")]
    last_failure: LastFailure | None


# --- deliveries -------------------------------------------------------------------------------------------------------


def _numbers(dialect: str) -> sa.Select[Any]:
    """Select a row for each hour with deliveries. The last columns have the same value in every row."""
    row, beyond = deliveries.alias("newest_row"), deliveries.alias("beyond_row")
    newest = (
        index_range(dialect, [(row.c.hook_id, bigint_param("hook_id"))], row.c.id, newest_first=True)
        .add_columns(row.c.delivered_at, row.c.duration_ms, succeeded(row).label("succeeded"))
        .subquery("newest")
    )
    hour = (newest.c.delivered_at - bigint_param("since")) // sa.literal_column(str(HOUR_MS), sa.BigInteger)
    looked = (
        sa.select(newest.c.delivered_at, newest.c.duration_ms, newest.c.succeeded, hour.label("hour"))
        .where(newest.c.delivered_at >= bigint_param("since"))
        .cte("looked")
        .prefix_with("MATERIALIZED")
    )
    ranked = sa.select(
        looked.c.duration_ms,
        sa.func.row_number().over(order_by=looked.c.duration_ms).label("place"),
        sa.func.count().over().label("number"),
    ).cte("ranked")

    def percentile(percent: int) -> sa.ColumnElement[Any]:
        share = ranked.c.number * sa.literal_column(str(percent), sa.BigInteger)
        fitting = ranked.c.place * sa.literal_column("100", sa.BigInteger) >= share
        return sa.select(sa.func.min(ranked.c.duration_ms)).where(fitting).scalar_subquery().label(f"p{percent}")

    left_out = (
        index_range(dialect, [(beyond.c.hook_id, bigint_param("hook_id"))], beyond.c.id, newest_first=True)
        .with_only_columns(beyond.c.delivered_at)
        .limit(sa.literal_column("1"))
        .offset(bigint_param("limit"))
    )
    return sa.select(
        looked.c.hour,
        sa.func.count().label("number"),
        sa.func.sum(sa.case((looked.c.succeeded, 1), else_=0)).label("succeeded"),
        sa.func.min(looked.c.delivered_at).label("oldest"),
        percentile(50),
        percentile(95),
        left_out.scalar_subquery().label("left_out"),
    ).group_by(looked.c.hour)


_numbers_of_hours = PerDialect.made_by(_numbers)


def _of_failure(table: sa.FromClause, shape: Shape) -> list[sa.ColumnElement[Any]]:
    return [table.c[name] for name in ("id", "delivered_at", "status", "status_code")]


async def _last_failure(reader: Reader, hook_id: int) -> LastFailure | None:
    rows = await history.page(
        reader, hook_id, Filters(status="failure"), IdRange(), limit=1, newest_first=True, answered=_of_failure
    )
    for row in rows:
        return LastFailure(row["id"], to_millis_text(row["delivered_at"]), row["status"], row["status_code"])
    return None


def _buckets(rows: Sequence[Row], since: int) -> list[HealthBucket]:
    """Return the hourly buckets. Deliveries of a worker whose clock is ahead count in the last hour."""
    found = [HealthBucket(to_millis_text(since + hour * HOUR_MS), 0, 0) for hour in range(HOURS)]
    for row in rows:
        bucket = found[min(row["hour"], HOURS - 1)]
        bucket.succeeded += row["succeeded"]
        bucket.failed += row["number"] - row["succeeded"]
    return found


# --- backlog ----------------------------------------------------------------------------------------------------------

_due = (
    sa.select(dispatches.c.id)
    .where(dispatches.c.hook_id == bigint_param("hook_id"), dispatches.c.next_attempt_at.is_not(None))
    .order_by(dispatches.c.next_attempt_at, dispatches.c.id)
    .limit(bigint_param("limit"))
    .subquery("due")
)
_counted = sa.select(sa.func.count().label("number"), sa.func.min(_due.c.id).label("oldest")).subquery("counted")
_oldest = dispatches.alias("oldest")
_waiting = sa.select(
    _counted.c.number,
    sa.select(_oldest.c.created_at).where(_oldest.c.id == _counted.c.oldest).scalar_subquery().label("created_at"),
)

# --- reason for inactivity --------------------------------------------------------------------------------------------


def _changes(dialect: str) -> sa.Select[Any]:
    """Select the hook's changes among the account's newest. Not joined by ID: PostgreSQL might scan in ID order."""
    ways = []
    for action in ("deactivate", "update"):
        entry = audit_log.alias(f"entry_of_{action}")
        named: ColumnValue = (entry.c.action, sa.literal_column(f"'hook.{action}'", sa.Text))
        alike = [(entry.c.account_id, bigint_param("account_id")), named]
        shown = (entry.c[each] for each in ("action", "detail", "target", "status"))
        newest = index_range(dialect, alike, entry.c.id, newest_first=True).add_columns(*shown)
        ways.append(sa.select(newest.subquery(f"newest_{action}")))
    found = sa.union_all(*ways).subquery("found")
    return (
        sa.select(found.c.action, found.c.detail)
        .where(found.c.target == sa.bindparam("target", type_=sa.Text()), found.c.status.is_(None))  # not refused
        .order_by(found.c.id.desc())
        .limit(sa.literal_column("100"))
    )


_changes_of_hook = PerDialect.made_by(_changes)


async def off_reason(reader: Reader, hook: Hook) -> str | None:
    """Return from the audit log why Workhook deactivated the hook, or None if it is active or a person did so."""
    if hook.active:
        return None
    params = {"account_id": hook.account_id, "target": f"hook/{hook.id}", "low": 0, "high": HIGHEST, "limit": _ENTRIES}
    for row in await reader.fetch_all(_changes_of_hook, params):
        detail = json.decode(row["detail"])
        if row["action"] == "hook.deactivate":
            reason = str(detail.get("reason", ""))
            return _REASONS.get(reason, reason) or None
        if detail.get("active"):  # it was active then, so a person deactivated it later
            return None
    return None


class Waiting(msgspec.Struct, frozen=True):
    """The number of events waiting to be sent or sent again. `capped`: there are more."""

    number: int
    capped: bool = False
    oldest_at: int | None = None


async def waiting(reader: Reader, hook: Hook) -> Waiting:
    """Count the events that would be dropped if the hook were deactivated."""
    row = await reader.fetch_row(_waiting, {"hook_id": hook.id, "limit": SCAN_MAX + 1})
    return Waiting(min(row["number"], SCAN_MAX), row["number"] > SCAN_MAX, row["created_at"])


async def hook_health(reader: Reader, hook: Hook) -> HookHealth:
    """Return the health of a hook. Raises `storage.slow.QueryTooSlow`."""
    now = now_ms()
    since = now - DAY_MS
    low = (await history.moments.bounds(reader, since=since)).low
    params = {"hook_id": hook.id, "since": since, "low": low, "high": HIGHEST, "limit": SCAN_MAX}
    hours = await reader.fetch_slow(_numbers_of_hours, params)
    pending = await waiting(reader, hook)
    number = sum(row["number"] for row in hours)
    capped = bool(hours) and (hours[0]["left_out"] or 0) >= since
    return HookHealth(
        active=hook.active,
        off_reason=await off_reason(reader, hook),
        since=to_millis_text(min(row["oldest"] for row in hours) if capped else since),
        deliveries=number,
        capped=capped,
        success_rate=round(sum(row["succeeded"] for row in hours) / number, 4) if number else None,
        p50_ms=hours[0]["p50"] if hours else None,
        p95_ms=hours[0]["p95"] if hours else None,
        buckets=_buckets(hours, since),
        pending=pending.number,
        pending_capped=pending.capped,
        oldest_pending_at=None if pending.oldest_at is None else to_millis_text(pending.oldest_at),
        last_failure=await _last_failure(reader, hook.id),
    )
