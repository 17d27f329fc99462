"""D6 to D10: hanging receivers, many rows, many webhooks, several workers, idle webhooks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from bench import latency, live, world
from bench.client import get, send_all
from bench.drain import Drain, Drained
from bench.figures import Figure, median_text, recorded_trouble
from bench.filling.fill import fill
from bench.filling.plan import PROJECTS, RowCounts
from bench.processes import workhook
from bench.rounds import Unit
from bench.shared import Shared, keep
from bench.webhooks import make_webhooks
from workhook.http.calls import Services

HANGING, RECEIVERS = 2, 20  # D6: how many of the receivers never respond
NEAR_MS = 5.0  # D6: a negligible difference
FEW_STORED = 10_000
PAGES = 200  # of a list, in a round of D7
MANY_HOOKS, FEW_HOOKS = (27, 37), (8, 1)  # D8: repositories, and webhooks of each
WORKERS = 4
UNUSED = "http://127.0.0.1:9/"  # D10: nothing is sent there
REST_AT = 15.0  # D10: seconds from the start until all activity has ended


def figures(shared: Shared) -> Iterator[Figure]:
    wanted = shared.plan.only
    if "D6" in wanted:
        yield _hanging(shared, "SQLite")
        yield _hanging(shared, "PostgreSQL")
    if "D7" in wanted:
        yield from _stored(shared)
    if "D8" in wanted:
        yield _lanes(shared)
    if "D9" in wanted:
        yield _several_drain(shared)
        yield _several_write(shared)
    if "D10" in wanted:
        yield _rest(shared)


# --- D6 ---------------------------------------------------------------------------------------------------------------


@dataclass
class Hanging:
    """99th percentile in milliseconds for healthy receivers, while some hang and while none does."""

    some: float
    none: float

    @property
    def ratio(self) -> float:
        """Return the ratio. A difference of up to `NEAR_MS` counts as at most one half more."""
        return min(self.some / self.none, 1 + max(0.0, self.some - self.none) / (2 * NEAR_MS))


def _hanging(shared: Shared, kind: str) -> Figure:
    what = f"{kind}: p99 to healthy receivers while {HANGING / RECEIVERS:.0%} hang, against none"
    figure = Figure("D6", what, "x", "at most", 1.5)
    count = shared.plan.published
    with recorded_trouble(figure), ExitStack() as stack:
        sites = []
        for hanging in (HANGING, 0):
            place = shared.place(f"D6-{hanging}", kind)
            place.settings = {**place.settings, "drain_s": "0"}
            sites.append(
                stack.enter_context(
                    latency.Publisher(place, shared.receiver, shared.core, repositories=RECEIVERS, hanging=hanging)
                )
            )
        per_s = sites[1].highest_rate(0, count) * latency.SHARE

        def measure(number: int) -> Hanging:
            some, none = (latency.p99_published(site, (number + 1) * count, count, per_s) for site in sites)
            return Hanging(some, none)

        kept = shared.one(f"D6, {kind}", Unit(measure))
        keep(figure, kept, lambda each: each.ratio)
        figure.details = {
            "some hang": median_text([each.some for each in kept.found], "{:.2f} ms"),
            "none": median_text([each.none for each in kept.found], "{:.2f} ms"),
            "rate": f"{per_s:,.0f}/s",
        }
    return figure


# --- D7 ---------------------------------------------------------------------------------------------------------------


@dataclass
class Stored:
    """Deliveries per second, and median milliseconds for a page of a webhook's deliveries."""

    drained: Drained
    page_ms: float


class Warehouse:
    """A database with many deliveries, and a backlog to drain alongside them."""

    def __init__(self, shared: Shared, stored: int) -> None:
        self._shared, self._count = shared, shared.plan.events
        self.place = shared.place(f"D7-{stored}")
        self._drain = Drain(self.place, shared.receiver, shared.core, shared.start_postgres(), stored=True)
        plan = RowCounts.of(stored)

        async def run(services: Services) -> tuple[str, int]:
            def say(what: str, done: int, total: int) -> None:
                shared.say(f"D7: filling, {what}: {done:,} of {total:,}")

            places = await fill(services.database, plan, say)
            return places.token, places.params["first_hook"] + 2 * PROJECTS

        self._token, hook_id = world.with_services(self.place, run)
        world.settle(self.place)
        self._path = f"/orgs/acme/hooks/{hook_id}/deliveries"

    def prepare(self) -> None:
        self._drain.prepare(self._count)

    def measure(self) -> Stored:
        return Stored(self._drain.run(self._count), self._page_ms())

    def _page_ms(self) -> float:
        """Return milliseconds for the first page. A later one costs the same, because pages start at a cursor."""
        server = workhook(
            "serve", self.place.folder, self.place.settings, self._shared.core, "--port", "0", "--no-worker"
        )
        try:
            requests = [get(self._path, self._token)] * (PAGES + 20)  # the first ones are not counted
            sent = send_all(server.wait_for_url(), requests, expected=200)
            return statistics.median(each.ms for each in sent[20:])
        finally:
            server.stop()


def _stored(shared: Shared) -> Iterator[Figure]:
    beside = f"with {shared.plan.stored:,} stored deliveries, against with {FEW_STORED:,}"
    rate = Figure("D7", f"PostgreSQL: deliveries/s {beside}", "x", "at least", 0.9)
    page = Figure("D7", f"PostgreSQL: a page of deliveries {beside}", "x", "at most", 1.2)
    with recorded_trouble(rate, page):
        many, few = Warehouse(shared, shared.plan.stored), Warehouse(shared, FEW_STORED)

        def prepare(number: int) -> None:
            many.prepare()
            few.prepare()

        kept = shared.one("D7", Unit(lambda number: (many.measure(), few.measure()), prepare))
        keep(rate, kept, lambda each: each[0].drained.per_s / each[1].drained.per_s)
        keep(page, kept, lambda each: each[0].page_ms / each[1].page_ms)
        for index, name in enumerate(("many", "few")):
            drained = [each[index].drained for each in kept.found]
            rate.details[name] = median_text([each.per_s for each in drained], "{:,.0f}/s")
            rate.details |= _cpu_details(name, drained)
            page.details[name] = median_text([each[index].page_ms for each in kept.found], "{:.2f} ms")
    yield from (rate, page)


# --- D8, D9 -----------------------------------------------------------------------------------------------------------


def _compare_drains(shared: Shared, figure: Figure, count: int, one: Drain, other: Drain) -> None:
    """Compare the CPU per delivery of two backlogs."""

    def measure(number: int) -> tuple[Drained, Drained]:
        one.prepare(count)
        found = one.run(count)
        other.prepare(count)
        return found, other.run(count)

    kept = shared.one(figure.id, Unit(measure))
    keep(figure, kept, lambda each: each[0].cpu_us / each[1].cpu_us)
    for index, name in enumerate(("one", "other")):
        drained = [each[index] for each in kept.found]
        figure.details |= _cpu_details(name, drained)
        figure.details[f"{name}: rate"] = median_text([each.per_s for each in drained], "{:,.0f}/s")


def _cpu_details(name: str, drained: list[Drained]) -> dict[str, str]:
    return {
        f"{name}: workers": median_text([each.worker_cpu_us for each in drained], "{:.0f} µs"),
        f"{name}: PostgreSQL": median_text([each.postgres_cpu_us or 0.0 for each in drained], "{:.0f} µs"),
    }


def _lanes(shared: Shared) -> Figure:
    """Compare many webhooks with thirty deliveries each to a few with correspondingly more."""
    count = shared.plan.events * 3 // 2
    many, few = (repositories * hooks for repositories, hooks in (MANY_HOOKS, FEW_HOOKS))
    what = f"PostgreSQL: CPU a delivery, {many} webhooks with {count // many} each, against {few} with {count // few:,}"
    figure = Figure("D8", what, "x", "at most", 1.3)
    with recorded_trouble(figure):
        drains = [
            Drain(shared.place(f"D8-{repositories}"), shared.receiver, shared.core, shared.start_postgres(),
                  repositories=repositories, hooks=each)
            for repositories, each in (MANY_HOOKS, FEW_HOOKS)
        ]  # fmt: skip
        _compare_drains(shared, figure, count, *drains)
    return figure


def _several_drain(shared: Shared) -> Figure:
    what = f"PostgreSQL: CPU a delivery of a backlog, {WORKERS} workers, against one"
    figure = Figure("D9", what, "x", "at most", 1.5)
    with recorded_trouble(figure):
        drains = [
            Drain(shared.place(f"D9-{workers}"), shared.receiver, shared.core, shared.start_postgres(),
                  repositories=4 * world.REPOSITORIES, workers=workers)
            for workers in (WORKERS, 1)
        ]  # fmt: skip
        _compare_drains(shared, figure, shared.plan.events, *drains)
    return figure


def _several_write(shared: Shared) -> Figure:
    """Measure the CPU of server, workers and PostgreSQL until every outcome is recorded."""
    what = f"PostgreSQL: CPU a write with its delivery while events come in, {WORKERS} workers, against one"
    figure = Figure("D9", what, "x", "at most", 1.5)
    count = shared.plan.published
    with recorded_trouble(figure), ExitStack() as stack:
        sites = [
            stack.enter_context(
                live.Publishing(shared.place(f"D9-write-{workers}"), shared.receiver, shared.core,
                                shared.start_postgres(), 1, repositories=4 * world.REPOSITORIES, workers=workers)
            )
            for workers in (WORKERS, 1)
        ]  # fmt: skip

        def measure(number: int) -> tuple[live.Live, live.Live]:
            bare = shared.bare()
            return sites[0].measure(bare, count), sites[1].measure(bare, count)

        kept = shared.one("D9, writes", Unit(measure))
        keep(figure, kept, lambda each: each[0].ratio / each[1].ratio)
        for index, name in enumerate((f"{WORKERS} workers", "one")):
            figure.details |= {
                f"{name}: server and workers": median_text([each[index].server_us for each in kept.found], "{:.0f} µs"),
                f"{name}: PostgreSQL": median_text([each[index].database_us for each in kept.found], "{:.0f} µs"),
            }
    return figure


# --- D10 --------------------------------------------------------------------------------------------------------------


def _rest(shared: Shared) -> Figure:
    count = shared.plan.at_rest
    what = f"PostgreSQL: CPU of a worker and of the database with {count:,} webhooks at rest, of a core"
    figure = Figure("D10", what, "%", "at most", 3.0)
    with recorded_trouble(figure):
        postgres, place = shared.start_postgres(), shared.place("D10")
        make_webhooks(place, UNUSED, count)
        worker = workhook("worker", place.folder, place.settings, shared.core)
        try:
            shared.say(f"D10: {REST_AT:.0f} s until the worker has nothing to do")
            time.sleep(REST_AT)

            def measure(number: int) -> tuple[float, float]:
                own, database = worker.cpu_s(), postgres.cpu_s()
                time.sleep(shared.plan.rest_s)
                each = 100 / shared.plan.rest_s
                return (worker.cpu_s() - own) * each, (postgres.cpu_s() - database) * each

            kept = shared.one("D10", Unit(measure))
            keep(figure, kept, sum)
            figure.details = {
                "worker": median_text([each[0] for each in kept.found], "{:.1f} %"),
                "PostgreSQL": median_text([each[1] for each in kept.found], "{:.1f} %"),
                "worker's memory": f"{worker.rss_bytes() / 2**20:,.0f} MiB",
            }
        finally:
            worker.stop()
    return figure
