"""The worker: leases lanes that have work, keeps their slots busy, hands outcomes to the recorder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.delivery import metrics, queries
from workhook.delivery.address_policy import OwnTrouble
from workhook.delivery.attempt import Finished, attempt, reason_to_deactivate
from workhook.delivery.budget import Budget
from workhook.delivery.deactivation import deactivate
from workhook.delivery.lanes import Lane, Work
from workhook.delivery.leased_lanes import LOOK_MS, LeasedLanes
from workhook.delivery.outcome_writer import OutcomeWriter
from workhook.delivery.retry import RetryPolicy
from workhook.delivery.send import Sender
from workhook.delivery.slots import SLUGGISH_MS, Slots
from workhook.delivery.stock import Stock
from workhook.hooks.handover import CommittedDispatch, take_with
from workhook.hooks.records import Hook
from workhook.http.calls import Services
from workhook.storage.signals import DUE, HOOK, WORKERS

OWN_PAUSE_MS = 1000
RECORD_S = 1.0  # at the end, for what was still to be recorded
SILENT_S = 30.0  # without a turn: something hangs, perhaps
HUNG_S = 120.0  # longer than any statement may take, several times: others shall have the lanes
TROUBLE_PAUSE_S = (0.1, 5.0)  # after a turn that failed, doubled up to the second

log = structlog.get_logger(__name__)


class Worker:
    """Delivers until it is stopped. One per process."""

    def __init__(self, services: Services, sender: Sender) -> None:
        settings = services.settings
        self._services = services
        self._database = services.database
        self._sender = sender
        self._policy = RetryPolicy(retries=settings.delivery_retries, first_s=settings.delivery_retry_first_s)
        self._recorder = OutcomeWriter(self._database, self._recorded, lambda: self._slots.flying)
        self._wake = asyncio.Event()
        self._held = LeasedLanes(services, wake=self._wake.set, hangs=self._hangs)
        self._slots = Slots(min(settings.concurrency, sender.at_once))
        # Two halves: what waits with its payload must not keep from its turn what is loaded when that comes.
        payload_bytes = settings.delivery_memory_mb * 1024 * 1024
        self._stock = Stock(self._database, self._held, payload_bytes // 2)
        self._loading = Budget(payload_bytes // 2)
        self._paused_until = 0
        self._stopping = asyncio.Event()
        self._all_landed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self._unlisten: list[Callable[[], None]] = []
        self._trouble: str | None = "it has not begun"
        self._turned_at_s = time.monotonic()

    @property
    def state(self) -> str:
        """`ok`, or why nothing is started now; for `/readyz`."""
        if self._stopping.is_set():
            return "it stops"
        if self._trouble is None and self._silent_s > SILENT_S:
            return f"it has not looked for work for {self._silent_s:.0f} s"
        return self._trouble or self._held.trouble or "ok"

    @property
    def _silent_s(self) -> float:
        return time.monotonic() - self._turned_at_s

    def _hangs(self) -> bool:
        """One that stops makes no turns, and waits only for what ends by itself."""
        return not self._stopping.is_set() and self._silent_s > HUNG_S

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises `Unavailable` if the database cannot be reached."""
        signals = self._database.signals
        listeners = {DUE: self._heard_due, HOOK: self._heard_hook, WORKERS: self._heard_workers}
        self._unlisten = [signals.listen(topic, listener) for topic, listener in listeners.items()]
        self._unlisten.append(take_with(self._database, self))
        await self._held.start()
        self._recorder.start()
        self._turned_at_s = time.monotonic()
        self._loop_task = asyncio.create_task(self._run(), name="worker")

    def start_nothing_more(self) -> None:
        """From now on; what is under way goes on."""
        self._stopping.set()
        self._held.leases.leave_soon()
        self._wake.set()

    async def stop(self, drain_s: float) -> None:
        """Start nothing more; wait for what is under way, at most `drain_s`; give the leases back."""
        self.start_nothing_more()
        for unlisten in self._unlisten:
            unlisten()
        try:
            async with asyncio.timeout(drain_s):
                if self._loop_task is not None:
                    await self._loop_task
                while self._slots.flying:  # the lease is kept meanwhile: another process would send it as well
                    self._all_landed.clear()
                    await self._all_landed.wait()
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            log.warning("drain_time_over", unfinished=self._slots.flying)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._recorder.stop(RECORD_S)
        try:
            await self._held.leave()
        except Unavailable as error:
            log.warning("leases_not_released", error=error.message)

    async def _run(self) -> None:
        least_s, most_s = TROUBLE_PAUSE_S
        pause_s = least_s
        while not self._stopping.is_set():
            try:
                await self._turn()
                self._trouble = None
            except Exception as error:
                self._trouble = error.message if isinstance(error, Unavailable) else "a step failed; the log says why"
                metrics.TROUBLE.labels("turn").inc()
                if isinstance(error, Unavailable):
                    log.warning("worker_waits_for_database", error=error.message, again_in_s=pause_s)
                else:
                    log.exception("worker_turn_failed", again_in_s=pause_s)
                self._turned_at_s = time.monotonic()
                await _within(self._stopping, pause_s)
                pause_s = min(pause_s * 2, most_s)
                continue
            pause_s, self._turned_at_s = least_s, time.monotonic()
            wait_ms = self._held.next_at - now_ms()
            if 0 < wait_ms <= LOOK_MS:
                await _within(self._wake, wait_ms / 1000)

    # --- signals -----------------------------------------------------------------------------------------------------

    def _heard_due(self, hook_ids: frozenset[int] | None) -> None:
        if hook_ids is None:
            self._held.look_now()
        elif not self._held.mark_due(dict.fromkeys(hook_ids, 0)):
            return  # others have that
        self._wake.set()

    def _heard_hook(self, hook_ids: frozenset[int] | None) -> None:
        self._held.mark_stale(hook_ids)
        self._wake.set()

    def _heard_workers(self, _: frozenset[int] | None) -> None:
        self._held.leases.look_now()

    # --- what this process commits: a `hooks.handover.Taker` ---------------------------------------------------------

    def may_take(self) -> bool:
        """Lanes that are to be read take nothing."""
        return any(not lane.more for lane in self._held.lanes.values())

    def take(self, fresh: CommittedDispatch) -> bool:
        """If it has the lane, and nothing lies before."""
        lane = None if self._stopping.is_set() else self._stock.offer(fresh)
        if lane is None:
            return False
        self._pump(lane)
        return True

    # --- one turn: look, lease, read, start --------------------------------------------------------------------------

    async def _turn(self) -> None:
        self._wake.clear()
        held = self._held
        now = now_ms()
        if held.time_to_look(now):
            await held.look(now)
        held.mark_come(now)
        await held.claim(now)
        await held.read_times(now)
        await held.reload()
        if await self._stock.fill(idle=not self._slots.full):
            self._wake.set()
        for lane in list(held.lanes.values()):
            if lane.ready:
                self._pump(lane)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def _pump(self, lane: Lane) -> None:
        """Start attempts until the lane or the process has no room."""
        now = now_ms()
        while self._start(lane, now):
            pass
        self._settle(lane, now)

    def _start(self, lane: Lane, now: int) -> bool:
        """Start one attempt, if there is one to start and room for it."""
        if self._stopping.is_set() or now < self._paused_until or not self._held.leases.good:
            return False
        if lane.needs_signer(now):
            lane.stale = True
        work = self._slots.take(lane, now)
        if isinstance(work, float):
            self._look_again(lane, work)
        if not isinstance(work, Work):
            return False
        self._stock.started()
        self._spawn(self._attempt(lane, work))
        return True

    def _settle(self, lane: Lane, now: int) -> None:
        """After starts: mark what has to wait, and read more if little is left."""
        if held := lane.hold_back(now):
            metrics.THROTTLED.inc(held)
        if lane.stale or self._stock.wants(lane):
            self._wake.set()

    def _take_turns(self, touched: Iterable[Lane]) -> None:
        """Slots came free. While others wait, a lane with a long queue does not take back what it freed."""
        if not self._slots.contested:
            for lane in touched:
                self._pump(lane)
            return
        for lane in touched:
            self._slots.queue(lane)
        now = now_ms()
        passed = 0  # lanes in a row that found no room of their own
        while not self._slots.full and passed < len(self._slots):
            lane = self._slots.next()
            if self._start(lane, now):
                passed = 0
                self._slots.queue(lane)
            elif lane.hungry:
                passed += 1
            self._settle(lane, now)

    def _look_again(self, lane: Lane, wait_ms: float) -> None:
        if not lane.alarm:
            lane.alarm = True
            asyncio.get_running_loop().call_later(wait_ms / 1000, self._alarmed, lane)

    def _alarmed(self, lane: Lane) -> None:
        lane.alarm = False
        self._pump(lane)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, lane: Lane, work: Work) -> None:
        try:
            if work.payload is not None:
                finished = await self._send(lane, work)
            else:
                async with self._loading.of(2 * work.size):  # twice: it may be sent as a form
                    finished = await self._send(lane, work)
        except OwnTrouble as error:
            self._pause(error)
            self._put_off(lane, work)
        except Unavailable as error:
            metrics.TROUBLE.labels("attempt").inc()
            log.warning("attempt_put_off", hook_id=lane.hook.id, dispatch_id=work.id, error=error.message)
            self._put_off(lane, work)
        except Exception as error:  # handed to the log
            # Not the receiver's doing: nothing is recorded, so it stays due, and the next search finds it. Not sooner,
            # and the lane goes on: it would fail again.
            metrics.TROUBLE.labels("attempt").inc()
            log.exception("attempt_failed", hook_id=lane.hook.id, dispatch_id=work.id, error=str(error))
            self._landed(lane, work)
        except asyncio.CancelledError:
            self._landed(lane, work)
            raise
        else:
            self._recorder.add(finished)
        finally:
            self._stock.release(work)  # it may wait for its record; its memory need not

    def _pause(self, error: OwnTrouble) -> None:
        """This process has no more descriptors or threads: nothing starts for a moment, and nobody is to blame."""
        metrics.TROUBLE.labels("own").inc()
        now = now_ms()
        if now >= self._paused_until:
            self._paused_until = now + OWN_PAUSE_MS
            log.warning("out_of_resources", error=str(error), again_in_s=OWN_PAUSE_MS / 1000)
            asyncio.get_running_loop().call_later(OWN_PAUSE_MS / 1000, self._wake.set)

    async def _send(self, lane: Lane, work: Work) -> Finished:
        payload = work.payload
        if payload is None:
            payload = (await queries.payloads(self._database, [work.event_id])).get(work.event_id)
        if payload is None:
            raise LookupError(f"event {work.event_id} of dispatch {work.id} is gone")
        # The process stood still, or this waited long: another may be sending it.
        if not self._held.leases.good or lane.epoch != self._held.leases.epoch:
            raise Unavailable("The lease of this process has ended.", code="lease_ended")
        return await attempt(lane, work, payload, self._sender, self._policy)

    def _put_off(self, lane: Lane, work: Work) -> None:
        """Nothing was sent, and nobody is to blame: it is the first to go when that is over."""
        lane.put_off()
        self._landed(lane, work)
        self._wake.set()

    def _landed(self, lane: Lane, work: Work) -> None:
        self._held.landed(lane, work)
        self._slots.free(work)
        if self._slots.flying == 0:
            self._all_landed.set()

    def _recorded(self, batch: Sequence[Finished]) -> None:
        """The batch is durable: count it, free its slots, go on."""
        now = now_ms()
        self._stock.recorded(each.work for each in batch)
        touched: dict[Lane, None] = {}
        for each in batch:
            lane = each.lane
            touched[lane] = None
            lane.idle_since = now
            lane.sluggish = each.outcome.duration_ms > SLUGGISH_MS
            self._landed(lane, each.work)
            metrics.DELIVERY_SECONDS.observe(each.outcome.duration_ms / 1000)
            if each.next_at is not None:
                metrics.RETRIES.inc()
                self._held.mark_due({each.hook.id: each.next_at})
                self._wake.set()
            if each.work.wanted:
                lane.more = True
            if (reason := reason_to_deactivate(each)) is not None and not lane.halted:
                lane.halted = True
                self._spawn(self._deactivate(lane, each.hook, reason))
        metrics.DELIVERED.inc(delivered := sum(each.outcome.ok for each in batch))
        metrics.FAILED.inc(len(batch) - delivered)
        metrics.IN_FLIGHT.set(self._slots.flying)
        self._take_turns(touched)

    async def _deactivate(self, lane: Lane, hook: Hook, reason: str) -> None:
        try:
            await deactivate(self._services, hook, reason)
        except Exception as error:  # noqa: BLE001  # handed to the log likewise
            # The next failure tries again.
            metrics.TROUBLE.labels("deactivate").inc()
            trouble = log.warning if isinstance(error, Unavailable) else log.exception
            trouble("deactivation_failed", hook_id=hook.id, error=str(error))
        lane.halted, lane.stale = False, True
        self._wake.set()


async def _within(event: asyncio.Event, seconds: float) -> None:
    """Until it is set, but no longer than that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
