"""Leases of lanes: which hooks this process delivers for, while several share the work."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Sequence

import structlog

from workhook.core.clock import now_ms
from workhook.delivery import queries
from workhook.storage import Database, Row

LEASE_MS = 30_000
RENEW_MS = 10_000

log = structlog.get_logger(__name__)


def new_owner() -> str:
    """Host, process and a nonce: enough to tell, on the same host, whether the process still lives."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Whether an owner on this host has died. A process number that this very process has is another's from before."""
    host, _, rest = owner.partition("/")
    number = rest.partition("/")[0]
    if host != socket.gethostname() or not number.isdigit():
        return False
    if int(number) == os.getpid():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class Leases:
    """The leases of one worker."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.owner = new_owner()
        self.alive = 1  # processes that deliver
        self._renew_at = 0

    async def take_back(self) -> None:
        """At the start: free at once what processes of this host had that are dead; others' leases run out."""
        gone = [owner for owner in await queries.lane_owners(self._database) if is_gone(owner)]
        if gone:
            async with self._database.transaction() as tx:
                await queries.take_back(tx, gone, now_ms())
            log.info("leases_taken_back", owners=gone)

    async def claim(self, hook_ids: Collection[int]) -> Sequence[Row]:
        """The lanes, of those asked for, that were free. Dispatches of hooks that are gone are dropped on the way."""
        now = now_ms()
        async with self._database.transaction() as tx:
            rows = await queries.claim(tx, self.owner, list(hook_ids), now, now + LEASE_MS)
            if len(rows) < len(hook_ids):
                await queries.drop_orphans(tx, list(set(hook_ids) - {row["hook_id"] for row in rows}))
        return rows

    def renewal_due(self, now: int) -> bool:
        return now >= self._renew_at

    async def renew(self, hook_ids: Collection[int]) -> set[int]:
        """Answers the lanes that were lost: their lease ran out and another process has them."""
        now = now_ms()
        kept: set[int] = set()
        async with self._database.transaction() as tx:
            self.alive = await queries.report_alive(tx, self.owner, now, now + LEASE_MS)
            if hook_ids:
                kept = await queries.renew(tx, self.owner, list(hook_ids), now + LEASE_MS)
        self._renew_at = now + RENEW_MS
        return set(hook_ids) - kept

    async def release(self, hook_ids: Collection[int], *, last: bool = False) -> None:
        """`last`: this process delivers no more."""
        if not hook_ids and not last:
            return
        async with self._database.transaction() as tx:
            await queries.release(tx, self.owner, list(hook_ids))
            if last:
                await queries.take_back(tx, [self.owner], now_ms())
