"""Assigns lanes to processes by rendezvous hashing. During changes, no lane ever has two processes.

The processes of a generation form a view. A new generation can move a lane to another process. Each process acts on a
view as soon as it has seen it, and starts nothing more for lanes that are not its own. It then acknowledges the
generation, listing the lanes that still have attempts in flight. A process starts work on a new lane when all others
have acknowledged the generation and none still has the lane in flight. A process may therefore work on a lane only if
it owns the lane in every view since the last one that all had acknowledged.

`View` and `LaneAssignment` do no I/O; `tests/delivery/test_leases.py` tests interleavings. The SQL of leases and their
generation follows. All its times are the database's, so a single clock decides whether a lease has expired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.core import json
from workhook.hooks.tables import worker_generation, workers
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, server_now, upsert
from workhook.storage.metadata import bigint_param

KNOWN_MAX = 50_000  # lanes whose owner a view caches
VIEWS_MAX = 16  # unacknowledged views; with more, a process works on nothing


class WorkerRow(NamedTuple):
    """The row of a process.

    `left_ms`: until its lease expires, negative afterwards. `leaving`: it only finishes attempts in flight.
    """

    owner: str
    epoch: int
    left_ms: int
    acknowledged: int
    finishing: frozenset[int]
    leaving: bool = False


class Snapshot(NamedTuple):
    """The generation and all rows, read at one moment."""

    generation: int
    members: Sequence[WorkerRow]


_NOBODY = ("",)


class View:
    def __init__(self, generation: int, owners: Iterable[str]) -> None:
        self.generation = generation
        self.owners = tuple(sorted(owners)) or _NOBODY
        self._keys = [(owner.encode() + b"\0", owner) for owner in self.owners]
        self._known: dict[int, str] = {}

    def owner_of(self, hook_id: int) -> str:
        """Return the process with the highest hash for the lane. When a process leaves, only its lanes move."""
        if len(self._keys) == 1:
            return self.owners[0]
        owner = self._known.get(hook_id)
        if owner is None:
            lane = str(hook_id).encode()
            owner = max((hashlib.blake2b(key + lane, digest_size=8).digest(), owner) for key, owner in self._keys)[1]
            if len(self._known) < KNOWN_MAX:
                self._known[hook_id] = owner
        return owner


class LaneAssignment:
    """The lanes that one process may work on, according to the views it has seen."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.alive = 1  # number of delivering processes
        self._views: list[View] = []  # since the last view that all had acknowledged, which may be the first
        self._settled = False
        self._foreign: frozenset[int] = frozenset()  # lanes with attempts in flight in other processes

    @property
    def generation(self) -> int:
        """The generation of the newest view, which this process acts on; 0 if it is not a member."""
        return self._views[-1].generation if self._views else 0

    @property
    def settled(self) -> bool:
        """Whether all processes act on the newest view, and none has attempts in flight from an earlier one."""
        return self._settled and not self._foreign

    def clear(self) -> None:
        """Forget all views, because this process is no longer a member."""
        self._views, self._settled, self._foreign = [], False, frozenset()

    def apply(self, snapshot: Snapshot) -> None:
        if snapshot.generation < self.generation:
            return  # outdated
        members = snapshot.members
        self.alive = len(members)
        if snapshot.generation > self.generation:
            # A new process has no lanes to keep.
            before = self._views if 0 < len(self._views) < VIEWS_MAX else [View(0, _NOBODY)]
            self._views = [*before, View(snapshot.generation, (each.owner for each in members if not each.leaving))]
            self._settled = False
        others = [each for each in members if each.owner != self.owner]
        if all(each.acknowledged >= self.generation for each in others):
            self._views, self._settled = self._views[-1:], True
            self._foreign = frozenset().union(*(each.finishing for each in others))

    def is_own(self, hook_id: int) -> bool:
        """Return whether this process owns the lane in the newest view. It may not be allowed to work on it yet."""
        return bool(self._views) and self._views[-1].owner_of(hook_id) == self.owner

    def may_work_on(self, hook_id: int) -> bool:
        """Return whether attempts of the lane may start now, provided this process's lease is valid."""
        if not self._views or hook_id in self._foreign:
            return False
        return all(view.owner_of(hook_id) == self.owner for view in self._views)


# --- SQL --------------------------------------------------------------------------------------------------------------

_ONLY = 1  # the ID of the single row

_me = sa.and_(workers.c.owner == sa.bindparam("me"), workers.c.epoch == bigint_param("my_epoch"))
_raise_generation = (
    upsert(worker_generation)
    .values(id=_ONLY, generation=1)
    .on_conflict_do_update(index_elements=["id"], set_={"generation": worker_generation.c.generation + 1})
    .returning(worker_generation.c.generation)
)
_join = sa.insert(workers).values(
    owner=sa.bindparam("owner"),
    seen_until=server_now() + bigint_param("lease_ms"),
    epoch=bigint_param("epoch"),
    acknowledged=bigint_param("epoch"),
    finishing="[]",
    leaving=sa.false(),
)
_renew = (
    sa.update(workers)
    .where(_me)
    .values(
        seen_until=server_now() + bigint_param("lease_ms"),
        acknowledged=bigint_param("acted_by"),
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


async def join(tx: Transaction, owner: str, lease_ms: int) -> int:
    """Add the process and return its epoch, which is a new generation."""
    epoch = await raise_generation(tx)
    await tx.execute(_remove, {"owners": [owner]})
    await tx.execute(_join, {"owner": owner, "lease_ms": lease_ms, "epoch": epoch})
    return epoch


async def renew(
    tx: Transaction, owner: str, epoch: int, lease_ms: int, acknowledged: int, finishing: Sequence[int]
) -> bool:
    """Extend the lease by `lease_ms` from now. Returns False if the process was removed."""
    still = json.encode_text(list(finishing))
    me = {"me": owner, "my_epoch": epoch}
    return bool(await tx.execute(_renew, {**me, "lease_ms": lease_ms, "acted_by": acknowledged, "still": still}))


async def announce_leaving(tx: Transaction, owner: str, epoch: int) -> None:
    """Give up all lanes. The first call raises the generation."""
    if await tx.execute(_announce, {"me": owner, "my_epoch": epoch}):
        await raise_generation(tx)


async def raise_generation(tx: Transaction) -> int:
    row = await tx.fetch_row(_raise_generation)
    return int(row["generation"])


async def remove(tx: Transaction, owners: Sequence[str], *, if_dead: bool = False) -> int:
    """Remove processes and return their number.

    With `if_dead`, keep those that have renewed their lease. Raises the generation if any was removed.
    """
    removed = await tx.execute(_remove_dead if if_dead else _remove, {"owners": list(owners)})
    if removed:
        await raise_generation(tx)
    return removed


async def read_snapshot(reader: Reader) -> Snapshot:
    rows = await reader.fetch_all(_seen)
    generation = rows[0]["generation"] if rows else 0
    return Snapshot(generation, [_member(row) for row in rows if row["owner"] is not None])


def _member(row: Row) -> WorkerRow:
    finishing: Any = json.decode(row["finishing"]) if row["finishing"] != "[]" else ()
    return WorkerRow(
        row["owner"], row["epoch"], row["left_ms"], row["acknowledged"], frozenset(finishing), bool(row["leaving"])
    )


async def owners(reader: Reader) -> set[str]:
    return {row["owner"] for row in await reader.fetch_all(_owners)}
