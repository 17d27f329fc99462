"""What somebody wants to be told of in their inbox. Without a choice it is everything."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.identity.notifications.schemas import KINDS, Kind, notification_settings
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big
from workhook.storage.record_rows import assigned

_chosen = sa.select(notification_settings.c.kind, notification_settings.c.inbox).where(
    notification_settings.c.user_id == big("user_id")
)
_choose = (
    upsert(notification_settings)
    .values(assigned(("user_id", "kind", "inbox")))
    .on_conflict_do_update(index_elements=["user_id", "kind"], set_=assigned(("inbox",)))
)


async def find_settings(reader: Reader, user_id: int) -> dict[Kind, bool]:
    """Each kind, and whether the user has it in the inbox."""
    chosen = {row["kind"]: bool(row["inbox"]) for row in await reader.fetch_all(_chosen, {"user_id": user_id})}
    return {kind: chosen.get(kind, True) for kind in KINDS}


async def choose(tx: Transaction, user_id: int, wanted: Mapping[Kind, bool]) -> None:
    """What is not in `wanted` stays as it is."""
    await tx.execute_many(
        _choose, [{"user_id": user_id, "kind": each, "inbox": wanted[each]} for each in sorted(wanted)]
    )
