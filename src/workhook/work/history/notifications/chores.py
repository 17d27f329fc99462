"""Notification chores: notifying assignees of approaching due dates, and pruning old notifications.

A task records the due date its assignees were notified of, so they are notified once per due date and again when it
changes. Tasks with an unannounced due date have their own index, so announced ones are not scanned again. Notifications
are kept for 90 days, at most the newest 1,000 per person.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.http.calls import Services
from workhook.identity.notifications import notification_statements
from workhook.identity.tables import accounts, notifications, projects
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.sweeping import in_batches, in_order
from workhook.work.board.tasks.assignees import is_client_there, on_team
from workhook.work.board.tasks.schemas import needs_reminder, task_assignees, tasks

KEPT_MS = 90 * DAY_MS
KEPT_MAX = 1_000
BATCH, PEOPLE = 1_000, 100
_LOOKS_BACK_MS = 26 * HOUR_MS
"""Only people with a notification since the last run can exceed the maximum."""

_c = notifications.c
_aged = notifications.alias("aged")
_old = (
    sa.select(_aged.c.id)
    .where(_aged.c.created_at < bigint_param("before"))
    .order_by(_aged.c.created_at)
    .limit(bigint_param("limit"))
)
_forget = sa.delete(notifications).where(_c.id.in_(_old.with_for_update(skip_locked=True)))
_users_with_notifications = (
    sa.select(_c.user_id)
    .where(_c.created_at >= bigint_param("since"), _c.user_id > bigint_param("after"))
    .distinct()
    .order_by(_c.user_id)
    .limit(bigint_param("limit"))
)
_newer = notifications.alias("newer")
_first_beyond = (
    sa.select(_newer.c.id)
    .where(_newer.c.user_id == bigint_param("user_id"))
    .order_by(_newer.c.id.desc())
    .limit(sa.literal_column("1"))
    .offset(bigint_param("kept"))
    .scalar_subquery()
)
_shorten = sa.delete(notifications).where(_c.user_id == bigint_param("user_id"), _c.id <= _first_beyond)


async def prune(services: Services, now: int) -> int:
    """Delete expired notifications and those beyond each person's maximum, and return their number."""
    database = services.database

    async def forget(limit: int, _: int) -> int:
        params = {"before": now - KEPT_MS, "limit": limit}
        return await database.in_transaction(lambda tx: tx.execute(_forget, params))

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        params = {"since": now - _LOOKS_BACK_MS, "after": last["user_id"] if last else 0, "limit": limit}
        return await database.fetch_all(_users_with_notifications, params)

    async def shorten(_: Row | None, rows: Sequence[Row]) -> int:
        async def each(tx: Transaction) -> int:
            return sum([await tx.execute(_shorten, {"user_id": row["user_id"], "kept": KEPT_MAX}) for row in rows])

        return await database.in_transaction(each)

    forgotten = await in_batches("notifications", BATCH, forget)
    return forgotten + await in_order("notifications", PEOPLE, following, shorten)


DEADLINES_BATCH = 200

_DAY = sa.literal_column(str(DAY_MS), sa.BigInteger)

# A due date without a time lasts until the end of the day. Tasks locked by another process are skipped.
_due = (
    sa.select(tasks.c.id)
    .where(
        needs_reminder,
        tasks.c.deadline > bigint_param("day_ago"),
        tasks.c.deadline <= bigint_param("until"),
        sa.or_(tasks.c.deadline > bigint_param("now"), tasks.c.deadline % _DAY == sa.literal_column("0")),
    )
    .order_by(tasks.c.deadline)
    .limit(bigint_param("limit"))
    .with_for_update(skip_locked=True)
)

_by_task_ids = any_of(tasks.c.id, "ids")

_assigned = (
    sa.select(accounts)
    .select_from(
        tasks.join(task_assignees, task_assignees.c.task_id == tasks.c.id)
        .join(accounts, accounts.c.id == task_assignees.c.user_id)
        .join(projects, projects.c.repository_id == tasks.c.repository_id)
    )
    .where(
        _by_task_ids,
        projects.c.deleted_at.is_(None),
        projects.c.archive.is_(sa.false()),
        sa.or_(on_team, is_client_there),
    )
)

_tell = notification_statements(
    "deadline",
    _assigned,
    {
        "task_id": tasks.c.id,
        "repository_id": tasks.c.repository_id,
        "account_id": projects.c.account_id,
        "detail": sa.cast(tasks.c.deadline, sa.Text),
    },
)

_note = sa.update(tasks).where(_by_task_ids).values(deadline_told=tasks.c.deadline)


async def notify_of_due_dates(services: Services, now: int) -> int:
    """Notify assignees of due dates within a day after `now`, except in archived projects.

    Returns the number of tasks read.
    """

    span = {"now": now, "day_ago": now - DAY_MS, "until": now + DAY_MS}

    async def some(limit: int, _: int) -> int:
        async def tell(tx: Transaction) -> int:
            rows = await tx.fetch_all(_due, {**span, "limit": limit})
            if rows:
                ids = {"ids": [row["id"] for row in rows]}
                await _tell.execute(tx, {**ids, "actor_id": None, "now": now})
                await tx.execute(_note, ids)
            return len(rows)

        return await services.database.in_transaction(tell)

    return await in_batches("deadlines", DEADLINES_BATCH, some)
