"""Leases of lanes: which hooks this process delivers for, while several share the work."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

import structlog

from workhook.core.clock import now_ms
from workhook.delivery import queries
from workhook.storage import Database, Row

_ours: set[str] = set()  # owners in this process

log = structlog.get_logger(__name__)


@cache
def _place() -> str:
    """Where a process number means the same process: the host, its boot, and the namespace of its numbers. Containers
    can share a host's name and all be number 1."""
    parts = [socket.gethostname()]
    try:
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())]
    except OSError:
        log.info("no_process_namespace", host=parts[0])  # not Linux: the host's name has to do
    return f"{parts[0]}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def new_owner() -> str:
    """Place, process and a nonce: enough to tell, at the same place, whether the process still lives."""
    owner = f"{_place()}/{os.getpid()}/{secrets.token_hex(4)}"
    _ours.add(owner)
    return owner


def is_gone(owner: str) -> bool:
    """Whether an owner at this place has died. A process number that this very process has is another's from before."""
    place, _, rest = owner.partition("/")
    number = rest.partition("/")[0]
    if place != _place() or not number.isdigit():
        return False
    if int(number) == os.getpid():
        return owner not in _ours
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class Leases:
    """The leases of one worker. A third of their time after each renewal they are renewed again."""

    def __init__(self, database: Database, lease_ms: int) -> None:
        self._database = database
        self._lease_ms = lease_ms
        self.owner = new_owner()
        self.alive = 1  # processes that deliver
        self.renew_at = 0

    async def take_back(self) -> None:
        """At the start: free at once what processes of this host had that are dead; others' leases run out."""
        gone = [owner for owner in await queries.lane_owners(self._database) if is_gone(owner)]
        if gone:
            async with self._database.transaction() as tx:
                await queries.take_back(tx, gone, now_ms())
            log.info("leases_taken_back", owners=gone)

    async def claim(self, hook_ids: Collection[int], limit: int) -> tuple[int, Sequence[Row]]:
        """Until when they are leased, and at most `limit` lanes, of those asked for, that were free."""
        now = now_ms()
        until = now + self._lease_ms
        async with self._database.transaction() as tx:
            return until, await queries.claim(tx, self.owner, list(hook_ids), now, until, limit)

    def time_to_renew(self, now: int) -> bool:
        """Also when the clock was set back."""
        return not now < self.renew_at <= now + self._lease_ms

    async def renew(self, hook_ids: Collection[int]) -> tuple[int, set[int], set[int]]:
        """Until when leases are good now, the lanes that this is true of, and those that another process has taken."""
        now = now_ms()
        until = now + self._lease_ms
        ours: set[int] = set()
        renewed: set[int] = set()
        async with self._database.transaction() as tx:
            self.alive = await queries.report_alive(tx, self.owner, now, until)
            if hook_ids:
                ours, renewed = await queries.renew(tx, self.owner, list(hook_ids), until)
        self.renew_at = now + self._lease_ms // 3
        return until, renewed, set(hook_ids) - ours

    async def count_alive(self) -> int:
        """Processes that deliver, this one included."""
        self.alive = await queries.count_alive(self._database, now_ms())
        return self.alive

    async def release(self, hook_ids: Collection[int]) -> None:
        if hook_ids:
            async with self._database.transaction() as tx:
                await queries.release(tx, self.owner, list(hook_ids))

    async def leave(self) -> None:
        """This process delivers no more: everything it has is free."""
        async with self._database.transaction() as tx:
            await queries.take_back(tx, [self.owner], now_ms())
        _ours.discard(self.owner)
