"""Which deliveries somebody made to try a webhook: samples, and pushes that were sent to it once more."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.events.tables import events
from workhook.hooks.tables import deliveries
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big

# Such an event is listed nowhere, as are those about hooks, which happened all the same.
_trials = (
    sa.select(deliveries.c.id)
    .join_from(deliveries, events, events.c.id == deliveries.c.event_id)
    .where(
        deliveries.c.hook_id == big("hook_id"),
        any_of(deliveries.c.id, "ids"),
        sa.not_(events.c.listed),
        sa.not_(events.c.published),
        # What Workhook says about hooks by itself is nobody's.
        sa.or_(events.c.name != sa.literal_column("'hook'", sa.Text()), events.c.actor_id.is_not(None)),
        events.c.name != sa.literal_column("'ping'", sa.Text()),
    )
)


async def among(reader: Reader, hook_id: int, ids: Sequence[int]) -> frozenset[int]:
    """Those of these deliveries of the hook that were only a try. Pings are not among them: their name says it."""
    if not ids:
        return frozenset()
    rows = await reader.fetch_all(_trials, {"hook_id": hook_id, "ids": list(ids)})
    return frozenset(row["id"] for row in rows)
