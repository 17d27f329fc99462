"""Writes outcomes in batches, many in one short transaction.

A failure keeps its slot until the commit. Successes have freed theirs, so the waiting outcomes are limited separately.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.delivery import metrics
from workhook.delivery.attempt import FinishedAttempt
from workhook.delivery.queries import attempts_of, record
from workhook.storage import Database

BATCH_MAX = 256
OVERLAP = 2  # batches written concurrently
OVERLAP_MIN = 16  # minimum number of outcomes for a second concurrent batch
LINGER_S = 0.008  # how long the first outcome waits for others
SEVERAL = 4  # attempts in flight that justify lingering although an outcome is being waited for
PAUSE_MAX_S = 5.0

Health = Mapping[int, int | None]
"""Hook ID → when its receiver began to fail (milliseconds), or None if it succeeds again."""

log = structlog.get_logger(__name__)


class OutcomeWriter:
    """Writes finished attempts, and calls `recorded` with each batch after its commit.

    `in_flight` returns the number of unrecorded attempts, including those already passed to `add`.
    """

    def __init__(
        self, database: Database, recorded: Callable[[Sequence[FinishedAttempt]], None], in_flight: Callable[[], int]
    ) -> None:
        self._database = database
        self._recorded = recorded
        self._in_flight = in_flight
        self._linger: asyncio.TimerHandle | None = None
        self._stopping = False
        self._waiting: list[FinishedAttempt] = []
        self._changed = asyncio.Event()  # set when an outcome is added or a batch is written
        self._writing: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="recorder")

    def add(self, finished: FinishedAttempt) -> None:
        self._waiting.append(finished)
        if not self._writing or len(self._waiting) >= OVERLAP_MIN:
            self._begin_soon()

    def _begin_soon(self) -> None:
        """Write immediately, or linger for more outcomes because larger batches cost less.

        If a failure still holds its slot or a lane lacks records to continue, linger only while at least `SEVERAL`
        others are in flight.
        """
        waiting = len(self._waiting)
        others = self._in_flight() - waiting
        if (
            self._stopping
            or waiting >= OVERLAP_MIN
            or not others
            or (others < SEVERAL and any(not each.outcome.ok or each.lane.lacks_records for each in self._waiting))
        ):
            self._changed.set()
        elif self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._begin)

    def _begin(self) -> None:
        self._linger = None
        self._changed.set()

    async def _run(self) -> None:
        while self._waiting or not self._stopping:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting and self._has_room():
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                if changes := _health_changes(batch):
                    # The health of a lane must change in commit order, so such a batch is written alone.
                    while self._writing:
                        await asyncio.wait(self._writing)
                    await self._write(batch, changes)
                else:
                    task = asyncio.create_task(self._write(batch, {}), name="record")
                    self._writing.add(task)
                    task.add_done_callback(self._written)

    def _has_room(self) -> bool:
        """Return whether to start another batch. A few outcomes are not worth one while another waits for the disk."""
        if not self._writing:
            return True
        return len(self._writing) < OVERLAP and len(self._waiting) >= OVERLAP_MIN

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        self._begin_soon()
        if not task.cancelled() and (error := task.exception()) is not None:
            metrics.TROUBLE.labels("recorded").inc()
            log.error("outcome_report_failed", exc_info=error)

    async def _write(self, batch: Sequence[FinishedAttempt], health: Health) -> None:
        """Retry until the batch is written, because an unrecorded attempt would be sent again."""
        pause_s = 0.05
        left, tried = batch, False
        while True:
            try:
                if tried:
                    left = await self._not_written(left)
                if left:
                    tried = True
                    await self._transact(left, health)
                break
            except Unavailable as error:
                log.warning("outcome_write_delayed", error=error.message, count=len(batch), retry_in_s=pause_s)
            except Exception:
                log.exception("outcome_write_failed", count=len(left))
                await self._write_apart(left, health)
                return
            metrics.TROUBLE.labels("record").inc()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)
        metrics.RECORDED.observe(len(batch))
        self._report(batch, health)

    async def _not_written(self, batch: Sequence[FinishedAttempt]) -> Sequence[FinishedAttempt]:
        """Return the outcomes that are not written yet: a commit may have succeeded although its connection broke.

        Late outcomes cannot be checked. Raises `Unavailable` for any error of the read.
        """
        try:
            attempts = await attempts_of(self._database, [each.work.id for each in batch])
        except Unavailable:
            raise
        except Exception as error:
            log.exception("outcome_check_failed", count=len(batch))
            raise Unavailable("It is unknown whether the outcome was recorded.") from error
        return [each for each in batch if attempts.get(each.work.id) == each.work.attempts]

    async def _write_apart(self, batch: Sequence[FinishedAttempt], health: Health) -> None:
        """Write each outcome alone, because the database rejects one of them and the others must not wait for it."""
        metrics.TROUBLE.labels("record").inc()
        if len(batch) == 1:
            asyncio.get_running_loop().call_later(PAUSE_MAX_S, self.add, batch[0])
            return
        for each in batch:
            await self._write([each], {id_: since for id_, since in health.items() if id_ == each.hook.id})

    async def _transact(self, batch: Sequence[FinishedAttempt], health: Health) -> None:
        delivered, advances = [each.delivery() for each in batch], [each.advance() for each in batch]
        if late := await record(self._database, delivered, advances, health, now_ms()):
            metrics.LATE.inc(len(late))
            log.warning("outcomes_recorded_late", count=len(late))  # another process sends them too

    def _report(self, batch: Sequence[FinishedAttempt], health: Health) -> None:
        for each in batch:
            if each.hook.id in health:
                each.lane.failing_since = health[each.hook.id]
        try:
            self._recorded(batch)
        except Exception:
            metrics.TROUBLE.labels("recorded").inc()
            log.exception("outcome_report_failed", count=len(batch))

    async def stop(self, within_s: float) -> None:
        if self._task is None:
            return
        self._stopping = True
        self._changed.set()
        ends_s = time.monotonic() + within_s
        tasks = {self._task, *self._writing}
        await asyncio.wait(tasks, timeout=within_s)
        tasks |= self._writing  # the last batches, which the task has begun meanwhile
        await asyncio.wait(tasks, timeout=max(0, ends_s - time.monotonic()))
        if unfinished := [task for task in tasks if not task.done()]:
            log.warning("outcomes_lost", count=len(self._waiting))  # their deliveries are sent again
            for task in unfinished:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _health_changes(batch: Sequence[FinishedAttempt]) -> dict[int, int | None]:
    """Return changes by hook ID: when the hook began to fail (milliseconds), or None if it succeeds again."""
    changes: dict[int, int | None] = {}
    for each in batch:
        hook_id, known = each.lane.hook.id, each.lane.failing_since
        if each.outcome.ok:
            if known is not None or changes.get(hook_id) is not None:
                changes[hook_id] = None
        elif known is None and changes.get(hook_id) is None:
            changes[hook_id] = each.delivered_at
    return changes
