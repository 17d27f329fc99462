"""The SQL of the processes that deliver: their leases, and the generation that counts their changes.

Times are the database's own: one clock decides whether a lease has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.core import json
from workhook.delivery.membership import Seen, WorkerRow
from workhook.hooks.tables import lanes, worker_generation, workers
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, server_now, upsert
from workhook.storage.metadata import big

_ONLY = 1  # the id of the generation's row

_me = sa.and_(workers.c.owner == sa.bindparam("me"), workers.c.epoch == big("my_epoch"))
_raise_generation = (
    upsert(worker_generation)
    .values(id=_ONLY, generation=1)
    .on_conflict_do_update(index_elements=["id"], set_={"generation": worker_generation.c.generation + 1})
    .returning(worker_generation.c.generation)
)
_join = sa.insert(workers).values(
    owner=sa.bindparam("owner"),
    seen_until=server_now() + big("lease_ms"),
    epoch=big("epoch"),
    acknowledged=big("epoch"),
    finishing="[]",
)
_renew = (
    sa.update(workers)
    .where(_me)
    .values(
        seen_until=server_now() + big("lease_ms"),
        acknowledged=big("acted_by"),
        finishing=sa.bindparam("still", type_=sa.Text()),
    )
)
_announce = sa.update(workers).where(_me, workers.c.leaving == sa.false()).values(leaving=sa.true())
_seen = sa.select(
    worker_generation.c.generation,
    workers.c.owner,
    workers.c.epoch,
    (workers.c.seen_until - server_now()).label("left_ms"),
    workers.c.acknowledged,
    workers.c.finishing,
    workers.c.leaving,
).select_from(worker_generation.outerjoin(workers, sa.true()))
_remove = sa.delete(workers).where(any_of(workers.c.owner, "owners"))
_remove_dead = sa.delete(workers).where(any_of(workers.c.owner, "owners"), workers.c.seen_until < server_now())
_owners = sa.select(workers.c.owner)

# Written by workers of an earlier version.
_of_earlier = sa.and_(lanes.c.owner.is_not(None), lanes.c.lease_until >= server_now())
_lane_owners = sa.select(lanes.c.owner).where(_of_earlier).distinct()
_lanes_left = sa.select((sa.func.max(lanes.c.lease_until) - server_now()).label("left_ms")).where(_of_earlier)
_nobody: dict[str, object] = {"owner": sa.null(), "lease_until": sa.literal(0, sa.BigInteger)}
_free_lanes = sa.update(lanes).where(any_of(lanes.c.owner, "owners")).values(_nobody)


async def join(tx: Transaction, owner: str, lease_ms: int) -> int:
    """Add the process, and return its epoch: a new generation."""
    epoch = await raise_generation(tx)
    await tx.execute(_remove, {"owners": [owner]})
    await tx.execute(_join, {"owner": owner, "lease_ms": lease_ms, "epoch": epoch})
    return epoch


async def renew(
    tx: Transaction, owner: str, epoch: int, lease_ms: int, acknowledged: int, finishing: Sequence[int]
) -> bool:
    """Renew the lease for another `lease_ms`. Return False if the process was removed."""
    still = json.encode_text(list(finishing))
    me = {"me": owner, "my_epoch": epoch}
    return bool(await tx.execute(_renew, {**me, "lease_ms": lease_ms, "acted_by": acknowledged, "still": still}))


async def announce_leaving(tx: Transaction, owner: str, epoch: int) -> None:
    """From now on the process owns no lanes. The first call raises the generation."""
    if await tx.execute(_announce, {"me": owner, "my_epoch": epoch}):
        await raise_generation(tx)


async def raise_generation(tx: Transaction) -> int:
    row = await tx.fetch_one(_raise_generation)
    assert row is not None
    return int(row["generation"])


async def remove(tx: Transaction, owners: Sequence[str]) -> int:
    """Remove processes; return how many were there."""
    return await tx.execute(_remove, {"owners": list(owners)})


async def remove_dead(tx: Transaction, owners: Sequence[str]) -> int:
    """Remove those whose lease has still ended; return how many."""
    return await tx.execute(_remove_dead, {"owners": list(owners)})


async def seen(reader: Reader) -> Seen:
    rows = await reader.fetch_all(_seen)
    generation = rows[0]["generation"] if rows else 0
    return Seen(generation, [_member(row) for row in rows if row["owner"] is not None])


def _member(row: Row) -> WorkerRow:
    finishing: Any = json.decode(row["finishing"]) if row["finishing"] != "[]" else ()
    return WorkerRow(
        row["owner"], row["epoch"], row["left_ms"], row["acknowledged"], frozenset(finishing), bool(row["leaving"])
    )


async def owners(reader: Reader) -> set[str]:
    """The owners of all processes, with those of an earlier version."""
    rows = [*await reader.fetch_all(_owners), *await reader.fetch_all(_lane_owners)]
    return {row["owner"] for row in rows}


async def lanes_left_ms(reader: Reader) -> int | None:
    """Until when processes of an earlier version lease lanes, in milliseconds from now; None if they have none."""
    row = await reader.fetch_one(_lanes_left)
    return row["left_ms"] if row else None


async def free_lanes(tx: Transaction, owners: Sequence[str]) -> None:
    """Free the lanes of processes of an earlier version that are gone."""
    await tx.execute(_free_lanes, {"owners": list(owners)})
