"""What becomes of deleted tasks: they can be restored for 30 days, then they are gone with their comments."""

from __future__ import annotations

from typing import Literal

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.tasks.tables import tasks
from workhook.work.timesheets.tables import timesheets

KEPT_MS = 30 * DAY_MS
BATCH = 100

_trashed = (
    sa.select(tasks.c.id, tasks.c.title, tasks.c.deleted_at)
    .where(tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_not(None))
    .order_by(tasks.c.deleted_at.desc(), tasks.c.id.desc())
    .limit(big("limit"))
)
_over = (
    sa.select(tasks.c.id)
    .where(
        tasks.c.deleted_at < big("before"),
        # Somebody's time was recorded on it, and is to be billed by its name.
        ~sa.exists().where(timesheets.c.task_id == tasks.c.id),
    )
    .order_by(tasks.c.deleted_at)
    .limit(big("limit"))
    # Another process that does the same takes the next ones.
    .with_for_update(of=tasks, skip_locked=True)
)
_purge = sa.delete(tasks).where(tasks.c.id.in_(_over))


class TrashedTask(msgspec.Struct, frozen=True):
    """`deleted_at`: milliseconds since the epoch."""

    id: str
    title: str
    deleted_at: int
    type: Literal["task"] = "task"


async def trashed(reader: Reader, repository_id: int, *, limit: int) -> list[TrashedTask]:
    """The deleted tasks of a project that can be restored, the last deleted first."""
    rows = await reader.fetch_all(_trashed, {"repository_id": repository_id, "limit": limit})
    return [TrashedTask(row["id"], row["title"], row["deleted_at"]) for row in rows]


async def purge(services: Services, now: int) -> int:
    """Remove the tasks that were deleted over 30 days ago; one that time was recorded on stays where it is. Answers
    how many. In small transactions, and several processes may do this at once. Raises `Unavailable`.
    """
    purged = 0
    while True:
        async with services.database.transaction() as tx:
            count = await tx.execute(_purge, {"before": now - KEPT_MS, "limit": BATCH})
        purged += count
        if count < BATCH:
            return purged
