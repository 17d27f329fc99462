"""What becomes of deleted projects: they can be restored for 30 days, then they are gone with everything in them."""

from __future__ import annotations

import structlog

from workhook.http.calls import Services
from workhook.identity import audit, removal
from workhook.storage import Transaction
from workhook.storage.sweeping import for_each_isolated
from workhook.work.projects import trash_queries

log = structlog.get_logger(__name__)


async def purge(services: Services, now: int) -> int:
    """Remove for good the projects that were deleted over 30 days ago. Answers how many.

    In small transactions, so that nobody waits for a large project: one that is half gone when the process dies is
    taken up again. A project whose webhooks still have deliveries to make waits for these. Several processes may do
    this at once. Raises `Unavailable`.
    """
    before = now - trash_queries.KEPT_MS
    found = await trash_queries.deleted_before(services.database, before)
    return await for_each_isolated("deleted_projects", found, lambda each: _purge_one(services, each, before))


async def _purge_one(services: Services, repository_id: int, before: int) -> bool:
    blobs: set[str] = set()

    async def empty_some(tx: Transaction) -> bool | None:
        """Whether it is gone; None if it has to stay."""
        taken = await trash_queries.lock_expired(tx, repository_id, before)
        if taken is None or not await removal.forget(tx, repository_id):
            return None
        blobs.update(await trash_queries.blobs_of(tx, repository_id))
        if not await trash_queries.empty(tx, repository_id):
            return False
        await trash_queries.remove(tx, repository_id)
        await audit.record(tx, None, "project.purge", taken["name"], account_id=taken["account_id"])
        return True

    while not (emptied := await services.database.in_transaction(empty_some)):
        if emptied is None:
            return False
    # After the commit: a process that dies in between leaves content that no file has, which is swept later.
    await services.blobs.delete(sorted(blobs))
    log.info("project_purged", repository_id=repository_id)
    return True
