"""The chore that keeps inboxes short: a notification is kept for 90 days, and each person has the newest 1,000."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.http.calls import Services
from workhook.identity.tables import notifications
from workhook.storage import Row, Transaction
from workhook.storage.metadata import big
from workhook.storage.sweeping import in_batches, in_order

KEPT_MS = 90 * DAY_MS
KEPT_MAX = 1_000
BATCH, PEOPLE = 1_000, 100
_LOOKS_BACK_MS = 26 * HOUR_MS
"""Only who was told something since the run before can have too many. It may have been a while ago: who gets more
afterwards is found by that."""

_c = notifications.c
_aged = notifications.alias("aged")
_old = sa.select(_aged.c.id).where(_aged.c.created_at < big("before")).order_by(_aged.c.created_at).limit(big("limit"))
_forget = sa.delete(notifications).where(_c.id.in_(_old.with_for_update(skip_locked=True)))
_told = (
    sa.select(_c.user_id)
    .where(_c.created_at >= big("since"), _c.user_id > big("after"))
    .distinct()
    .order_by(_c.user_id)
    .limit(big("limit"))
)
_newer = notifications.alias("newer")
_first_beyond = (
    sa.select(_newer.c.id)
    .where(_newer.c.user_id == big("user_id"))
    .order_by(_newer.c.id.desc())
    .limit(sa.literal_column("1"))
    .offset(big("kept"))
    .scalar_subquery()
)
_shorten = sa.delete(notifications).where(_c.user_id == big("user_id"), _c.id <= _first_beyond)


async def prune(services: Services, now: int) -> int:
    """Remove what is older, and what is beyond the newest of each person. Answers how many. Raises `Unavailable`."""
    return await _forget_old(services, now - KEPT_MS) + await _shorten_inboxes(services, now - _LOOKS_BACK_MS)


async def _forget_old(services: Services, before: int) -> int:
    async def some(limit: int, _: int) -> int:
        params = {"before": before, "limit": limit}
        return await services.database.in_transaction(lambda tx: tx.execute(_forget, params))

    return await in_batches("notifications", BATCH, some)


async def _shorten_inboxes(services: Services, since: int) -> int:
    database = services.database

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        params = {"since": since, "after": last["user_id"] if last else 0, "limit": limit}
        return await database.fetch_all(_told, params)

    async def shorten(_: Row | None, rows: Sequence[Row]) -> int:
        async def each(tx: Transaction) -> int:
            return sum([await tx.execute(_shorten, {"user_id": row["user_id"], "kept": KEPT_MAX}) for row in rows])

        return await database.in_transaction(each)

    return await in_order("notifications", PEOPLE, following, shorten)
