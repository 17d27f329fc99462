"""The chore that begins the periods of subscriptions: each once, whoever is at it and however long nobody was."""

from __future__ import annotations

import structlog
from prometheus_client import Counter

from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.storage.sweeping import concerns_all
from workhook.work.checkouts import billing, queries

EVERY_S = 20.0
BATCH = 200

TROUBLE = Counter(
    "workhook_checkout_periods_failed_total", "Periods of subscriptions that could not begin and are tried again."
)

log = structlog.get_logger(__name__)


async def begin_due_periods(services: Services, now: int) -> int:
    """Begin the periods that are due by `now` (milliseconds); how many did. A period that was missed comes late, with
    its own invoice and credits. One checkout that cannot go on does not keep the others waiting.

    Raises `Unavailable` if the database cannot be used.
    """
    begun, after = 0, (-1, "")
    while True:
        due = await queries.due_checkouts(services.database, now, after, BATCH)
        for _, checkout_id in due:
            begun += await _go_on(services, checkout_id, now)
        if len(due) < BATCH:
            return begun
        after = due[-1]


async def _go_on(services: Services, checkout_id: str, now: int) -> int:
    begun = 0
    try:
        while await _begin_one(services, checkout_id, now):
            begun += 1
    except Exception as error:
        if concerns_all(error):
            raise
        TROUBLE.inc()
        log.exception("period_failed", service_checkout_id=checkout_id)
    return begun


async def _begin_one(services: Services, checkout_id: str, now: int) -> bool:
    """One period in one transaction. False if none is due, or somebody else is at the checkout."""

    async def begin(tx: Transaction) -> bool:
        checkout = await queries.lock_if_due(tx, checkout_id, now)
        if checkout is None:
            return False
        await billing.begin_next(Write(tx, None, services.base, moment=now), checkout)
        return True

    return await services.database.in_transaction(begin)
