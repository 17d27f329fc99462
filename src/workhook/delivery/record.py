"""Writes outcomes in batches: one short transaction for many, and only then are their slots free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from workhook.core.clock import now_ms
from workhook.delivery import metrics
from workhook.delivery.attempt import Finished
from workhook.delivery.recording import record
from workhook.storage import Database

BATCH_MAX = 256
OVERLAP = 2  # batches that are written at the same time
OVERLAP_MIN = 16  # outcomes that are worth a second one
PAUSE_MAX_S = 5.0

log = structlog.get_logger(__name__)


class Recorder:
    """`recorded` is called with each batch after its commit."""

    def __init__(self, database: Database, recorded: Callable[[Sequence[Finished]], None]) -> None:
        self._database = database
        self._recorded = recorded
        self._waiting: list[Finished] = []
        self._changed = asyncio.Event()  # something came, or a batch was written
        self._writing: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="recorder")

    def add(self, finished: Finished) -> None:
        self._waiting.append(finished)
        if not self._writing or len(self._waiting) >= OVERLAP_MIN:
            self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting and self._has_room():
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                if changes := _health_changes(batch):
                    # What a lane knows of its receiver's health has to change in the order of the commits: alone.
                    while self._writing:
                        await asyncio.wait(self._writing)
                    await self._write(batch, changes)
                else:
                    self._write_beside(batch)

    def _has_room(self) -> bool:
        """While one batch waits for the disk, the next goes on its way, but not for a few outcomes only."""
        if not self._writing:
            return True
        return len(self._writing) < OVERLAP and len(self._waiting) >= OVERLAP_MIN

    def _write_beside(self, batch: Sequence[Finished]) -> None:
        task = asyncio.create_task(self._write(batch, {}), name="record")
        self._writing.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            metrics.TROUBLE.labels("recorded").inc()
            log.error("recorded_failed", exc_info=error)

    async def _write(self, batch: Sequence[Finished], health: Mapping[int, int | None]) -> None:
        """Until it is written: what is not recorded would be sent again. Meanwhile the slots stay taken."""
        pause_s = 0.05
        while True:
            try:
                await self._transact(batch, health)
            except Exception:
                metrics.TROUBLE.labels("record").inc()
                log.exception("record_failed", outcomes=len(batch), again_in_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_MAX_S)
            else:
                metrics.RECORDED.observe(len(batch))
                self._recorded(batch)
                return

    async def _transact(self, batch: Sequence[Finished], health: Mapping[int, int | None]) -> None:
        delivered, advances = [each.delivery() for each in batch], [each.advance() for each in batch]
        await record(self._database, delivered, advances, health, now_ms())

    async def stop(self) -> None:
        """Write what is left, as long as the caller waits."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)
        if self._waiting:
            await self._transact(self._waiting, _health_changes(self._waiting))
            self._recorded(self._waiting)


def _health_changes(batch: Sequence[Finished]) -> dict[int, int | None]:
    """Hooks that begin to fail or succeed again: hook id → since when, None for healthy."""
    changes: dict[int, int | None] = {}
    for each in batch:
        hook_id, known = each.lane.hook.id, each.lane.failing_since
        if each.outcome.ok:
            if known is not None or changes.get(hook_id) is not None:
                changes[hook_id] = None
        elif known is None and changes.get(hook_id) is None:
            changes[hook_id] = each.delivered_at
    return changes


def apply_health(batch: Sequence[Finished]) -> None:
    """After the commit, the lanes know what the database knows."""
    lanes = {each.lane.hook.id: each.lane for each in batch}
    for hook_id, since in _health_changes(batch).items():
        lanes[hook_id].failing_since = since
