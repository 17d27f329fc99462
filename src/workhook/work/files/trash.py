"""What becomes of deleted files: they can be restored for 30 days, then they are gone, their content included."""

from __future__ import annotations

from functools import partial

import structlog

from workhook.core.clock import DAY_MS
from workhook.core.ids import least_id
from workhook.http.calls import Services
from workhook.storage.sweeping import in_batches
from workhook.work.files import queries

KEPT_MS = 30 * DAY_MS
ORPHAN_MS = DAY_MS
"""No upload takes so long from its last byte to its row."""
BATCH = 100

log = structlog.get_logger(__name__)


async def purge(services: Services, now: int) -> int:
    """Remove what was deleted too long ago, and what uploads that died left in the store. Answers how many files.

    Row first, blob after the commit: a crash between leaves a blob that the next run sweeps, never a file without its
    content. Several processes may do this at once. Raises `Unavailable`.
    """
    purged = await _purge_rows(services, now - KEPT_MS)
    await _sweep(services, now - ORPHAN_MS)
    return purged


async def _purge_rows(services: Services, before: int) -> int:
    async def some(limit: int, offset: int) -> int:
        remove = partial(queries.purge_files, before=before, limit=limit, offset=offset)
        blobs = await services.database.in_transaction(remove)
        await services.blobs.delete(blobs)
        return len(blobs)

    return await in_batches("deleted_files", BATCH, some)


async def _sweep(services: Services, before: int) -> None:
    """What is older than the database was stored under another one. A server that is started with an empty database by
    mistake must not take the files of the right one for its own leftovers."""
    since = await queries.first_account_at(services.database)
    if since is None:
        return
    async for found in services.blobs.older_than(before):
        names = [name for name in found if name >= least_id("blb", since)]
        if len(names) < len(found):
            log.warning("blobs_of_another_database", count=len(found) - len(names))
        used = await queries.blobs_in_use(services.database, names) if names else set()
        orphans = [name for name in names if name not in used]
        await services.blobs.delete(orphans)
        if orphans:
            log.info("blobs_swept", count=len(orphans))
    if drafts := await services.blobs.delete_old_drafts(before):
        log.info("drafts_swept", count=drafts)
