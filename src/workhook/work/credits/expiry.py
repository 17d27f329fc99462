"""The chore that takes away what has expired."""

from __future__ import annotations

from workhook.http.calls import Services
from workhook.identity.queries import find_repository_by_id
from workhook.work.credits import ledger, queries
from workhook.work.credits.ledger import Pen

LEDGERS_AT_ONCE = 100


async def expire(services: Services, now: int) -> int:
    """How many grants lost what was left of them. A ledger is settled in a transaction of its own that holds the
    project's row, so several processes may be at it."""
    done = 0
    for repository_id in await queries.overdue_ledgers(services.database, now, LEDGERS_AT_ONCE):
        done += await _settle(services, repository_id, now)
    return done


async def _settle(services: Services, repository_id: int, now: int) -> int:
    async with services.database.transaction() as tx:
        if not await queries.lock_ledger(tx, repository_id):
            return 0
        repository = await find_repository_by_id(tx, repository_id)
        assert repository is not None, "its row is held"
        _, count = await ledger.expire(Pen(tx, repository, now, services.base))
        return count
