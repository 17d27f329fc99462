"""The worker loads lanes with work, keeps their slots busy, and passes outcomes to the outcome writer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.delivery import metrics, queries
from workhook.delivery.address_policy import ResourceExhausted
from workhook.delivery.attempt import Deactivation, FinishedAttempt, RetryPolicy, attempt, reason_to_deactivate
from workhook.delivery.lanes import Lane, PendingAttempt
from workhook.delivery.leased_lanes import POLL_MS, LeasedLanes
from workhook.delivery.outcome_writer import OutcomeWriter
from workhook.delivery.prefetcher import Prefetcher
from workhook.delivery.send import Sender
from workhook.delivery.slots import MemoryBudget, Slots
from workhook.hooks.actions import deactivate_failing
from workhook.hooks.commit import CommittedDispatch, register_worker
from workhook.hooks.schemas import Hook
from workhook.http.calls import Services
from workhook.storage.signals import DUE, HOOK, WORKERS

OWN_PAUSE_MS = 1000  # after the process has run out of descriptors or threads
RECORD_S = 1.0  # for recording the last outcomes at shutdown
SILENT_S = 30.0  # without a poll: the worker may hang
HUNG_S = 120.0  # several times the longest statement timeout; then other processes get the lanes
TROUBLE_PAUSE_S = (0.1, 5.0)  # after a failed poll; doubled each time, up to the second value

log = structlog.get_logger(__name__)


class Worker:
    def __init__(self, services: Services, sender: Sender) -> None:
        settings = services.settings
        self._services = services
        self._database = services.database
        self._sender = sender
        self._policy = RetryPolicy(retries=settings.delivery_retries, first_s=settings.delivery_retry_first_s)
        self._outcomes = OutcomeWriter(self._database, self._recorded, lambda: self._slots.in_flight)
        self._wake = asyncio.Event()
        self._leased = LeasedLanes(services, wake=self._wake.set, hangs=self._hangs)
        self._slots = Slots(min(settings.concurrency, sender.max_concurrency))
        # Two halves, because prefetched payloads must not use the memory of those loaded when their turn comes.
        payload_bytes = settings.delivery_memory_mb * 1024 * 1024
        self._prefetcher = Prefetcher(self._database, self._leased, payload_bytes // 2)
        self._loading = MemoryBudget(payload_bytes // 2)
        self._paused_until = 0
        self._stopping = asyncio.Event()
        self._all_finished = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self._unlisten: list[Callable[[], object]] = []
        self._trouble: str | None = "it has not begun"
        self._polled_at_s = time.monotonic()

    @property
    def state(self) -> str:
        """`ok`, or why nothing is being started; shown by `/readyz`."""
        if self._stopping.is_set():
            return "it stops"
        if self._trouble is None and self._silent_s > SILENT_S:
            return f"it has not looked for work for {self._silent_s:.0f} s"
        return self._trouble or self._leased.trouble or "ok"

    @property
    def _silent_s(self) -> float:
        return time.monotonic() - self._polled_at_s

    def _hangs(self) -> bool:
        """Return whether the worker hangs. A stopping one never does: it no longer polls, but its waits are limited."""
        return not self._stopping.is_set() and self._silent_s > HUNG_S

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start delivering. Raises `Unavailable` if the database cannot be reached."""
        signals = self._database.signals
        listeners = {DUE: self._heard_due, HOOK: self._heard_hook, WORKERS: lambda _: self._leased.leases.poll_soon()}
        self._unlisten = [signals.listen(topic, listener) for topic, listener in listeners.items()]
        self._unlisten.append(register_worker(self._database, self))
        await self._leased.start()
        self._outcomes.start()
        self._polled_at_s = time.monotonic()
        self._loop_task = asyncio.create_task(self._run(), name="worker")

    def begin_shutdown(self) -> None:
        self._stopping.set()
        self._leased.leases.begin_leaving()
        self._wake.set()

    async def stop(self, drain_s: float) -> None:
        """Stop starting attempts, wait up to `drain_s` seconds for those in flight, and release the lease."""
        self.begin_shutdown()
        for unlisten in self._unlisten:
            unlisten()
        try:
            async with asyncio.timeout(drain_s):
                if self._loop_task is not None:
                    await self._loop_task
                while self._slots.in_flight:  # keep the lease meanwhile, or another process would send them too
                    self._all_finished.clear()
                    await self._all_finished.wait()
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            log.warning("drain_timed_out", count=self._slots.in_flight)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._outcomes.stop(RECORD_S)
        try:
            await self._leased.leave()
        except Unavailable as error:
            log.warning("leases_not_released", error=error.message)

    async def _run(self) -> None:
        least_s, most_s = TROUBLE_PAUSE_S
        pause_s = least_s
        while not self._stopping.is_set():
            try:
                await self._poll()
                self._trouble = None
            except Exception as error:
                metrics.TROUBLE.labels("turn").inc()
                if isinstance(error, Unavailable):
                    self._trouble = error.message
                    log.warning("worker_step_delayed", error=error.message, retry_in_s=pause_s)
                else:
                    self._trouble = "a step failed; see the log"
                    log.exception("worker_step_failed", retry_in_s=pause_s)
                self._polled_at_s = time.monotonic()
                await _within(self._stopping, pause_s)
                pause_s = min(pause_s * 2, most_s)
                continue
            pause_s, self._polled_at_s = least_s, time.monotonic()
            wait_ms = self._leased.next_at - now_ms()
            if 0 < wait_ms <= POLL_MS:
                await _within(self._wake, wait_ms / 1000)

    # --- signals -----------------------------------------------------------------------------------------------------

    def _heard_due(self, hook_ids: frozenset[int] | None) -> None:
        if hook_ids is None:
            self._leased.poll_now()
        elif not self._leased.mark_due(dict.fromkeys(hook_ids, 0)):
            return  # other processes deliver for these hooks
        self._wake.set()

    def _heard_hook(self, hook_ids: frozenset[int] | None) -> None:
        self._leased.mark_changed(hook_ids)
        self._wake.set()

    # --- new dispatches: the interface of `hooks.commit.LocalWorker` --------------------------------------------------

    def accepts_dispatches(self) -> bool:
        """Return whether any lane may accept a dispatch. Lanes that must be read from the database accept none."""
        return any(not lane.may_have_more for lane in self._leased.lanes.values())

    def accept(self, new: CommittedDispatch) -> bool:
        """Return whether the lane is loaded here and accepted the dispatch because nothing precedes it."""
        lane = None if self._stopping.is_set() else self._prefetcher.offer(new)
        if lane is None:
            return False
        self._start_ready(lane)
        return True

    # --- poll and start ----------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        self._wake.clear()
        leased = self._leased
        now = now_ms()
        if leased.time_to_poll(now):
            await leased.poll_database(now)
        await leased.load_lanes(now)
        await leased.load_times(now)
        await leased.reload_changed()
        if await self._prefetcher.load_due(idle=not self._slots.full):
            self._wake.set()
        for lane in list(leased.lanes.values()):
            if lane.ready:
                self._start_ready(lane)

    def _start_ready(self, lane: Lane) -> None:
        """Start attempts until the lane has no more work or no slot is free."""
        now = now_ms()
        while self._start(lane, now):
            pass
        self._after_starts(lane, now)

    def _start(self, lane: Lane, now: int) -> bool:
        """Start one attempt if there is one and a slot is free."""
        if self._stopping.is_set() or now < self._paused_until or not self._leased.leases.is_valid:
            return False
        if lane.needs_signer(now):
            lane.needs_reload = True
        work = self._slots.start_next(lane, now)
        if isinstance(work, float) and not lane.timer_set:
            lane.timer_set = True
            asyncio.get_running_loop().call_later(work / 1000, self._timer_over, lane)
        if not isinstance(work, PendingAttempt):
            return False
        self._prefetcher.started()
        self._spawn(self._attempt(lane, work))
        return True

    def _after_starts(self, lane: Lane, now: int) -> None:
        """Mark work that is held back, and request more if little is left."""
        if marked := lane.mark_throttled(now):
            metrics.THROTTLED.inc(marked)
        if lane.needs_reload or self._prefetcher.is_low(lane):
            self._wake.set()

    def _timer_over(self, lane: Lane) -> None:
        lane.timer_set = False
        self._start_ready(lane)

    def _reuse_slots(self, lanes: Iterable[Lane]) -> None:
        """Use the freed slots of these lanes. While others wait, a lane with a long queue does not reclaim its own."""
        slots = self._slots
        if not len(slots):
            for lane in lanes:
                self._start_ready(lane)
            return
        for lane in lanes:
            slots.queue(lane)
        now = now_ms()
        passed = 0  # consecutive lanes that could not start
        while not slots.full and passed < len(slots):
            lane = slots.next()
            if self._start(lane, now):
                passed = 0
                slots.queue(lane)
            elif lane.waiting_for_slot:
                passed += 1
            self._after_starts(lane, now)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, lane: Lane, work: PendingAttempt) -> None:
        try:
            if work.payload is not None:
                finished = await self._send(lane, work)
            else:
                async with self._loading.reserve(2 * work.size):  # twice, because it may be sent as a form
                    finished = await self._send(lane, work)
        except ResourceExhausted as error:
            self._pause(error)
            self._put_off(lane, work)
        except Unavailable as error:
            metrics.TROUBLE.labels("attempt").inc()
            log.warning("attempt_deferred", hook_id=lane.hook.id, dispatch_id=work.id, error=error.message)
            self._put_off(lane, work)
        except Exception:
            # Not the receiver's fault, so nothing is recorded. The dispatch stays due until the next search.
            metrics.TROUBLE.labels("attempt").inc()
            log.exception("attempt_failed", hook_id=lane.hook.id, dispatch_id=work.id)
            self._finished(lane, work)
        except asyncio.CancelledError:
            self._finished(lane, work)
            raise
        else:
            if finished.outcome.ok:
                self._slots.answered(lane, work)
            self._outcomes.add(finished)
            if finished.outcome.ok:
                self._reuse_slots([lane])
        finally:
            self._prefetcher.release(work)  # the outcome may wait to be recorded; the payload need not

    def _pause(self, error: ResourceExhausted) -> None:
        """Pause starts for a moment because this process has run out of descriptors or threads."""
        metrics.TROUBLE.labels("own").inc()
        now = now_ms()
        if now >= self._paused_until:
            self._paused_until = now + OWN_PAUSE_MS
            log.warning("out_of_resources", error=str(error), retry_in_s=OWN_PAUSE_MS / 1000)
            asyncio.get_running_loop().call_later(OWN_PAUSE_MS / 1000, self._wake.set)

    async def _send(self, lane: Lane, work: PendingAttempt) -> FinishedAttempt:
        payload = work.payload
        if payload is None:
            payload = (await queries.payloads(self._database, [work.event_id])).get(work.event_id)
        if payload is None:
            raise LookupError(f"event {work.event_id} of dispatch {work.id} is gone")
        # After a suspension or a long wait, another process may be sending it.
        if not self._leased.leases.is_valid or lane.epoch != self._leased.leases.epoch:
            raise Unavailable("The lease of this process has ended.", code="lease_ended")
        return await attempt(lane, work, payload, self._sender, self._policy)

    def _put_off(self, lane: Lane, work: PendingAttempt) -> None:
        """Requeue an attempt that was not sent, through no fault of the receiver."""
        lane.requeue()
        self._finished(lane, work)
        self._wake.set()

    def _finished(self, lane: Lane, work: PendingAttempt) -> None:
        self._leased.finished(lane, work)
        self._slots.free(work)
        if self._slots.in_flight == 0:
            self._all_finished.set()

    def _recorded(self, batch: Sequence[FinishedAttempt]) -> None:
        """Count the recorded batch, free its remaining slots, and start ready work."""
        now = now_ms()
        self._prefetcher.recorded(each.work for each in batch)
        lanes: dict[Lane, None] = {}
        for each in batch:
            lane = each.lane
            lanes[lane] = None
            lane.mark_recorded(each.work, each.outcome.duration_ms, now)
            self._finished(lane, each.work)
            metrics.DELIVERY_SECONDS.observe(each.outcome.duration_ms / 1000)
            if each.next_at is not None:
                metrics.RETRIES.inc()
                self._leased.mark_due({each.hook.id: each.next_at})
                self._wake.set()
            if (why := reason_to_deactivate(each)) is not None and not lane.deactivating:
                lane.deactivating = True
                self._spawn(self._deactivate(lane, each.hook, why))
        metrics.DELIVERED.inc(delivered := sum(each.outcome.ok for each in batch))
        metrics.FAILED.inc(len(batch) - delivered)
        metrics.IN_FLIGHT.set(self._slots.in_flight)
        self._reuse_slots(lanes)

    async def _deactivate(self, lane: Lane, hook: Hook, why: Deactivation) -> None:
        try:
            if await deactivate_failing(self._services, hook, why.reason):
                metrics.TURNED_OFF.labels(why.code).inc()
        except Exception as error:  # noqa: BLE001  # handed to the log
            # The next failure tries again.
            metrics.TROUBLE.labels("deactivate").inc()
            trouble = log.warning if isinstance(error, Unavailable) else log.exception
            trouble("deactivation_failed", hook_id=hook.id, error=str(error))
        lane.deactivating, lane.needs_reload = False, True
        self._wake.set()


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
