"""Finds a text in the payloads of a few deliveries. There is no index for it, so a caller names the deliveries."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from workhook.events.tables import events
from workhook.hooks.tables import deliveries
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big

IDS_MAX = 200
SIZE_MAX = 64 * 1024  # bytes; larger payloads are not loaded to be searched

_payloads = (
    sa.select(
        deliveries.c.id,
        events.c.size,
        sa.case((events.c.size <= big("size_max"), events.c.payload), else_=None).label("payload"),
    )
    .join_from(deliveries, events, events.c.id == deliveries.c.event_id)
    .where(deliveries.c.hook_id == big("hook_id"), any_of(deliveries.c.id, "ids"))
)


class Matches(msgspec.Struct, frozen=True):
    """`ids`: the deliveries whose payload has the text. `too_large`: how many were not searched."""

    ids: frozenset[int]
    too_large: int


async def find_text(reader: Reader, hook_id: int, ids: Sequence[int], *texts: str) -> Matches:
    """Of these deliveries of the hook, at most `IDS_MAX`, those whose payload has one of the texts. They are looked for
    in the JSON as it was sent; upper and lower case are the same."""
    assert len(ids) <= IDS_MAX, "what is searched has an end"
    wanted, found, too_large = {text.casefold() for text in texts}, set(), 0
    rows = await reader.fetch_all(_payloads, {"hook_id": hook_id, "ids": list(ids), "size_max": SIZE_MAX})
    for row in rows:
        if row["payload"] is None:
            too_large += 1
            continue
        payload = bytes(row["payload"]).decode("utf-8", "replace").casefold()
        if any(each in payload for each in wanted):
            found.add(row["id"])
    return Matches(frozenset(found), too_large)
