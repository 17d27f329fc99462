"""Whether a file fits beside what its organization (or person) has."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.http.calls import Call
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big
from workhook.work.access import Access
from workhook.work.files.tables import files
from workhook.work.quota.counting import UsageMemory, memory_of, takes_file, too_large

_used = (
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(files.c.size), 0), sa.BigInteger).label("bytes"))
    .join_from(projects, files, files.c.repository_id == projects.c.repository_id)
    .where(projects.c.account_id == big("account_id"))
)
# Uploads of one organization end one after the other, so that each counts those before it.
_lock = sa.select(accounts.c.id).where(accounts.c.id == big("account_id")).with_for_update(key_share=True)


async def require_room(call: Call, access: Access, more_bytes: int) -> None:
    """Raises `TooLarge` unless a file of `more_bytes` fits beside what the project's owner has."""
    memory = memory_of(call.services)
    if memory is not None and memory.limits.mb:
        await _require(call.database, memory, access, more_bytes)


async def reserve_room(tx: Transaction, call: Call, access: Access, more_bytes: int) -> None:
    """`require_room`, exactly: until the transaction ends no other upload to the account passes here."""
    memory = memory_of(call.services)
    if memory is not None and memory.limits.mb:
        account_id = access.repository.owner.id
        await tx.fetch_one(_lock, {"account_id": account_id})
        beside = await _require(tx, memory, access, more_bytes)
        takes_file(tx, call, memory, account_id, more_bytes, beside=beside)


async def _require(reader: Reader, memory: UsageMemory, access: Access, more_bytes: int) -> int:
    """Files are counted now, events as `memory` has them. Answers the bytes of the files that are there."""
    account_id = access.repository.owner.id
    row = await reader.fetch_one(_used, {"account_id": account_id})
    file_bytes: int = row["bytes"] if row else 0
    known = await memory.usage(account_id)
    used = file_bytes + (known.event_bytes if known else 0)
    if used + more_bytes > memory.limits.bytes:
        raise too_large(memory.limits.mb, None if access.is_client else used)
    return file_bytes
