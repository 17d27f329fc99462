"""The chore that takes away what has expired."""

from __future__ import annotations

from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id
from workhook.storage.sweeping import for_each_isolated
from workhook.work.credits import ledger, queries
from workhook.work.credits.ledger import Pen

LEDGERS_AT_ONCE = 100


async def expire(services: Services, now: int) -> int:
    """How many grants lost what was left of them. A ledger is settled in a transaction of its own that holds the
    project's row, so several processes may be at it; one that fails keeps no other waiting. Raises `Unavailable`."""

    async def settle(repository_id: int) -> int:
        return await services.database.in_transaction(
            lambda tx: _settle(Write(tx, None, services.base, moment=now), repository_id)
        )

    done, after = 0, 0
    while True:
        overdue = await queries.overdue_ledgers(services.database, now, after, LEDGERS_AT_ONCE)
        done += await for_each_isolated("expired_task_credits", overdue, settle)
        if len(overdue) < LEDGERS_AT_ONCE:
            return done
        after = overdue[-1]


async def _settle(write: Write, repository_id: int) -> int:
    if not await queries.lock_ledger(write.tx, repository_id):
        return 0
    repository = await find_repository_by_id(write.tx, repository_id)
    assert repository is not None, "its row is held"
    _, count = await ledger.expire(Pen(write, repository))
    return count
