"""How many bytes the files of one organization (or person) may have together."""

from __future__ import annotations

import sqlalchemy as sa
from prometheus_client import Counter

from workhook.core.errors import TooLarge
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big
from workhook.work.access import Access
from workhook.work.files.tables import files

MIB = 2**20

REFUSALS = Counter("workhook_quota_refusals_total", "Changes that a quota of an organization refused.", ["quota"])

_used = (
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(files.c.size), 0), sa.BigInteger).label("bytes"))
    .join_from(projects, files, files.c.repository_id == projects.c.repository_id)
    .where(projects.c.account_id == big("account_id"))
)
# Uploads of one organization end one after the other, so that each counts those before it.
_lock = sa.select(accounts.c.id).where(accounts.c.id == big("account_id")).with_for_update(key_share=True)


async def require_room(reader: Reader, access: Access, more_bytes: int, max_mb: int) -> None:
    """Raises `TooLarge` unless a file of `more_bytes` fits beside those that the project's owner has. `max_mb` 0: no
    limit."""
    if not max_mb:
        return
    row = await reader.fetch_one(_used, {"account_id": access.repository.owner.id})
    used = row["bytes"] if row else 0
    if used + more_bytes <= max_mb * MIB:
        return
    REFUSALS.labels("bytes").inc()
    # How much an organization has is no business of its clients.
    uses = "" if access.is_client else f", and {used / MIB:.1f} MiB are used"
    message = (
        f"The file does not fit: an organization's files may have {max_mb} MiB together (organization_max_mb){uses}. "
        "Deleted files count for 30 days more. Delete files, or ask whoever runs the server for more."
    )
    raise TooLarge(message, code="storage_quota")


async def take_room(tx: Transaction, access: Access, more_bytes: int, max_mb: int) -> None:
    """`require_room`, exactly: until the transaction ends no other upload to the account passes here."""
    if max_mb:
        await tx.fetch_one(_lock, {"account_id": access.repository.owner.id})
        await require_room(tx, access, more_bytes, max_mb)
