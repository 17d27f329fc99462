"""Deleted files, which can be restored for 30 days and are then removed together with their content."""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from workhook.core.clock import DAY_MS
from workhook.core.ids import lower_bound_id
from workhook.http.calls import Services
from workhook.identity.tables import accounts
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.sweeping import in_batches
from workhook.work.files.schemas import files
from workhook.work.kernel.settings import billing_logos

KEPT_MS = 30 * DAY_MS
ORPHAN_MS = DAY_MS
"""Longer than any upload takes from its last byte to its row."""
BATCH = 100

log = structlog.get_logger(__name__)

_deleted = files.alias("deleted")
_old = (
    sa.select(_deleted.c.id)
    .where(_deleted.c.deleted_at < bigint_param("before"))
    .order_by(_deleted.c.deleted_at)
    .limit(bigint_param("limit"))
    .offset(bigint_param("offset"))
)
_purge = (
    # Checks the row again, so that a restore which this statement waited for keeps the file.
    sa.delete(files).where(files.c.id.in_(_old), files.c.deleted_at < bigint_param("before")).returning(files.c.blob)
)
_first_account_at = sa.select(accounts.c.created_at).order_by(accounts.c.id).limit(1)
_blobs_in_use = sa.union_all(
    *(sa.select(table.c.blob).where(any_of(table.c.blob, "blobs")) for table in (files, billing_logos))
)


async def purge(services: Services, now: int) -> int:
    """Remove expired files from the trash, and blobs of crashed uploads. Returns the number of files.

    Each row is deleted before its blob, after the commit. A crash in between leaves a blob for the next run to remove.
    Several processes may run this concurrently.
    """
    purged = await _purge_files(services, now - KEPT_MS)
    await _purge_blobs(services, now - ORPHAN_MS)
    return purged


async def _purge_files(services: Services, before: int) -> int:
    async def batch(limit: int, offset: int) -> int:
        params = {"before": before, "limit": limit, "offset": offset}

        async def remove(tx: Transaction) -> list[str]:
            return [row["blob"] for row in await tx.fetch_all(_purge, params)]

        blobs = await services.database.in_transaction(remove)
        await services.blobs.delete(blobs)
        return len(blobs)

    return await in_batches("deleted_files", BATCH, batch)


async def _purge_blobs(services: Services, before: int) -> None:
    """Remove blobs that belong to no file or logo.

    Blobs that are older than the database are kept, because a server started with an empty database by mistake must not
    remove the files of the right one.
    """
    first = await services.database.fetch_one(_first_account_at)
    if first is None:  # without accounts there were no uploads
        return
    async for found in services.blobs.older_than(before):
        names = [name for name in found if name >= lower_bound_id("blb", first["created_at"])]
        if len(names) < len(found):
            log.warning("foreign_blobs_kept", count=len(found) - len(names))
        rows = await services.database.fetch_all(_blobs_in_use, {"blobs": names}) if names else []
        used = {row["blob"] for row in rows}
        orphans = [name for name in names if name not in used]
        await services.blobs.delete(orphans)
        if orphans:
            log.info("blobs_swept", count=len(orphans))
    if drafts := await services.blobs.delete_old_drafts(before):
        log.info("drafts_swept", count=drafts)
