"""The lanes of this process: which it asks for, renews, loads anew, shares with other processes and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Set

import structlog

from workhook.core.clock import now_ms
from workhook.core.vault import VaultError
from workhook.delivery import metrics, queries
from workhook.delivery.lanes import Lane, Work, profile_of, signer_until
from workhook.delivery.leases import Leases
from workhook.delivery.schedule import Schedule
from workhook.delivery.sign import Signer
from workhook.hooks import queries as hook_queries
from workhook.hooks.records import Hook
from workhook.http.calls import Services

LOOK_MS = 1000  # how often the worker looks who else is there, and gives lanes back
SEARCH_MS = 5000  # without a signal, how often it looks for work; of what it knows by itself it needs no signal
IDLE_MS = 20_000  # an idle lane goes back after this
FOREIGN_MS = 1000  # a lane that another process has is not asked for again within this
UNREADABLE_MS = 30_000  # likewise one whose secret cannot be read here
OVERDUE_MS = 3000  # what nobody has taken for so long is taken by whoever sees it, fair or not
UNFAIR_LOOKS = 3  # a process that had more than its share so many looks in a row gives some of it up

log = structlog.get_logger(__name__)


class Holdings:
    """`lanes` are leased. A lane that is lost is not taken again before what is in flight of it has ended."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._database = services.database
        self.leases = Leases(services.database, round(services.settings.delivery_lease_s * 1000))
        self.lanes: dict[int, Lane] = {}
        self._look_at = self._search_at = 0
        self._later = Schedule()
        self._ending: dict[int, Lane] = {}  # not ours any more, with something still in flight
        self._due: dict[int, int] = {}  # hooks with work that have no lane here → when
        self._pending: set[int] = set()  # every hook with work, here or elsewhere
        self._not_before: dict[int, int] = {}  # lanes that could not be had → when to ask again
        self._changed: set[int] = set()  # hooks that a signal named since the last reload began
        self._unfair_looks = 0

    def time_to_look(self, now: int) -> bool:
        """Also when the clock was set back."""
        return not now < self._look_at <= now + LOOK_MS

    def look_now(self) -> None:
        """There may be work that no signal told of."""
        self._look_at = self._search_at = 0

    @property
    def next_at(self) -> int:
        """When there is something to do, as far as is known here."""
        return min(self._look_at, self._later.next_at or self._look_at)

    # --- what there is to do -----------------------------------------------------------------------------------------

    def mark_due(self, due: dict[int, int]) -> None:
        """Hook id → when it has work (milliseconds; 0: now)."""
        now = now_ms()
        self._pending.update(due)
        for hook_id, at in due.items():
            lane = self.lanes.get(hook_id)
            if at > now:
                self._later.add(hook_id, at)
            elif lane is None:
                self._due[hook_id] = at
            else:
                lane.more = True

    def mark_pending(self, hook_id: int) -> None:
        """It has work, in a lane that is here."""
        self._pending.add(hook_id)

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
        """Share lanes with other processes, and now and then find what no signal told of."""
        if not now < self._search_at <= now + SEARCH_MS:
            await self._search(now)
        self._look_at = now + LOOK_MS
        self._not_before = {hook_id: at for hook_id, at in self._not_before.items() if now < at <= now + UNREADABLE_MS}
        await self.leases.count_alive()
        self._share()
        leaving = [lane for lane in self.lanes.values() if not lane.flying and (lane.leaving or _is_idle(lane, now))]
        await self._give_back(leaving, now)

    async def _search(self, now: int) -> None:
        self._search_at = now + SEARCH_MS  # a signal that comes while we read sets it again
        self._pending, self._due = set(), {}  # what a signal names meanwhile is kept
        try:
            pending = await queries.pending_hooks(self._database)
        except BaseException:
            self._search_at = 0
            raise
        metrics.PENDING_HOOKS.set(len(pending))
        self.mark_due({**pending, **self._due})

    # --- taking ------------------------------------------------------------------------------------------------------

    async def claim(self, now: int) -> None:
        """Lease lanes that have work, up to this process's share."""
        wanted = {
            hook_id: at
            for hook_id, at in self._due.items()
            if at <= now and self._not_before.get(hook_id, 0) <= now and hook_id not in self._ending
        }
        room = self._room(len(wanted)) if wanted else 0
        if room == 0:
            wanted = {hook_id: at for hook_id, at in wanted.items() if 0 < at <= now - OVERDUE_MS}
            room = len(wanted)
        if not wanted:
            return
        until, rows = await self.leases.claim(wanted, room)
        failing = {row["hook_id"]: row["failing_since"] for row in rows}
        if len(failing) < room:
            await self._not_had(wanted.keys() - failing.keys(), now)
        unreadable = []
        for hook in await hook_queries.hooks_by_id(self._database, list(failing)):
            self._due.pop(hook.id, None)
            signer = self._signer(hook)
            if signer is None:
                unreadable.append(hook.id)
                continue
            lane = Lane(hook, signer, until, failing[hook.id], signer_until(hook, now), idle_since=now)
            self.lanes[hook.id] = lane
        await self.leases.release(unreadable)
        metrics.LANES.set(len(self.lanes))

    async def _not_had(self, hook_ids: Set[int], now: int) -> None:
        """They are another process's. Or their hooks are gone: an event can meet the deletion of a hook."""
        self._not_before.update(dict.fromkeys(hook_ids, now + FOREIGN_MS))
        gone = hook_ids - await queries.existing_hooks(self._database, list(hook_ids))
        if gone:
            async with self._database.transaction() as tx:
                await queries.drop_waiting(tx, list(gone))

    def _room(self, wanted: int) -> int:
        """How many lanes more would still be fair."""
        if self.leases.alive == 1:
            return wanted
        working = sum(lane.working and not lane.leaving for lane in self.lanes.values())
        return max(0, self._fair() - working)

    def _fair(self) -> int:
        return -(-len(self._pending | self._due.keys()) // self.leases.alive)

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

    async def renew(self) -> None:
        until, renewed, lost = await self.leases.renew(list(self.lanes))
        for hook_id, lane in list(self.lanes.items()):
            if hook_id in lost:
                log.warning("lease_lost", hook_id=hook_id)
                self._forget(lane)
            elif hook_id in renewed:
                lane.lease_until = until

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

    # --- giving ------------------------------------------------------------------------------------------------------

    def _share(self) -> None:
        """With other workers alive, keep no more than a fair share of the lanes that have work."""
        working = [lane for lane in self.lanes.values() if lane.working and not lane.leaving]
        excess = len(working) - self._fair() if self.leases.alive > 1 else 0
        self._unfair_looks = self._unfair_looks + 1 if excess > 0 else 0
        if self._unfair_looks >= UNFAIR_LOOKS:
            self._unfair_looks = 0
            for lane in working[-excess:]:
                lane.leave()

    async def _give_back(self, given: Iterable[Lane], now: int) -> None:
        given = list(given)
        for lane in given:
            self.lanes.pop(lane.hook.id, None)
            if lane.leaving:  # it goes to another process: not back to this one at once
                self._not_before.setdefault(lane.hook.id, now + OVERDUE_MS)
        await self.leases.release([lane.hook.id for lane in given])
        metrics.LANES.set(len(self.lanes))

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


def _is_idle(lane: Lane, now: int) -> bool:
    return not lane.working and now - lane.idle_since > IDLE_MS
