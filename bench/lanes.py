"""D14 and D15: very many webhooks that all have work, and retries spread over them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from bench import world
from bench.databases import Place, Postgres
from bench.figures import Figure, median_text, recorded_trouble
from bench.processes import CannotMeasure, Process, workhook
from bench.remote import Books
from bench.rounds import Unit
from bench.shared import Shared, keep
from bench.webhooks import make_webhooks
from workhook.core.clock import now_ms
from workhook.events.tables import events
from workhook.hooks.fan_out import insert_dispatches
from workhook.hooks.tables import deliveries, dispatches, hooks
from workhook.http.calls import Services
from workhook.storage.metadata import bigint_param

EVENTS = 1000  # of D14: each is delivered to an equal share of the webhooks
FIRST_DUE_MS = 20_000  # D15: from the start of a worker until the first retry is due
RETRIES_PER_S = 100
KEPT_UP = 0.95  # share that must be made for a valid figure
BEGIN = 3 * RETRIES_PER_S  # retries before measuring starts
GREATEST = "VmHWM:"  # peak memory of a process, in kB

_hook_ids = sa.select(hooks.c.id).order_by(hooks.c.id)
_event_ids = sa.select(events.c.id).order_by(events.c.id)
_least = sa.select(sa.func.min(dispatches.alias("every").c.id)).scalar_subquery()
_each_ms = sa.literal_column(str(1000 // RETRIES_PER_S), sa.BigInteger)
_spread = sa.update(dispatches).values(
    attempts=1, retries=1, next_attempt_at=bigint_param("first") + (dispatches.c.id - _least) * _each_ms
)


def figures(shared: Shared) -> Iterator[Figure]:
    wanted = shared.plan.only
    if "D14" in wanted:
        yield from _all_with_work(shared)
    if "D15" in wanted:
        yield _retries(shared)


class Webhooks:
    """A database with very many webhooks, each with one delivery to make."""

    def __init__(self, shared: Shared, name: str, count: int) -> None:
        self._shared, self._count = shared, count
        self.postgres: Postgres = shared.start_postgres()
        self.place: Place = shared.place(name)
        make_webhooks(self.place, shared.receiver.url, count)
        world.add_events(self.place, min(EVENTS, count))

    def prepare(self) -> None:
        """Make one delivery of each webhook due now, and delete all records."""

        async def run(services: Services) -> None:
            database = services.database
            async with database.transaction() as tx:
                await tx.execute(sa.delete(deliveries))
                await tx.execute(sa.delete(dispatches))
            hook_ids = [row["id"] for row in await database.fetch_all(_hook_ids)][-self._count :]
            event_ids = [row["id"] for row in await database.fetch_all(_event_ids)]
            pairs = [(event_ids[number % len(event_ids)], hook_id) for number, hook_id in enumerate(hook_ids)]
            for start in range(0, len(pairs), world.CHUNK):
                async with database.transaction() as tx:
                    await insert_dispatches(tx, pairs[start : start + world.CHUNK])

        world.with_services(self.place, run)
        world.settle(self.place)

    def spread(self) -> None:
        """Mark each delivery as tried once, and due again one after the other."""

        async def run(services: Services) -> None:
            async with services.database.transaction() as tx:
                await tx.execute(_spread, {"first": now_ms() + FIRST_DUE_MS})

        world.with_services(self.place, run)

    def worker(self) -> Process:
        self._shared.receiver.reset()
        return workhook("worker", self.place.folder, self.place.settings, self._shared.core)


# --- D14 --------------------------------------------------------------------------------------------------------------


@dataclass
class Drained:
    """One drained round. `first_s` is from the command to the first delivery.

    `most_mib` is the worker's peak memory until all deliveries were made and recorded.
    """

    first_s: float
    most_mib: float
    per_s: float


def _all_with_work(shared: Shared) -> Iterator[Figure]:
    count = shared.plan.at_rest
    first = Figure("D14", f"PostgreSQL: a worker's start to its first delivery, {count:,} webhooks with one each", "s",
                   "at most", 4.0)  # fmt: skip
    memory = Figure("D14", "PostgreSQL: the most memory of that worker, until all are delivered", "MiB", "at most", 250)
    with recorded_trouble(first, memory):
        webhooks = Webhooks(shared, "D14", count)

        def measure(number: int) -> Drained:
            started = time.monotonic()
            worker = webhooks.worker()
            try:
                first_s = shared.receiver.wait_for(1, 60)
                shared.receiver.wait_for(count, 60 + count / 200)
                Books.wait_for(webhooks.place, count)
                seconds = time.monotonic() - first_s
                return Drained(first_s - started, _most_mib(worker), count / seconds)
            finally:
                worker.stop()

        kept = shared.one("D14", Unit(measure, lambda number: webhooks.prepare()))
        keep(first, kept, lambda each: each.first_s)
        keep(memory, kept, lambda each: each.most_mib)
        first.details = {"rate": median_text([each.per_s for each in kept.found], "{:,.0f}/s")}
    yield from (first, memory)


def _most_mib(process: Process) -> float:
    lines = Path(f"/proc/{process.info.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(GREATEST)) / 1024


# --- D15 --------------------------------------------------------------------------------------------------------------


def _retries(shared: Shared) -> Figure:
    """Measure retries. Every webhook has one, so that no two are due at the same time."""
    count = BEGIN + round(RETRIES_PER_S * 2 * shared.plan.rest_s) + 10 * RETRIES_PER_S
    what = f"PostgreSQL: CPU of a worker and of the database, {RETRIES_PER_S} retries/s of as many webhooks, of a core"
    figure = Figure("D15", what, "%", "at most", 30.0)
    with recorded_trouble(figure):
        webhooks = Webhooks(shared, "D15", count)

        def measure(number: int) -> tuple[float, float, float]:
            webhooks.spread()
            worker = webhooks.worker()
            try:
                shared.receiver.wait_for(BEGIN, 60 + FIRST_DUE_MS / 1000)
                (before, _), own, database = shared.receiver.count(), worker.cpu_s(), webhooks.postgres.cpu_s()
                began = time.monotonic()
                time.sleep(shared.plan.rest_s)
                (after, _), seconds = shared.receiver.count(), time.monotonic() - began
                own, database = worker.cpu_s() - own, webhooks.postgres.cpu_s() - database
            finally:
                worker.stop()
            if (rate := (after - before) / seconds) < KEPT_UP * RETRIES_PER_S:
                raise CannotMeasure(f"the worker made {rate:.0f} of {RETRIES_PER_S} retries a second")
            return own * 100 / seconds, database * 100 / seconds, rate

        kept = shared.one("D15", Unit(measure, lambda number: webhooks.prepare()))
        keep(figure, kept, lambda each: each[0] + each[1])
        figure.details = {
            "worker": median_text([each[0] for each in kept.found], "{:.1f} %"),
            "PostgreSQL": median_text([each[1] for each in kept.found], "{:.1f} %"),
            "rate": median_text([each[2] for each in kept.found], "{:.1f}/s"),
        }
    return figure
