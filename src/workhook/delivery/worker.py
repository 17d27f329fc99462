"""The worker: leases lanes that have work, keeps their slots busy, hands outcomes to the recorder."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.core.vault import VaultError
from workhook.delivery import metrics, queries
from workhook.delivery.attempt import Finished, attempt, reason_to_deactivate
from workhook.delivery.deactivation import deactivate
from workhook.delivery.lanes import Lane, Work, profile_of, signer_until
from workhook.delivery.leases import Leases
from workhook.delivery.record import Recorder, apply_health
from workhook.delivery.retry import RetryPolicy
from workhook.delivery.send import Sender
from workhook.delivery.sign import Signer
from workhook.hooks import queries as hook_queries
from workhook.hooks.records import Hook
from workhook.http.calls import Services
from workhook.storage import Row
from workhook.storage.signals import DUE, HOOK

LOOK_MS = 1000  # without a signal, how often the worker looks for work
IDLE_MS = 20_000  # an idle lane goes back after this
FETCH_TOTAL = 512  # dispatches read at once, over all lanes
FETCH_LANE = 64  # and for one lane
LOW_WATER = 16  # a lane with fewer waiting reads more
INLINE_MAX = 64 * 1024  # larger payloads are loaded one at a time, when they are sent
FOREIGN_MS = 1000  # a lane that another process has is not asked for again within this

log = structlog.get_logger(__name__)


class Worker:
    """Delivers until it is stopped. One per process."""

    def __init__(self, services: Services, sender: Sender) -> None:
        settings = services.settings
        self._services = services
        self._database = services.database
        self._sender = sender
        self._policy = RetryPolicy(retries=settings.delivery_retries, first_s=settings.delivery_retry_first_s)
        self._limit = settings.concurrency
        self._leases = Leases(self._database)
        self._recorder = Recorder(self._database, self._recorded)
        self._lanes: dict[int, Lane] = {}
        self._due: dict[int, int] = {}  # hooks with work → when
        self._foreign: dict[int, int] = {}  # lanes that others have → when to ask again
        self._hungry: deque[Lane] = deque()  # lanes that wait for room in the process
        self._flying = 0
        self._look_at = 0
        self._wake = asyncio.Event()
        self._stopping = False
        self._all_landed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self._silence: list[object] = []

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises `Unavailable` if the database cannot be reached."""
        signals = self._database.signals
        self._unlisten = [signals.listen(DUE, self._heard_due), signals.listen(HOOK, self._heard_hook)]
        await self._leases.take_back()
        self._recorder.start()
        self._loop_task = asyncio.create_task(self._run(), name="worker")

    async def stop(self, drain_s: float) -> None:
        """Start nothing more; wait for what is under way, at most `drain_s`; give the leases back."""
        self._stopping = True
        self._wake.set()
        for unlisten in self._unlisten:
            unlisten()
        if self._loop_task is not None:
            await self._loop_task
        try:
            async with asyncio.timeout(drain_s):
                while self._flying:
                    self._all_landed.clear()
                    await self._all_landed.wait()
        except TimeoutError:
            log.warning("drain_time_over", unfinished=self._flying)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._recorder.stop()
        await self._leases.release(list(self._lanes), last=True)

    async def _run(self) -> None:
        pause_s = 0.1
        while not self._stopping:
            try:
                await self._turn()
                pause_s = 0.1
            except Exception as error:
                metrics.TROUBLE.labels("turn").inc()
                if isinstance(error, Unavailable):
                    log.warning("worker_waits_for_database", error=error.message, again_in_s=pause_s)
                else:
                    log.exception("worker_turn_failed", again_in_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 5.0)
                continue
            wait_ms = self._look_at - now_ms()
            if wait_ms > 0 and not self._wake.is_set():
                handle = asyncio.get_running_loop().call_later(wait_ms / 1000, self._wake.set)
                await self._wake.wait()
                handle.cancel()

    # --- signals -----------------------------------------------------------------------------------------------------

    def _heard_due(self, hook_ids: frozenset[int] | None) -> None:
        if hook_ids is None:
            self._look_at = 0
        else:
            self._mark_due(dict.fromkeys(hook_ids, 0))
        self._wake.set()

    def _heard_hook(self, hook_ids: frozenset[int] | None) -> None:
        for hook_id in self._lanes.keys() if hook_ids is None else hook_ids & self._lanes.keys():
            self._lanes[hook_id].stale = True
        self._wake.set()

    def _mark_due(self, due: dict[int, int]) -> None:
        now = now_ms()
        for hook_id, at in due.items():
            lane = self._lanes.get(hook_id)
            if lane is None:
                self._due[hook_id] = at
            elif at <= now:
                lane.more = True

    # --- one turn: look, lease, read, start ----------------------------------------------------------------------------

    async def _turn(self) -> None:
        self._wake.clear()
        now = now_ms()
        if self._leases.renewal_due(now):
            await self._renew()
        if now >= self._look_at:
            await self._look(now)
        await self._claim(now)
        await self._reload([lane for lane in self._lanes.values() if lane.stale])
        await self._fill()
        for lane in list(self._lanes.values()):
            if lane.ready:
                self._pump(lane)

    async def _look(self, now: int) -> None:
        """Find what no signal told of: retries whose time has come, and what was lost on the way."""
        pending = await queries.pending_hooks(self._database)
        metrics.PENDING_HOOKS.set(len(pending))
        self._due = {hook_id: at for hook_id, at in pending.items() if hook_id not in self._lanes}
        self._mark_due(pending)
        upcoming = [at for at in pending.values() if at > now]
        self._look_at = min([now + LOOK_MS, *upcoming])
        await self._share(len(pending))
        await self._give_back([lane for lane in self._lanes.values() if self._is_idle(lane, now)])

    async def _claim(self, now: int) -> None:
        wanted = [h for h, at in self._due.items() if at <= now and self._foreign.get(h, 0) <= now]
        if self._leases.alive > 1:
            fair = -(-(len(wanted) + len(self._lanes)) // self._leases.alive)
            wanted = wanted[: max(0, fair - len(self._lanes))] or (wanted[:1] if not self._lanes else [])
        if not wanted:
            return
        rows = {row["hook_id"]: row["failing_since"] for row in await self._leases.claim(wanted)}
        for hook_id in wanted:
            self._due.pop(hook_id, None)
            if hook_id not in rows:
                self._foreign[hook_id] = now + FOREIGN_MS
        if len(self._foreign) > 10_000:
            self._foreign = {h: at for h, at in self._foreign.items() if at > now}
        for hook in await hook_queries.hooks_by_id(self._database, list(rows)):
            signer = self._signer(hook)
            if signer is not None:
                self._lanes[hook.id] = Lane(hook, signer, rows[hook.id], signer_until(hook, now), idle_since=now)
        metrics.LANES.set(len(self._lanes))

    def _signer(self, hook: Hook) -> Signer | None:
        try:
            prefix = self._services.settings.header_prefix
            return Signer(profile_of(hook, self._services.vault, prefix, now_ms()))
        except VaultError as error:
            # Nothing may be sent with a wrong signature: the hook waits, with its lease, until the key is back.
            metrics.TROUBLE.labels("secret").inc()
            log.error("secret_unreadable", hook_id=hook.id, error=str(error))
            return None

    async def _reload(self, stale: Sequence[Lane]) -> None:
        if not stale:
            return
        found = {h.id: h for h in await hook_queries.hooks_by_id(self._database, [lane.hook.id for lane in stale])}
        for lane in stale:
            hook = found.get(lane.hook.id)
            signer = self._signer(hook) if hook is not None else None
            if hook is None or signer is None:
                lane.ready.clear()
                self._lanes.pop(lane.hook.id, None)
            else:
                lane.replace_hook(hook, signer)

    async def _fill(self) -> None:
        """Read what is due for the lanes that run low, a share for each."""
        thirsty = [
            lane
            for lane in self._lanes.values()
            if lane.more and not lane.leaving and not lane.stale and len(lane.ready) < LOW_WATER
        ]
        if not thirsty:
            return
        per_lane = max(1, min(FETCH_LANE, FETCH_TOTAL // len(thirsty)))
        by_id = {lane.hook.id: lane for lane in thirsty}
        busy = [work.id for lane in thirsty for work in (*lane.ready, *lane.flying.values())]
        for lane in thirsty:
            lane.more = False  # a signal that comes while we read sets it again
        rows = await queries.due_dispatches(self._database, list(by_id), busy, now_ms(), per_lane)
        small = {row["event_id"] for row in rows if row["size"] <= INLINE_MAX}
        payloads = await queries.payloads(self._database, list(small)) if small else {}
        counts: dict[int, int] = {}
        for row in rows:
            lane = by_id[row["hook_id"]]
            counts[row["hook_id"]] = counts.get(row["hook_id"], 0) + 1
            if row["version"] != lane.hook.version:
                lane.stale = lane.more = True
                self._wake.set()
            elif row["id"] not in lane.flying:
                lane.ready.append(_work_of(row, payloads.get(row["event_id"])))
        for hook_id, count in counts.items():
            if count == per_lane:
                by_id[hook_id].more = True

    # --- attempts ----------------------------------------------------------------------------------------------------

    def _pump(self, lane: Lane) -> None:
        """Start attempts until the lane or the process has no room."""
        while not self._stopping:
            if self._flying >= self._limit:
                if lane.ready and lane not in self._hungry:
                    self._hungry.append(lane)
                return
            if lane.signer_until is not None and lane.signer_until <= now_ms():
                lane.stale = True
                self._wake.set()
            work = lane.take(now_ms())
            if work is None:
                break
            if isinstance(work, float):
                asyncio.get_running_loop().call_later(work / 1000, self._pump, lane)
                break
            self._flying += 1
            task = asyncio.create_task(self._attempt(lane, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if lane.ready and (held := lane.hold_back()):
            metrics.THROTTLED.inc(held)
        if lane.more and len(lane.ready) < LOW_WATER:
            self._wake.set()

    async def _attempt(self, lane: Lane, work: Work) -> None:
        try:
            payload = work.payload
            if payload is None:
                payload = (await queries.payloads(self._database, [work.event_id])).get(work.event_id)
            if payload is None:
                raise LookupError(f"event {work.event_id} of dispatch {work.id} is gone")
            finished = await attempt(lane, work, payload, self._sender, self._policy)
        except Exception:
            # Not the receiver's doing: nothing is recorded, so it stays due and is read again.
            metrics.TROUBLE.labels("attempt").inc()
            log.exception("attempt_failed", hook_id=lane.hook.id, dispatch_id=work.id)
            self._look_at = max(self._look_at, now_ms() + LOOK_MS)
            self._landed(lane, work)
            return
        except asyncio.CancelledError:
            self._landed(lane, work)
            raise
        work.payload = None  # it may wait for its record; its memory need not
        self._recorder.add(finished)

    def _landed(self, lane: Lane, work: Work) -> None:
        lane.flying.pop(work.id, None)
        self._flying -= 1
        if self._flying == 0:
            self._all_landed.set()

    def _recorded(self, batch: Sequence[Finished]) -> None:
        """The batch is durable: count it, free its slots, go on."""
        apply_health(batch)
        now = now_ms()
        touched: dict[int, Lane] = {}
        for each in batch:
            lane = each.lane
            touched[id(lane)] = lane
            lane.idle_since = now
            self._landed(lane, each.work)
            metrics.DELIVERIES.labels("success" if each.outcome.ok else "failure").inc()
            metrics.DELIVERY_SECONDS.observe(each.outcome.duration_ms / 1000)
            if each.next_at is not None:
                metrics.RETRIES.inc()
                self._look_at = min(self._look_at, each.next_at)
            elif each.work.wanted:
                lane.more = True
            if (reason := reason_to_deactivate(each)) is not None:
                self._deactivate(lane, reason)
        metrics.IN_FLIGHT.set(self._flying)
        for lane in touched.values():
            self._pump(lane)
        for _ in range(len(self._hungry)):
            if self._flying >= self._limit:
                break
            self._pump(self._hungry.popleft())

    def _deactivate(self, lane: Lane, reason: str) -> None:
        lane.stale = True  # nothing more starts until the hook is read again
        task = asyncio.create_task(self._deactivate_now(lane.hook.id, reason))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deactivate_now(self, hook_id: int, reason: str) -> None:
        try:
            await deactivate(self._services, hook_id, reason)
        except Exception:
            metrics.TROUBLE.labels("deactivate").inc()
            log.exception("deactivation_failed", hook_id=hook_id)
        self._wake.set()

    # --- sharing -----------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        lost = await self._leases.renew(list(self._lanes))
        for hook_id in lost:
            lane = self._lanes.pop(hook_id)
            lane.leaving = True
            lane.ready.clear()
            log.warning("lease_lost", hook_id=hook_id)

    async def _share(self, pending: int) -> None:
        """With other workers alive, keep no more than a fair share of the lanes that have work."""
        alive = self._leases.alive
        working = [lane for lane in self._lanes.values() if lane.ready or lane.flying or lane.more]
        if alive > 1 and len(working) > (fair := -(-pending // alive)):
            for lane in working[fair:]:
                lane.leaving = True
                lane.ready.clear()
        await self._give_back([lane for lane in self._lanes.values() if lane.leaving and not lane.flying])

    def _is_idle(self, lane: Lane, now: int) -> bool:
        quiet = not lane.ready and not lane.flying and not lane.more
        return quiet and now - lane.idle_since > IDLE_MS

    async def _give_back(self, lanes: Iterable[Lane]) -> None:
        hook_ids = [lane.hook.id for lane in lanes]
        for hook_id in hook_ids:
            self._lanes.pop(hook_id, None)
            self._foreign[hook_id] = now_ms() + FOREIGN_MS if self._leases.alive > 1 else 0
        await self._leases.release(hook_ids)
        metrics.LANES.set(len(self._lanes))


def _work_of(row: Row, payload: bytes | None) -> Work:
    return Work(
        id=row["id"],
        event_id=row["event_id"],
        guid=row["guid"],
        attempts=row["attempts"],
        retries=row["retries"],
        wanted=row["wanted"],
        due_at=row["next_attempt_at"],
        event=row["event"],
        action=row["action"],
        repository_id=row["repository_id"],
        size=row["size"],
        payload=payload,
    )
