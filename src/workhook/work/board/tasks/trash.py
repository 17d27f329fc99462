"""What becomes of deleted tasks: they can be restored for 30 days, then they are gone with their comments."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.storage import Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.sweeping import in_order
from workhook.work.board.tasks.schemas import tasks
from workhook.work.time.timesheets.schemas import timesheets

KEPT_MS = 30 * DAY_MS
BATCH = 100

_deleted = tasks.alias("deleted")
_due = (
    _deleted.c.deleted_at < big("before"),
    # Somebody's time was recorded on it, and is to be billed by its name.
    ~sa.exists().where(timesheets.c.task_id == _deleted.c.id),
)
_following = (
    sa.select(_deleted.c.id, _deleted.c.deleted_at)
    .where(
        *_due,
        _deleted.c.deleted_at >= big("last_at"),
        sa.or_(_deleted.c.deleted_at > big("last_at"), _deleted.c.id > sa.bindparam("last_id", type_=sa.Text())),
    )
    .order_by(_deleted.c.deleted_at, _deleted.c.id)
    .limit(big("limit"))
)
# Somebody may have restored it since. Another process that does the same takes the next ones.
_these = sa.select(_deleted.c.id).where(any_of(_deleted.c.id, "ids"), *_due)
_purge = sa.delete(tasks).where(tasks.c.id.in_(_these.with_for_update(of=_deleted, skip_locked=True)))


async def purge(services: Services, now: int) -> int:
    """Remove the tasks that were deleted over 30 days ago; one that time was recorded on stays where it is. Answers
    how many. In small transactions, and several processes may do this at once. Raises `Unavailable`.
    """
    database, due = services.database, {"before": now - KEPT_MS}

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        behind = {"last_at": last["deleted_at"], "last_id": last["id"]} if last else {"last_at": -1, "last_id": ""}
        return await database.fetch_all(_following, {**due, **behind, "limit": limit})

    async def remove(last: Row | None, rows: Sequence[Row]) -> int:
        these = {**due, "ids": [row["id"] for row in rows]}
        return await database.in_transaction(lambda tx: tx.execute(_purge, these))

    return await in_order("deleted_tasks", BATCH, following, remove)
