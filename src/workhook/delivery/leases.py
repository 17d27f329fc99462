"""The lease of this process, which lets it share the lanes with other processes (see `lane_assignment`).

A heartbeat renews the lease. Whether it is still valid is decided by a monotonic clock, counted from before the renewal
was sent. Whether another process's lease has expired is decided by the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import structlog

from workhook.core.clock import now_ms
from workhook.core.limited_process import is_running
from workhook.delivery import lane_assignment, metrics
from workhook.delivery.lane_assignment import LaneAssignment, Snapshot
from workhook.storage import Database, Transaction
from workhook.storage.signals import WORKERS

BEAT_MS = 3000  # between heartbeats, or `BEATS` of the lease if that is shorter
BEATS = 0.3
UNSETTLED_MS = 200  # between polls while other processes have not acknowledged the generation
AWAKE_MS = 1000  # timers stop while the machine is suspended, leases do not
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # BOOTTIME counts while suspended

_ours: set[str] = set()  # owners in this process

log = structlog.get_logger(__name__)


@cache
def _process_scope() -> str:
    """Return the scope of a process ID: host, boot and PID namespace, because containers can share a host name."""
    parts = [socket.gethostname()]
    try:
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())]
    except OSError:
        log.info("no_process_namespace", host=parts[0])  # not Linux: use only the host name
    return f"{parts[0]}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def is_dead(owner: str) -> bool:
    """Return whether an owner is known to be dead. False if it is in another scope, where its process is not visible.

    An unknown owner with this process's ID is dead: it was an earlier process whose ID was reused.
    """
    place, _, rest = owner.partition("/")
    number = rest.partition("/")[0]
    if place != _process_scope() or not number.isdigit():
        return False
    if int(number) == os.getpid():
        return owner not in _ours
    return not is_running(int(number))


def _clock_ms() -> int:
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


class Leases:
    """The lease of one worker. `lane_assignment` assigns lanes to it."""

    def __init__(self, database: Database, lease_ms: int) -> None:
        self._database = database.low_traffic
        self._lease_ms = lease_ms
        self._beat_ms = min(BEAT_MS, round(lease_ms * BEATS))
        # Scope, process ID and nonce. A process in the same scope can tell whether the owner is still alive.
        self.owner = f"{_process_scope()}/{os.getpid()}/{secrets.token_hex(4)}"
        _ours.add(self.owner)
        self.epoch = 0  # changes with each join; 0 if not a member
        self.assignment = LaneAssignment(self.owner)
        self._good_until = self._renew_at = self._look_at = 0  # in `_clock_ms` time
        self._missed = False  # the last heartbeat or poll failed
        self._patient_until = 0  # until then, these members may have been unable to renew, so they are not removed
        self._patient_with: frozenset[int] = frozenset()
        self._leaving = False
        self._due = asyncio.Event()
        self._announced: tuple[int, Sequence[int]] = (0, ())  # the generation and lanes announced last

    @property
    def is_valid(self) -> bool:
        return _clock_ms() < self._good_until

    @property
    def valid_until(self) -> int:
        """The expiry of the lease in `now_ms` time."""
        return now_ms() + self._good_until - _clock_ms()

    def time_to_renew(self) -> bool:
        return _clock_ms() >= min(self._renew_at, self._look_at)

    async def until_due(self) -> None:
        while not self.time_to_renew():
            self._due.clear()
            wait_ms = min(self._renew_at, self._look_at) - _clock_ms()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait_ms, AWAKE_MS) / 1000):
                    await self._due.wait()

    def poll_soon(self) -> None:
        """Poll the other processes' rows soon, because they changed or are waiting for an attempt that ended here."""
        self._look_at = 0
        self._due.set()

    def begin_leaving(self) -> None:
        """Give up the lanes immediately. Call `leave` when nothing is in flight."""
        self._leaving = True
        self._renew_at = 0
        self._due.set()

    async def remove_dead_owners(self) -> None:
        """Remove dead processes of this host on startup without waiting for their leases."""
        gone = [owner for owner in await lane_assignment.owners(self._database) if is_dead(owner)]
        if gone:
            await self._database.in_transaction(partial(lane_assignment.remove, owners=gone))
            log.info("dead_processes_removed", owners=gone)

    async def renew(self, in_flight: Callable[[], Sequence[int]]) -> None:
        """Send a heartbeat, or only poll the other processes if no heartbeat is due.

        `in_flight` returns the lanes with attempts in flight. Raises the errors of `Database.transaction`.
        """
        missed, self._missed, good_until = self._missed, True, self._good_until
        self._due.clear()
        if _clock_ms() < self._renew_at and self._announced == self._announcement(in_flight):
            seen: Snapshot | None = await lane_assignment.read_snapshot(self._database)
        else:
            seen = await self._beat(in_flight)
        if seen is not None:
            if missed or _clock_ms() >= good_until:
                # It has just joined, lost the database, or was suspended: the others may be alive.
                self._patient_until = _clock_ms() + self._lease_ms
                self._patient_with = frozenset(each.epoch for each in seen.members)
            await self._take_in(seen)
        self._missed = False
        if self._due.is_set():
            self._look_at = 0  # something changed meanwhile, possibly after the read

    def _announcement(self, in_flight: Callable[[], Sequence[int]]) -> tuple[int, Sequence[int]]:
        may_work_on = self.assignment.may_work_on
        return self.assignment.generation, sorted(each for each in in_flight() if not may_work_on(each))

    async def _beat(self, in_flight: Callable[[], Sequence[int]]) -> Snapshot | None:
        """Send a heartbeat. Returns None if the lease is lost and the process is stopping."""
        sent_at = _clock_ms()
        announced, was_leaving = self._announcement(in_flight), self._leaving
        seen: Snapshot | None = None
        if self.epoch:
            async with self._database.transaction() as tx:
                if self._leaving:
                    await lane_assignment.announce_leaving(tx, self.owner, self.epoch)
                if await lane_assignment.renew(tx, self.owner, self.epoch, self._lease_ms, *announced):
                    seen = await lane_assignment.read_snapshot(tx)
            if seen is None:
                self._lost()
        if seen is None and self._leaving:
            self._renew_at = self._look_at = sent_at + self._beat_ms  # its lanes already belong to others
            return None
        if seen is None:
            seen = await self._join()
            announced = (self.epoch, ())
        self._good_until, self._renew_at = sent_at + self._lease_ms, sent_at + self._beat_ms
        if self._leaving and not was_leaving:
            self._renew_at = 0  # announce it to the others
        if announced != self._announced:
            self._announced = announced
            self._database.signals.send(WORKERS, (0,))
        return seen

    def _lost(self) -> None:
        """Forget the lease, because other processes have removed this one and own its lanes."""
        log.warning("lease_lost", owner=self.owner, epoch=self.epoch)
        self.epoch = self._good_until = self._renew_at = 0
        self.assignment.clear()

    async def _join(self) -> Snapshot:
        async def join(tx: Transaction) -> tuple[int, Snapshot]:
            return await lane_assignment.join(tx, self.owner, self._lease_ms), await lane_assignment.read_snapshot(tx)

        self.epoch, seen = await self._database.in_transaction(join)
        return seen

    async def _take_in(self, seen: Snapshot) -> None:
        if not any(each.owner == self.owner and each.epoch == self.epoch for each in seen.members):
            self._lost()
            return
        before = self.assignment.generation
        self.assignment.apply(seen)
        metrics.WORKERS.set(self.assignment.alive)
        if self.assignment.generation != before:
            self._renew_at = 0  # acknowledge it soon
        others = [each for each in seen.members if each.owner != self.owner]
        now = _clock_ms()
        patient_with = self._patient_with if now < self._patient_until else frozenset()
        dead = [each.owner for each in others if each.left_ms < 0 and each.epoch not in patient_with]
        if dead:
            await self._remove_dead(dead)
        # When the first lease of another process expires, or sooner while the view is not settled.
        left_ms = min((max(UNSETTLED_MS, each.left_ms + 1) for each in others), default=self._lease_ms)
        self._look_at = now + (left_ms if self.assignment.settled else min(left_ms, UNSETTLED_MS))

    async def _remove_dead(self, dead: Sequence[str]) -> None:
        async def remove(tx: Transaction) -> Snapshot | None:
            if not await lane_assignment.remove(tx, dead, if_dead=True):
                return None  # another process was faster, or the member has returned
            return await lane_assignment.read_snapshot(tx)

        seen = await self._database.in_transaction(remove)
        if seen is not None:
            log.warning("expired_processes_removed", generation=seen.generation, remaining=len(seen.members))
            self._database.signals.send(WORKERS, (0,))
            await self._take_in(seen)

    async def leave(self) -> None:
        async with self._database.transaction() as tx:
            await lane_assignment.remove(tx, [self.owner])
        self.epoch = self._good_until = 0
        self.assignment.clear()
        self._database.signals.send(WORKERS, (0,))
        _ours.discard(self.owner)
