"""Recurring work that is not triggered by a request.

Every process that delivers webhooks runs every chore, so several processes may run the same chore at once. A chore must
be safe under concurrency by itself, with row locks (`SKIP LOCKED`), unique keys and short transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client import Counter

from workhook.core.clock import DAY_MS, now_ms
from workhook.delivery import retention
from workhook.delivery.mail import queue as mail
from workhook.hooks import redelivery
from workhook.http import idempotency
from workhook.http.calls import Services
from workhook.identity import audit_queries
from workhook.identity.tokens import issue as tokens
from workhook.work.administration import deletion
from workhook.work.files import actions as files
from workhook.work.history import notifications, trash
from workhook.work.money.checkouts import actions as checkouts
from workhook.work.money.credits import actions as task_credits
from workhook.work.portability.imports import people as imported_people
from workhook.work.time.timesheets import sums

EVERY_MIN_S = 1.0
MINUTE_S = 60.0
HOUR_S = 3600.0

RUNS = Counter("workhook_chore_runs_total", "Runs of background chores in this process.", ["chore", "outcome"])
DONE = Counter(
    "workhook_chore_things_total", "Items processed by chores, such as removed rows or billed periods.", ["chore"]
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Chore:
    """A recurring job.

    `run(services, now)` receives the time in milliseconds and returns the number of items it processed.
    """

    name: str
    every_s: float
    run: Callable[[Services, int], Awaitable[int]]

    def __post_init__(self) -> None:
        if self.every_s < EVERY_MIN_S:
            raise ValueError(f"{self.name}: a chore is done every {EVERY_MIN_S:g} s at most")


class Chores:
    """The scheduler of chores: each runs at startup, and again `every_s` after its last run began.

    A run that takes longer never overlaps the next one. A failed chore is retried at its next scheduled run.
    """

    def __init__(self, services: Services, chores: Sequence[Chore]) -> None:
        self._services = services
        self._chores = tuple(chores)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for each in self._chores:  # otherwise `increase()` would miss the first failure
            for outcome in ("success", "failure"):
                RUNS.labels(each.name, outcome)
        self._tasks = [asyncio.create_task(self._repeat(each), name=f"chore-{each.name}") for each in self._chores]

    async def stop(self) -> None:
        """Stop all chores. A transaction in progress is rolled back, and its work is done by the chore's next run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, chore: Chore) -> None:
        loop = asyncio.get_running_loop()
        while True:
            next_at = loop.time() + chore.every_s
            await run_once(self._services, chore, now_ms())
            # Pause briefly even if runs take longer than the interval, so that other tasks get a turn.
            await asyncio.sleep(max(next_at - loop.time(), EVERY_MIN_S / 10))


async def run_once(services: Services, chore: Chore, now: int) -> int:
    """Run a chore and return the number of items it processed, or 0 if it failed. Failures are logged and counted."""
    try:
        count = await chore.run(services, now)
    except Exception:
        RUNS.labels(chore.name, "failure").inc()
        log.exception("chore_failed", chore=chore.name, retry_in_s=chore.every_s)
        return 0
    RUNS.labels(chore.name, "success").inc()
    DONE.labels(chore.name).inc(count)
    if count:
        log.info("chore_done", chore=chore.name, count=count)
    return count


async def _forget_audit_entries(services: Services, now: int) -> int:
    days = services.settings.audit_retention_days
    return await audit_queries.prune(services.database, now - days * DAY_MS) if days else 0


# Every chore of the program, one per line.
CHORES: tuple[Chore, ...] = (
    Chore("idempotency_keys", HOUR_S, lambda services, now: idempotency.prune(services.database, now)),
    Chore("tokens_and_sessions", HOUR_S, lambda services, now: tokens.prune(services.database, now)),
    Chore("audit_log", HOUR_S, _forget_audit_entries),
    Chore("deleted_tasks", HOUR_S, trash.purge_tasks),
    Chore("deleted_files", HOUR_S, files.purge),
    Chore("deleted_projects", HOUR_S, trash.purge_projects),
    Chore("deleted_organizations", MINUTE_S, deletion.purge),
    Chore("expired_task_credits", MINUTE_S, task_credits.expire_credits),
    Chore("timesheet_sums", sums.EVERY_S, sums.add_changes),
    Chore("deadlines", MINUTE_S, notifications.notify_of_due_dates),
    Chore("imported_assignees", MINUTE_S, imported_people.assign_newcomers),
    Chore("notifications", HOUR_S, notifications.prune),
    Chore("service_checkout_periods", checkouts.EVERY_S, checkouts.begin_due_periods),
    Chore("deliveries", retention.EVERY_S, retention.prune_old),
    Chore("redeliveries", redelivery.EVERY_S, redelivery.resume),
    Chore("mail", HOUR_S, mail.delete_old),
)
