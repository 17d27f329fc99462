"""The lanes of this process: which have work, and which are loaded.

`lane_assignment` assigns lanes to processes. Lanes without work use no memory, and waiting ones that of the hook's ID.
"""

from __future__ import annotations

import asyncio
import heapq
import secrets
import time
from collections.abc import Callable, Iterable
from itertools import islice

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.core.vault import VaultError
from workhook.delivery import metrics, queries
from workhook.delivery.lanes import Lane, PendingAttempt, signer_until, signing_profile
from workhook.delivery.leases import Leases
from workhook.delivery.sign import Signer
from workhook.hooks import queries as hook_queries
from workhook.hooks.fan_out import drop_waiting
from workhook.hooks.schemas import Hook
from workhook.http.calls import Services

KNOWN_MAX = 100_000  # due times; work due at other times is found by a search


class Schedule:
    """The due times of hooks, in milliseconds. No I/O."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._known: set[tuple[int, int]] = set()

    def add(self, hook_id: int, at: int) -> None:
        entry = (at, hook_id)
        if entry not in self._known and len(self._known) < KNOWN_MAX:
            self._known.add(entry)
            heapq.heappush(self._heap, entry)

    def pop_due(self, now: int) -> dict[int, int]:
        """Remove the times that have been reached; return hook ID → its first one."""
        found: dict[int, int] = {}
        while self._heap and self._heap[0][0] <= now:
            at, hook_id = entry = heapq.heappop(self._heap)
            self._known.discard(entry)
            found.setdefault(hook_id, at)
        return found

    @property
    def next_at(self) -> int | None:
        return self._heap[0][0] if self._heap else None


TOGETHER_MS = 50  # interval between starts of retries, which are not urgent
POLL_MS = 1000  # interval between unloading idle lanes
SEARCH_MS = 5000  # interval between searches for work that no signal announced
SEARCH_MAX_MS = 20_000
SEARCH_SHARE = 20  # a search is repeated after at least this many times its duration
PAGE = 1000  # hooks with work per query
PLACES = 1024  # lanes loaded at once, in addition to those that can be in flight
IDLE_MS = 20_000  # idle lanes are unloaded after this, or sooner if another lane needs the room
AGAIN_S = 1.0  # after a failed lease renewal
TIMES = 64  # later due times of one lane per read
UNREADABLE_MS = 30_000  # retry interval for a lane whose secret cannot be decrypted here

log = structlog.get_logger(__name__)


class LeasedLanes:
    """The loaded lanes. One that moved to another process is not loaded again until its attempts in flight end."""

    def __init__(self, services: Services, *, wake: Callable[[], None], hangs: Callable[[], bool]) -> None:
        """`wake` is called when there may be something to do. `hangs` returns whether the worker hangs."""
        self._services = services
        self._wake, self._hangs = wake, hangs
        self._database = services.database
        self.leases = Leases(services.database, round(services.settings.delivery_lease_s * 1000))
        self.lanes: dict[int, Lane] = {}
        self._places = PLACES + services.settings.concurrency
        self._poll_at = self._search_at = 0
        self._phase = secrets.randbelow(TOGETHER_MS)  # keeps processes from starting at the same moment
        self._searched = 0  # the last hook found by the search; 0 if none is in progress
        self._search_ms = 0.0  # duration of the search so far
        self._pending = 0  # hooks with work found by the search
        self._later = Schedule()
        self._ending: dict[int, Lane] = {}  # moved to other processes, with attempts still in flight
        self._due: dict[int, int] = {}  # hooks with work whose lanes must be loaded → since when
        self._not_before: dict[int, int] = {}  # hooks that could not be loaded → when to retry
        self._read_again: set[int] = set()  # hooks whose secret could not be decrypted on the first read
        self._changed: set[int] = set()  # hooks changed since the last reload began
        self._keeper: asyncio.Task[None] | None = None
        self._trouble: str | None = None
        self._hung = False
        self._own_since = (0, False)  # the generation that lanes were kept by, and whether it was settled

    def time_to_poll(self, now: int) -> bool:
        """Return whether a poll is due, including when the clock was set back."""
        return not now < self._poll_at <= now + POLL_MS

    def poll_now(self) -> None:
        self._poll_at = self._search_at = 0

    @property
    def next_at(self) -> int:
        """The time of the next known work or poll, in milliseconds."""
        later = self._later.next_at
        if later is None:
            return self._poll_at
        return min(self._poll_at, later + -(later + self._phase) % TOGETHER_MS)

    # --- work --------------------------------------------------------------------------------------------------------

    def mark_due(self, due: dict[int, int]) -> bool:
        """Record due times: hook ID → milliseconds, or 0 for now. Returns whether there is anything to do now."""
        now = now_ms()
        to_do = False
        is_own = self.leases.assignment.is_own
        for hook_id, at in due.items():
            lane = self.lanes.get(hook_id)
            if lane is not None and at <= now:
                lane.may_have_more = True
                to_do = True
            elif not is_own(hook_id):
                continue
            elif at > now:
                self._later.add(hook_id, at)
            else:
                self._due.setdefault(hook_id, at)
                to_do = True
        return to_do

    def mark_changed(self, hook_ids: frozenset[int] | None) -> None:
        for hook_id in list(self.lanes) if hook_ids is None else hook_ids & self.lanes.keys():
            self.lanes[hook_id].needs_reload = True
            self._changed.add(hook_id)
        for hook_id in hook_ids or ():
            self._not_before.pop(hook_id, None)  # its secret may be decryptable now

    async def poll_database(self, now: int) -> None:
        """Unload idle lanes and, every `SEARCH_MS`, search for work that no signal announced."""
        self._poll_at = now + POLL_MS
        if self._searched or not now < self._search_at <= now + SEARCH_MAX_MS:
            await self._search(now)
        self._not_before = {hook_id: at for hook_id, at in self._not_before.items() if now < at <= now + UNREADABLE_MS}
        self._unload(lane for lane in self.lanes.values() if lane.closed or now - lane.idle_since > IDLE_MS)
        if self._due and len(self.lanes) >= self._places:
            self._make_room()

    async def _search(self, now: int) -> None:
        """Search one page. The next page follows in the next turn."""
        if not self._searched:
            self._pending, self._search_ms = 0, 0.0
            self._search_at = now + SEARCH_MS  # a signal received during the read resets it
        began = time.monotonic()
        try:
            found = await queries.pending_hooks(self._database, self._searched, PAGE)
        except BaseException:
            self._searched = self._search_at = 0
            raise
        self._search_ms += (time.monotonic() - began) * 1000
        self._pending += len(found)
        self.mark_due(found)
        if len(found) == PAGE:
            self._searched, self._poll_at = max(found), 0
            return
        self._searched = 0
        metrics.PENDING_HOOKS.set(self._pending)
        if self._search_at:
            self._search_at = now + round(min(max(SEARCH_MS, SEARCH_SHARE * self._search_ms), SEARCH_MAX_MS))

    # --- loading -----------------------------------------------------------------------------------------------------

    async def load_lanes(self, now: int) -> None:
        """Load lanes whose work is due, until there is no room left."""
        if reached := self._later.pop_due(now):
            self.mark_due(reached)
        if not self._due or not self.leases.is_valid:
            return
        if len(self._due) > self._places - len(self.lanes):
            self._unload(self.lanes.values())
        room = self._places - len(self.lanes)
        wanted = list(islice((hook_id for hook_id in self._due if self._can_load(hook_id, now)), max(0, room)))
        if not wanted:
            return
        hooks = await hook_queries.hooks_by_id(self._database, wanted)
        failing = await queries.failing_since(self._database, wanted)
        for hook in hooks:
            if not self._can_load(hook.id, now):  # another process got it meanwhile
                continue
            del self._due[hook.id]
            signer = self._signer(hook)
            if signer is not None:
                until, epoch = self.leases.valid_until, self.leases.epoch
                self.lanes[hook.id] = Lane(
                    hook, signer, until, failing.get(hook.id), signer_until(hook, now), idle_since=now, epoch=epoch
                )
            elif hook.id in self._read_again:
                self._due[hook.id] = now
        if gone := set(wanted) - {hook.id for hook in hooks}:  # deleted just as an event was committed for them
            for hook_id in gone:
                self._due.pop(hook_id, None)
            async with self._database.transaction() as tx:
                await drop_waiting(tx, list(gone))
        metrics.LANES.set(len(self.lanes))

    async def load_times(self, now: int) -> None:
        """Read the later due times of newly loaded lanes, which no signal announces."""
        lanes = self.lanes.values()
        asked = [lane for lane in lanes if lane.times_known_until is not None and lane.times_known_until <= now]
        if not asked:
            return
        found = await queries.later_times(self._database, [lane.hook.id for lane in asked], now, TIMES)
        for lane in asked:
            times = found.get(lane.hook.id) or []
            lane.times_known_until = times[-1] if len(times) == TIMES else None
            for at in times:
                self._later.add(lane.hook.id, at)

    def _can_load(self, hook_id: int, now: int) -> bool:
        if self._not_before.get(hook_id, 0) > now or hook_id in self._ending or hook_id not in self._due:
            return False
        return self.leases.assignment.may_work_on(hook_id)

    def _signer(self, hook: Hook) -> Signer | None:
        try:
            prefix = self._services.settings.header_prefix
            signer = Signer(signing_profile(hook, self._services.vault, prefix, now_ms()))
            self._read_again.discard(hook.id)
            return signer
        except VaultError as error:
            if hook.id not in self._read_again:  # a rotation may have resealed it and dropped its old key meanwhile
                self._read_again.add(hook.id)
                return None
            self._read_again.discard(hook.id)
            # Nothing may be sent with a wrong signature, so the hook waits for a process that has the key.
            metrics.TROUBLE.labels("secret").inc()
            log.error("secret_unreadable", hook_id=hook.id, error=str(error))
            self._not_before[hook.id] = now_ms() + UNREADABLE_MS
            return None

    # --- the lease ---------------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """The reason why this process has no lease or may lose it soon, or None."""
        return self._trouble or (None if self.leases.is_valid else "its lease has ended")

    async def start(self) -> None:
        """Remove dead processes, join, and keep the lease renewed. Raises `Unavailable`."""
        await self.leases.remove_dead_owners()
        await self._renew()
        self._keeper = asyncio.create_task(self._keep_lease(), name="lease")

    async def leave(self) -> None:
        """Stop delivering. Raises `Unavailable`; the lease then expires on its own."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self.leases.leave()

    async def _keep_lease(self) -> None:
        """Renew the lease in a separate task, because a turn of the worker may outlast it."""
        while True:
            await self.leases.until_due()
            if not self._may_renew():
                await asyncio.sleep(AGAIN_S)
                continue
            try:
                await self._renew()
                self._trouble = None
            except Exception as error:
                metrics.TROUBLE.labels("lease").inc()
                if isinstance(error, Unavailable):
                    self._trouble = error.message
                    log.warning("lease_not_renewed", error=error.message, retry_in_s=AGAIN_S)
                else:
                    self._trouble = "its lease could not be renewed; see the log"
                    log.exception("lease_not_renewed", retry_in_s=AGAIN_S)
                await asyncio.sleep(AGAIN_S)

    def _may_renew(self) -> bool:
        """Return False if the worker hangs, so that the lease expires and another process delivers."""
        hung, before = self._hangs(), self._hung
        self._hung = hung
        if hung and not before:
            metrics.TROUBLE.labels("hung").inc()
            log.error("worker_hung", remedy="Restart this process. Others take over once its lease has expired.")
        elif before and not hung:
            log.warning("worker_recovered")
        return not hung

    async def _renew(self) -> None:
        """Renew the lease, and keep the lanes that still belong to this process."""
        try:
            await self.leases.renew(self._in_flight)
        finally:
            # Also after a failure: the next renewal acknowledges the view that this process acts on.
            self._keep_own()
            self._wake()

    def _in_flight(self) -> list[int]:
        """Return the hooks with attempts in flight under the current lease, not an earlier one."""
        epoch, lanes = self.leases.epoch, (*self._ending.values(), *self.lanes.values())
        return [lane.hook.id for lane in lanes if lane.in_flight and lane.epoch == epoch]

    def _keep_own(self) -> None:
        until, epoch, assignment = self.leases.valid_until, self.leases.epoch, self.leases.assignment
        for lane in list(self.lanes.values()):
            if lane.epoch == epoch and assignment.may_work_on(lane.hook.id):
                lane.lease_until = until
            else:
                self._forget(lane)
        if self._own_since != (now_so := (assignment.generation, assignment.settled)):
            self._own_since = now_so
            self._due = {hook_id: at for hook_id, at in self._due.items() if assignment.is_own(hook_id)}
            self.poll_now()  # finds the work of lanes that belonged to other processes

    async def reload_changed(self) -> None:
        changed = [lane for lane in self.lanes.values() if lane.needs_reload]
        if not changed:
            return
        hook_ids = [lane.hook.id for lane in changed]
        self._changed.clear()
        found = {hook.id: hook for hook in await hook_queries.hooks_by_id(self._database, hook_ids)}
        failing = await queries.failing_since(self._database, hook_ids)
        now = now_ms()
        for lane in changed:
            hook = found.get(lane.hook.id)
            if self.lanes.get(lane.hook.id) is not lane:
                continue  # another process got it meanwhile
            if hook is None:
                self._forget(lane)
                continue
            if hook.version != lane.hook.version or lane.needs_signer(now):
                if (signer := self._signer(hook)) is None:
                    lane.close()
                else:
                    lane.replace_hook(hook, signer, failing.get(hook.id))
            lane.needs_reload = hook.id in self._changed

    # --- unloading ---------------------------------------------------------------------------------------------------

    def _unload(self, lanes: Iterable[Lane]) -> None:
        now = now_ms()
        for lane in list(lanes):
            if lane.is_idle(now) and (lane.closed or not (lane.ready or lane.may_have_more)):
                del self.lanes[lane.hook.id]
                lane.close()
        metrics.LANES.set(len(self.lanes))

    def _make_room(self) -> None:
        """Unload some lanes without attempts in flight to make room for waiting ones."""
        now = now_ms()
        for lane in list(islice((each for each in self.lanes.values() if each.is_idle(now)), self._places // 4)):
            del self.lanes[lane.hook.id]
            lane.close()
            self._due[lane.hook.id] = now

    def _forget(self, lane: Lane) -> None:
        lane.close()
        del self.lanes[lane.hook.id]
        if lane.in_flight:
            self._ending[lane.hook.id] = lane
        metrics.LANES.set(len(self.lanes))

    def finished(self, lane: Lane, work: PendingAttempt) -> None:
        lane.finish(work)
        if not lane.in_flight and self._ending.get(lane.hook.id) is lane:
            del self._ending[lane.hook.id]
            self.leases.poll_soon()  # other processes may be waiting for this
