"""The lanes of this process: which of its own have work, and those of them that it has loaded.

Whose a lane is, is not written anywhere (`membership`). Of a lane without work nothing is kept here; of one that waits
to be loaded, its number.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from itertools import islice

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.core.vault import VaultError
from workhook.delivery import metrics, queries
from workhook.delivery.lanes import Lane, Work, profile_of, signer_until
from workhook.delivery.leases import Leases
from workhook.delivery.schedule import Schedule
from workhook.delivery.sign import Signer
from workhook.hooks import queries as hook_queries
from workhook.hooks.records import Hook
from workhook.http.calls import Services

TOGETHER_MS = 50  # what is due later is begun this often, and not each by itself: a retry has time
LOOK_MS = 1000  # how often lanes are given up that have nothing to do
SEARCH_MS = 5000  # without a signal, how often it looks for work; of what it knows by itself it needs no signal
SEARCH_MAX_MS = 20_000
SEARCH_SHARE = 20  # a search that took long is not made again before so many times of that
PAGE = 1000  # hooks with work, found at once
PLACES = 1024  # lanes loaded at once, beside those that can be in flight; others with work wait for a place
IDLE_MS = 20_000  # an idle lane is given up after this, or as soon as another needs its place
AGAIN_S = 1.0  # when to try again to renew the lease
TIMES = 64  # of a lane, at which something is due later, read at once
UNREADABLE_MS = 30_000  # a lane whose secret cannot be read here is not tried again within this

log = structlog.get_logger(__name__)


class Holdings:
    """`lanes` are loaded. One that is lost is not loaded again before what is in flight of it has ended."""

    def __init__(self, services: Services, *, wake: Callable[[], None], hangs: Callable[[], bool]) -> None:
        """`wake`: there may be something to do. `hangs`: whether nobody does it, so that others should."""
        self._services = services
        self._wake, self._hangs = wake, hangs
        self._database = services.database
        self.leases = Leases(services.database, round(services.settings.delivery_lease_s * 1000))
        self.lanes: dict[int, Lane] = {}
        self._places = PLACES + services.settings.concurrency
        self._look_at = self._search_at = 0
        self._phase = secrets.randbelow(TOGETHER_MS)  # so that not all processes begin at the same moment
        self._searched = 0  # the last hook that the search has come to; 0: none is under way
        self._search_ms = 0.0  # that it took so far
        self._pending = 0  # hooks with work that it has found
        self._later = Schedule()
        self._ending: dict[int, Lane] = {}  # not ours any more, with something still in flight
        self._due: dict[int, int] = {}  # hooks of ours with work that have no lane here → since when
        self._not_before: dict[int, int] = {}  # lanes that could not be loaded → when to try again
        self._changed: set[int] = set()  # hooks that a signal named since the last reload began
        self._keeper: asyncio.Task[None] | None = None
        self._trouble: str | None = None
        self._hung = False
        self._own_since: tuple[int, bool] = (0, False)  # generation, and whether it is settled: what lanes were kept by

    def time_to_look(self, now: int) -> bool:
        """Also when the clock was set back."""
        return not now < self._look_at <= now + LOOK_MS

    def look_now(self) -> None:
        """There may be work that no signal told of."""
        self._look_at = self._search_at = 0

    @property
    def next_at(self) -> int:
        """When there is something to do, as far as is known here."""
        later = self._later.next_at
        if later is None:
            return self._look_at
        return min(self._look_at, later + -(later + self._phase) % TOGETHER_MS)

    # --- what there is to do -----------------------------------------------------------------------------------------

    def mark_due(self, due: dict[int, int]) -> bool:
        """Hook id → when it has work (milliseconds; 0: now). Answers whether there is anything to do now."""
        now = now_ms()
        to_do = False
        is_own = self.leases.membership.is_own
        for hook_id, at in due.items():
            lane = self.lanes.get(hook_id)
            if lane is not None and at <= now:
                lane.more = to_do = True
            elif not is_own(hook_id):
                continue
            elif at > now:
                self._later.add(hook_id, at)
            else:
                self._due.setdefault(hook_id, at)
                to_do = True
        return to_do

    def mark_come(self, now: int) -> None:
        """What was to be done later is due."""
        if come := self._later.come(now):
            self.mark_due(come)

    def mark_stale(self, hook_ids: frozenset[int] | None) -> None:
        """The hooks were changed; None: any of them may have been."""
        for hook_id in list(self.lanes) if hook_ids is None else hook_ids & self.lanes.keys():
            self.lanes[hook_id].stale = True
            self._changed.add(hook_id)
        for hook_id in hook_ids or ():
            self._not_before.pop(hook_id, None)  # its secret may be readable now

    async def look(self, now: int) -> None:
        """Give up what has nothing to do, and now and then find what no signal told of."""
        self._look_at = now + LOOK_MS
        if self._searched or not now < self._search_at <= now + SEARCH_MAX_MS:
            await self._search(now)
        self._not_before = {hook_id: at for hook_id, at in self._not_before.items() if now < at <= now + UNREADABLE_MS}
        self._give_up(lane for lane in self.lanes.values() if lane.leaving or now - lane.idle_since > IDLE_MS)
        if self._due and len(self.lanes) >= self._places:
            self._take_turns()

    async def _search(self, now: int) -> None:
        """A page of it; the next page has the next turn."""
        if not self._searched:
            self._pending, self._search_ms = 0, 0.0
            self._search_at = now + SEARCH_MS  # a signal that comes while we read sets it again
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
            self._searched, self._look_at = max(found), 0
            return
        self._searched = 0
        metrics.PENDING_HOOKS.set(self._pending)
        if self._search_at:
            self._search_at = now + round(min(max(SEARCH_MS, SEARCH_SHARE * self._search_ms), SEARCH_MAX_MS))

    # --- taking ------------------------------------------------------------------------------------------------------

    async def claim(self, now: int) -> None:
        """Load lanes of ours that have work, as long as there are places."""
        if not self._due or not self.leases.good:
            return
        if len(self._due) > self._places - len(self.lanes):
            self._give_up(self.lanes.values())
        room = self._places - len(self.lanes)
        wanted = list(islice((hook_id for hook_id in self._due if self._can_load(hook_id, now)), max(0, room)))
        if not wanted:
            return
        hooks = await hook_queries.hooks_by_id(self._database, wanted)
        failing = await queries.failing_since(self._database, wanted)
        for hook in hooks:
            if not self._can_load(hook.id, now):  # it was lost meanwhile
                continue
            del self._due[hook.id]
            signer = self._signer(hook)
            if signer is not None:
                until = self.leases.good_until
                lane = Lane(hook, signer, until, failing.get(hook.id), signer_until(hook, now), idle_since=now)
                lane.epoch = self.leases.epoch
                self.lanes[hook.id] = lane
        await self._drop_gone(set(wanted) - {hook.id for hook in hooks})
        metrics.LANES.set(len(self.lanes))

    async def read_times(self, now: int) -> None:
        """What is due later in lanes that others had until now, or that were given up: nobody else tells of it."""
        asked = [lane for lane in self.lanes.values() if lane.times_until is not None and lane.times_until <= now]
        if not asked:
            return
        found = await queries.later_times(self._database, [lane.hook.id for lane in asked], now, TIMES)
        for lane in asked:
            times = found.get(lane.hook.id) or []
            lane.times_until = times[-1] if len(times) == TIMES else None
            for at in times:
                self._later.add(lane.hook.id, at)

    def _can_load(self, hook_id: int, now: int) -> bool:
        if self._not_before.get(hook_id, 0) > now or hook_id in self._ending or hook_id not in self._due:
            return False
        return self.leases.membership.may_work_on(hook_id)

    async def _drop_gone(self, hook_ids: set[int]) -> None:
        """Their hooks are gone: an event can meet the deletion of a hook."""
        if hook_ids:
            for hook_id in hook_ids:
                self._due.pop(hook_id, None)
            async with self._database.transaction() as tx:
                await queries.drop_waiting(tx, list(hook_ids))

    def _signer(self, hook: Hook) -> Signer | None:
        try:
            prefix = self._services.settings.header_prefix
            return Signer(profile_of(hook, self._services.vault, prefix, now_ms()))
        except VaultError as error:
            # Nothing may be sent with a wrong signature: the hook waits until a process has the key.
            metrics.TROUBLE.labels("secret").inc()
            log.error("secret_unreadable", hook_id=hook.id, error=str(error))
            self._not_before[hook.id] = now_ms() + UNREADABLE_MS
            return None

    # --- keeping -----------------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why this process has no lease, or may not have it for long; None: all is well."""
        return self._trouble or (None if self.leases.good else "its lease has ended")

    async def start(self) -> None:
        """Raises `Unavailable` if the database cannot be reached."""
        await self.leases.take_back()
        await self._renew()
        self._keeper = asyncio.create_task(self._keep_lease(), name="lease")

    async def leave(self) -> None:
        """Deliver no more. Raises `Unavailable` if the database cannot be reached; then the lease runs out."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self.leases.leave()

    async def _keep_lease(self) -> None:
        """Beside the worker's turns, one of which may take longer than the lease when the database is slow."""
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
                    log.warning("lease_not_renewed", error=error.message, again_in_s=AGAIN_S)
                else:
                    self._trouble = "its lease could not be renewed; the log says why"
                    log.exception("lease_not_renewed", again_in_s=AGAIN_S)
                await asyncio.sleep(AGAIN_S)

    def _may_renew(self) -> bool:
        """Nothing would be sent for its lanes if a process that hangs kept them."""
        hung, before = self._hangs(), self._hung
        self._hung = hung
        if hung and not before:
            metrics.TROUBLE.labels("hung").inc()
            log.error("worker_hangs", advice="restart this process; others deliver when its lease has ended")
        elif before and not hung:
            log.warning("worker_goes_on")
        return not hung

    async def _renew(self) -> None:
        """Act by what others there are now."""
        try:
            await self.leases.renew(self._in_flight)
        finally:
            # Also after a failure: what is acknowledged next is what is acted by here.
            self._keep_own()
            self._wake()

    def _in_flight(self) -> list[int]:
        """In this life; what is left of an earlier one is others' by now."""
        epoch, lanes = self.leases.epoch, (*self._ending.values(), *self.lanes.values())
        return [lane.hook.id for lane in lanes if lane.flying and lane.epoch == epoch]

    def _keep_own(self) -> None:
        until, epoch, membership = self.leases.good_until, self.leases.epoch, self.leases.membership
        for lane in list(self.lanes.values()):
            if lane.epoch == epoch and membership.may_work_on(lane.hook.id):
                lane.lease_until = until
            else:
                self._forget(lane)
        if self._own_since != (now_so := (membership.generation, membership.settled)):
            self._own_since = now_so
            self._due = {hook_id: at for hook_id, at in self._due.items() if membership.is_own(hook_id)}
            self.look_now()  # for the work of lanes that were others'

    async def reload(self) -> None:
        """Load the hooks that were changed."""
        stale = [lane for lane in self.lanes.values() if lane.stale]
        if not stale:
            return
        hook_ids = [lane.hook.id for lane in stale]
        self._changed.clear()
        found = {hook.id: hook for hook in await hook_queries.hooks_by_id(self._database, hook_ids)}
        failing = await queries.failing_since(self._database, hook_ids)
        now = now_ms()
        for lane in stale:
            hook = found.get(lane.hook.id)
            if self.lanes.get(lane.hook.id) is not lane:
                continue  # it was lost meanwhile
            if hook is None:
                self._forget(lane)
                continue
            if hook.version != lane.hook.version or lane.needs_signer(now):
                self._replace(lane, hook, failing.get(hook.id))
            lane.stale = hook.id in self._changed

    def _replace(self, lane: Lane, hook: Hook, failing_since: int | None) -> None:
        signer = self._signer(hook)
        if signer is None:
            lane.leave()
        else:
            lane.replace_hook(hook, signer, failing_since)

    # --- giving up ---------------------------------------------------------------------------------------------------

    def _give_up(self, lanes: Iterable[Lane]) -> None:
        """Those of them that have nothing to do; their rates are kept."""
        now = now_ms()
        for lane in list(lanes):
            if not (lane.flying or lane.halted or lane.next_start_ms > now) and (lane.leaving or not lane.working):
                del self.lanes[lane.hook.id]
                lane.leave()
        metrics.LANES.set(len(self.lanes))

    def _take_turns(self) -> None:
        """All places are taken, and others wait: some of the lanes that have nothing in flight wait instead."""
        now = now_ms()
        waiting = (lane for lane in self.lanes.values() if not (lane.flying or lane.halted or lane.next_start_ms > now))
        for lane in list(islice(waiting, self._places // 4)):
            del self.lanes[lane.hook.id]
            lane.leave()
            self._due[lane.hook.id] = now

    def _forget(self, lane: Lane) -> None:
        lane.leave()
        del self.lanes[lane.hook.id]
        if lane.flying:
            self._ending[lane.hook.id] = lane
        metrics.LANES.set(len(self.lanes))

    def landed(self, lane: Lane, work: Work) -> None:
        """An attempt is over."""
        lane.flying.pop(work.id, None)
        if not lane.flying and self._ending.get(lane.hook.id) is lane:
            del self._ending[lane.hook.id]
            self.leases.look_now()  # others may wait for that
