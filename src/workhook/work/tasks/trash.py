"""What becomes of deleted tasks: they can be restored for 30 days, then they are gone with their comments."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.storage.metadata import big
from workhook.storage.sweeping import in_batches
from workhook.work.tasks.tables import tasks
from workhook.work.timesheets.tables import timesheets

KEPT_MS = 30 * DAY_MS
BATCH = 100

_deleted = tasks.alias("deleted")
_over = (
    sa.select(_deleted.c.id)
    .where(
        _deleted.c.deleted_at < big("before"),
        # Somebody's time was recorded on it, and is to be billed by its name.
        ~sa.exists().where(timesheets.c.task_id == _deleted.c.id),
    )
    .order_by(_deleted.c.deleted_at)
    .limit(big("limit"))
    .offset(big("offset"))
    # Another process that does the same takes the next ones.
    .with_for_update(of=_deleted, skip_locked=True)
)
_purge = sa.delete(tasks).where(tasks.c.id.in_(_over))


async def purge(services: Services, now: int) -> int:
    """Remove the tasks that were deleted over 30 days ago; one that time was recorded on stays where it is. Answers
    how many. In small transactions, and several processes may do this at once. Raises `Unavailable`.
    """

    async def some(limit: int, offset: int) -> int:
        params = {"before": now - KEPT_MS, "limit": limit, "offset": offset}
        return await services.database.in_transaction(lambda tx: tx.execute(_purge, params))

    return await in_batches("deleted_tasks", BATCH, some)
