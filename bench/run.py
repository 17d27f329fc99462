"""One run: its figures and their rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench import board, browser, drain, fanout, idle, lanes, latency, live, machine, pages, scale, soak, trips
from bench.figures import Figure, median_text, recorded_trouble
from bench.rounds import QUIET_WAIT_S, Kept, Unit
from bench.shared import Shared, keep

IDS = ("D1", "D2", "D3", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D13", "D14",
       "D15", "A1", "A2", "A3", "A4", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "M1", "S1")  # fmt: skip


class Run:
    """A run of the requested figures, one after the other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def figures(self) -> Iterator[Figure]:
        """Yield the figures as they finish, each with the time since the previous one."""
        before = time.monotonic()
        for each in self._each():
            each.took_s = time.monotonic() - before
            before = time.monotonic()
            yield each

    def _each(self) -> Iterator[Figure]:
        wanted = self._shared.plan.only
        if {"D1", "D2"} & set(wanted):
            yield from self._drains()
        if "D3" in wanted:
            yield from self._latencies("SQLite")
            yield from self._latencies("PostgreSQL")
        if "D5" in wanted:
            yield self._fan_out()
        yield from scale.figures(self._shared)
        yield from lanes.figures(self._shared)
        if {"D11", "D12", "D13"} & set(wanted):
            yield from self._live("SQLite")
            yield from self._live("PostgreSQL")
        if {"A1", "A2", "A4"} & set(wanted):
            yield from self._boards("SQLite")
            yield from self._boards("PostgreSQL")
        yield from pages.figures(self._shared)
        yield from browser.figures(self._shared)
        if "A3" in wanted:
            yield from trips.figures(self._shared)
        if "M1" in wanted:
            yield self._growth()
        if {"M1", "S1"} & set(wanted):
            yield from (each for each in self._idle() if each.id in wanted)

    # --- D1, D2 -------------------------------------------------------------------------------------------------------

    def _drains(self) -> Iterator[Figure]:
        d1 = Figure("D1", "deliveries/s, PostgreSQL, one worker, against a bare aiohttp loop", "x", "at least", 0.85)
        d2 = Figure("D2", "deliveries/s, SQLite, server and worker in one, against the same", "x", "at least", 0.75)
        figures = [each for each in (d1, d2) if each.id in self._shared.plan.only]
        with recorded_trouble(*figures):
            units = {each.id: self._drain_unit(each.id, "PostgreSQL" if each is d1 else "SQLite") for each in figures}
            for name, kept in self._shared.alternate(units).items():
                _tell_drain(next(each for each in figures if each.id == name), kept)
        yield from figures

    def _drain_unit(self, name: str, kind: str) -> Unit[drain.Round]:
        place, postgres = self._shared.place(name, kind), self._shared.postgres_of(kind)
        backlog = drain.Drain(place, self._shared.receiver, self._shared.core, postgres)

        def measure(number: int) -> drain.Round:
            before = self._shared.bare()
            drained = backlog.run(self._shared.plan.events)
            return drain.Round(before, drained, self._shared.bare())

        return Unit(measure, lambda number: backlog.prepare(self._shared.plan.events))

    # --- D3 -----------------------------------------------------------------------------------------------------------

    def _latencies(self, kind: str) -> Iterator[Figure]:
        what = f"{kind}: 202 read → receiver has it, over a bare POST"
        p50 = Figure("D3", f"{what}, p50", "ms", "at most", 5.0)
        p99 = Figure("D3", f"{what}, p99", "ms", "at most", 25.0)
        with recorded_trouble(p50, p99):
            place = self._shared.place("D3", kind)
            count = self._shared.plan.published
            with latency.Publisher(place, self._shared.receiver, self._shared.core) as publisher:
                machine.wait_for_quiet(QUIET_WAIT_S)
                highest = publisher.highest_rate(0, count)
                unit = Unit(lambda number: latency.measure(publisher, (number + 1) * count, count, highest))
                kept = self._shared.one(f"D3, {kind}", unit)
            keep(p50, kept, lambda each: each.published.p50 - each.bare.p50)
            keep(p99, kept, lambda each: each.published.p99 - each.bare.p99)
            p50.details = {"highest rate": f"{highest:,.0f}/s, measured at {highest * latency.SHARE:,.0f}/s",
                           "bare": median_text([each.bare.p50 for each in kept.found], "{:.2f} ms")}  # fmt: skip
            p99.details = {"bare": median_text([each.bare.p99 for each in kept.found], "{:.2f} ms")}
        yield from (p50, p99)

    # --- D11, D12, D13 ------------------------------------------------------------------------------------------------

    def _live(self, kind: str) -> Iterator[Figure]:
        """Measure live events.

        The cost of an additional endpoint is the difference between several and one in the same round.
        """
        on_sqlite = kind == "SQLite"
        several = f"{kind}: each further endpoint of {live.SEVERAL}, CPU against that of a bare POST"
        slowly = f"{kind}: an event at {live.SLOWLY_PER_S:.0f}/s, CPU against that of a bare POST at the same rate"
        every = [
            Figure("D11", f"{kind}: an event, published and delivered, CPU against that of a bare POST", "x", "at most",
                   4.7 if on_sqlite else 6.5),
            Figure("D12", several, "x", "at most", 1.15 if on_sqlite else 1.4),
            Figure("D13", slowly, "x", "at most", 4.0 if on_sqlite else 5.0),
        ]  # fmt: skip
        figures = [each for each in every if each.id in self._shared.plan.only]
        with recorded_trouble(*figures), ExitStack() as stack:
            sites = [stack.enter_context(self._publishing(kind, hooks)) for hooks in (1, live.SEVERAL)]
            for figure in figures:
                self._measure_live(figure, kind, *sites)
        yield from figures

    def _publishing(self, kind: str, hooks: int) -> live.Publishing:
        shared = self._shared
        place, postgres = shared.place(f"live-{hooks}", kind), shared.postgres_of(kind)
        return live.Publishing(place, shared.receiver, shared.core, postgres, hooks)

    def _measure_live(self, figure: Figure, kind: str, one: live.Publishing, several: live.Publishing) -> None:
        count = self._shared.plan.published

        def measure(number: int) -> live.Live:
            if figure.id == "D13":
                paced = self._shared.paced_bare(count // 4, live.SLOWLY_PER_S)
                return one.measure(paced, count // 4, slowly=True)
            bare = self._shared.bare()
            alone = one.measure(bare, count)
            return several.measure(bare, count).further(alone, live.SEVERAL - 1) if figure.id == "D12" else alone

        kept = self._shared.one(f"{figure.id}, {kind}", Unit(measure))
        keep(figure, kept, lambda each: each.ratio)
        figure.details = {
            "the server's CPU": median_text([each.server_us for each in kept.found], "{:.0f} µs"),
            "the database's": median_text([each.database_us for each in kept.found], "{:.0f} µs"),
            "CPU a bare post": median_text([each.bare.cpu_us for each in kept.found], "{:.0f} µs"),
        }

    # --- A1, A2, A4 ---------------------------------------------------------------------------------------------------

    def _boards(self, kind: str) -> Iterator[Figure]:
        at_once = f"{board.WRITERS} at once"
        shown = f"{kind}: GET a column's {board.SHOWN} tasks, CPU against from memory"
        every = [
            Figure("A1", shown, "x", "at most", 9 if kind == "SQLite" else 14),
            Figure("A2", f"{kind}: POST a task, CPU against the bare driver's, {at_once}", "x", "at most", 1.8),
            Figure("A4", f"{kind}: move a card among {board.LONG:,}, against among {board.SHORT}", "x", "at most", 2),
        ]
        figures = [each for each in every if each.id in self._shared.plan.only]
        with recorded_trouble(*figures):
            place = self._shared.place("board", kind)
            postgres = self._shared.postgres_of(kind)
            with board.Board(place, self._shared.core, postgres) as there:
                for figure in figures:
                    self._measure_board(there, figure, kind)
        yield from figures

    def _measure_board(self, there: board.Board, figure: Figure, kind: str) -> None:
        count, name = self._shared.plan.asked, f"{figure.id}, {kind}"
        if figure.id == "A4":
            there.prepare_moving()
            moving = self._shared.one(name, Unit(lambda number: there.move(count // 8)))
            keep(figure, moving, lambda each: each.ratio)
            figure.details = {
                "among few": median_text([each.short_ms for each in moving.found], "{:.2f} ms"),
                "among many": median_text([each.long_ms for each in moving.found], "{:.2f} ms"),
            }
            return
        (there.prepare_reading if figure.id == "A1" else there.prepare_writing)()
        measure = there.read if figure.id == "A1" else there.write
        kept = self._shared.one(name, Unit(lambda number: measure(count)))
        keep(figure, kept, lambda each: each.ratio)
        figure.details = {
            "server": median_text([each.server_us for each in kept.found], "{:.0f} µs"),
            "database": median_text([each.database_us for each in kept.found], "{:.0f} µs"),
            "yardstick": median_text([each.yardstick_us[0] for each in kept.found], "{:.0f} µs"),
        }

    # --- D5, M1, S1 ---------------------------------------------------------------------------------------------------

    def _fan_out(self) -> Figure:
        what = f"one event to {fanout.HOOKS:,} webhooks, against as many single ones"
        figure = Figure("D5", what, "x", "at most", 1.2)
        with recorded_trouble(figure):
            place = self._shared.place("D5")
            with fanout.Crowd(place, self._shared.receiver, self._shared.core) as crowd:
                kept = self._shared.one("D5", Unit(crowd.measure))
            keep(figure, kept, lambda each: each.one / each.singles)
            figure.details = {
                "one event": median_text([each.one for each in kept.found], "{:.2f} s"),
                "singles": median_text([each.singles for each in kept.found], "{:.2f} s"),
            }
        return figure

    def _growth(self) -> Figure:
        """Measure memory growth over minutes, where `make soak` takes an hour."""
        seconds = self._shared.plan.busy_s
        what = f"memory after {seconds:.0f} s at half rate, SQLite: growth after the first quarter"
        figure = Figure("M1", what, "MiB", "at most", soak.GROWTH_MIB)
        with recorded_trouble(figure):
            place = self._shared.place("busy", "SQLite")
            with latency.Publisher(place, self._shared.receiver, self._shared.core) as publisher:
                self._shared.say("M1: at half rate")
                per_s, samples = soak.work(publisher, seconds, lambda _: None, seconds / 20)
            figure.rounds, figure.made = [soak.growth(samples)[0]], 1
            figure.details = {"rate": f"{per_s:,.0f}/s", "resident at the end": f"{samples[-1].mib:.0f} MiB"}
        return figure

    def _idle(self) -> Iterator[Figure]:
        memory = Figure("M1", "memory of an idle server (resident)", "MiB", "at most", 100.0)
        start = Figure("S1", "from `workhook serve` on an empty folder to the first 200", "s", "at most", 1.2)
        with recorded_trouble(memory, start):
            unit = Unit(lambda number: idle.measure(self._shared.folder / f"idle{number}", self._shared.core))
            kept = self._shared.one("M1, S1", unit)
            keep(memory, kept, lambda each: each.idle_mib)
            keep(start, kept, lambda each: each.seconds)
        yield from (memory, start)


def _tell_drain(figure: Figure, kept: Kept[drain.Round]) -> None:
    keep(figure, kept, lambda each: each.ratio)
    rounds = kept.found
    figure.details = {
        "deliveries/s": median_text([each.drained.per_s for each in rounds]),
        "bare posts/s": median_text([each.bare_per_s for each in rounds]),
        "CPU a delivery": median_text([each.drained.worker_cpu_us for each in rounds], "{:.0f} µs"),
        "CPU a bare post": median_text([each.before.cpu_us for each in rounds], "{:.0f} µs"),
    }
    database = [each.drained.postgres_cpu_us for each in rounds if each.drained.postgres_cpu_us is not None]
    if database:
        figure.details["PostgreSQL's CPU a delivery"] = median_text(database, "{:.0f} µs")
