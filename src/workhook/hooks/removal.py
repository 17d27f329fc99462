"""The webhooks of a repository that goes for good."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.hooks.tables import dispatches, hooks
from workhook.storage import Transaction
from workhook.storage.metadata import big

_waiting = (
    sa.select(dispatches.c.id)
    .join(hooks, hooks.c.id == dispatches.c.hook_id)
    .where(hooks.c.repository_id == big("repository_id"), dispatches.c.next_attempt_at.is_not(None))
    .limit(1)
)
_remove = sa.delete(hooks).where(hooks.c.repository_id == big("repository_id"))


async def forget_repository(tx: Transaction, repository_id: int) -> bool:
    """An `identity.removal.Forget`: the hooks stay as long as they have something to deliver."""
    if await tx.fetch_one(_waiting, {"repository_id": repository_id}) is not None:
        return False
    await tx.execute(_remove, {"repository_id": repository_id})
    return True
