"""Ends or extends the pauses after failed sign-in attempts, so that no test depends on their timing."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.tables import sign_in_failures
from workhook.storage.metadata import bigint_param

_end = sa.update(sign_in_failures).values(blocked_until=sa.literal(0, sa.BigInteger))
_lengthen = (
    sa.update(sign_in_failures).where(sign_in_failures.c.blocked_until > 0).values(blocked_until=bigint_param("until"))
)


async def end_pauses(services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(_end)


async def lengthen_pauses(services: Services) -> None:
    """Extend the pauses, so they outlast the test even on a slow machine."""
    async with services.database.transaction() as tx:
        await tx.execute(_lengthen, {"until": now_ms() + 10 * MINUTE_MS})
