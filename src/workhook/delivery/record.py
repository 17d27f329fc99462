"""Writes outcomes in batches: one short transaction for many, and only then are their slots free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from workhook.core.clock import now_ms
from workhook.delivery import metrics, queries
from workhook.delivery.attempt import Finished
from workhook.storage import Database

BATCH_MAX = 256
PAUSE_MAX_S = 5.0

log = structlog.get_logger(__name__)


class Recorder:
    """`recorded` is called with each batch after its commit."""

    def __init__(self, database: Database, recorded: Callable[[Sequence[Finished]], None]) -> None:
        self._database = database
        self._recorded = recorded
        self._waiting: list[Finished] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="recorder")

    def add(self, finished: Finished) -> None:
        self._waiting.append(finished)
        self._arrived.set()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                await self._write(batch)
                self._recorded(batch)

    async def _write(self, batch: Sequence[Finished]) -> None:
        """Until it is written: what is not recorded would be sent again. Meanwhile the slots stay taken."""
        pause_s = 0.05
        while True:
            try:
                await self._transact(batch)
            except Exception:
                metrics.TROUBLE.labels("record").inc()
                log.exception("record_failed", outcomes=len(batch), again_in_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_MAX_S)
            else:
                metrics.RECORDED.observe(len(batch))
                return

    async def _transact(self, batch: Sequence[Finished]) -> None:
        now = now_ms()
        failing = _health_changes(batch)
        async with self._database.transaction() as tx:
            await queries.record(
                tx,
                [each.delivery() for each in batch],
                [each.advance(now) for each in batch],
                [{"hook_id": hook_id, "since": since} for hook_id, since in failing.items()],
            )

    async def stop(self) -> None:
        """Write what is left, as long as the caller waits."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._waiting:
            await self._transact(self._waiting)
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
