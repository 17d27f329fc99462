"""One run: which figures, how many rounds, in alternation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench import board, browser, drain, fanout, idle, lanes, latency, live, machine, pages, scale, soak, trips
from bench.databases import Place
from bench.figures import Figure, median_text
from bench.processes import CannotMeasure
from bench.rounds import QUIET_WAIT_S, Kept, Unit
from bench.shared import Shared, keep

IDS = ("D1", "D2", "D3", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D13", "D14",
       "D15", "A1", "A2", "A3", "A4", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "M1", "S1")  # fmt: skip


class Run:
    """Makes the figures that were asked for, one after the other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def figures(self) -> Iterator[Figure]:
        """As they are finished, with the time since the one before."""
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
            yield from self._latencies("SQLite", None)
            yield from self._latencies("PostgreSQL", self._shared.database_url)
        if "D5" in wanted:
            yield self._fan_out()
        yield from scale.figures(self._shared)
        yield from lanes.figures(self._shared)
        if {"D11", "D12", "D13"} & set(wanted):
            yield from self._live("SQLite")
            yield from self._live("PostgreSQL")
        if {"A1", "A2", "A4"} & set(wanted):
            yield from self._boards("SQLite", None)
            yield from self._boards("PostgreSQL", self._shared.database_url)
        yield from pages.figures(self._shared)
        yield from browser.figures(self._shared)
        if "A3" in wanted:
            yield from trips.figures(self._shared)
        if "M1" in wanted:
            yield self._growth()
        if {"M1", "S1"} & set(wanted):
            yield from (each for each in self._idle() if each.id in wanted)

    # --- D1, D2 ------------------------------------------------------------------------------------------------------

    def _drains(self) -> Iterator[Figure]:
        d1 = Figure("D1", "deliveries/s, PostgreSQL, one worker, against a bare aiohttp loop", "x", "at least", 0.55)
        d2 = Figure("D2", "deliveries/s, SQLite, server and worker in one, against the same", "x", "at least", 0.42)
        figures = [each for each in (d1, d2) if each.id in self._shared.plan.only]
        try:
            units = {each.id: self._drain_unit(each.id, with_postgres=each is d1) for each in figures}
            for name, kept in self._shared.alternate(units).items():
                _tell_drain(next(each for each in figures if each.id == name), kept)
        except CannotMeasure as error:
            for figure in figures:
                figure.trouble = str(error)
        yield from figures

    def _drain_unit(self, name: str, *, with_postgres: bool) -> Unit[drain.Round]:
        postgres = self._shared.start_postgres() if with_postgres else None
        place = Place(self._shared.folder / name, postgres.new() if postgres else None)
        backlog = drain.Drain(place, self._shared.receiver, self._shared.core, postgres)

        def measure(number: int) -> drain.Round:
            before = self._shared.bare()
            drained = backlog.run(self._shared.plan.events)
            return drain.Round(before, drained, self._shared.bare())

        return Unit(measure, lambda number: backlog.prepare(self._shared.plan.events))

    # --- D3 ----------------------------------------------------------------------------------------------------------

    def _latencies(self, kind: str, new_database: Callable[[], str] | None) -> Iterator[Figure]:
        what = f"{kind}: 202 read → receiver has it, over a bare POST"
        p50 = Figure("D3", f"{what}, p50", "ms", "at most", 5.0)
        p99 = Figure("D3", f"{what}, p99", "ms", "at most", 25.0)
        try:
            place = Place(self._shared.folder / f"D3-{kind}", new_database() if new_database else None)
            count = self._shared.plan.published
            with latency.Publisher(place, self._shared.receiver, self._shared.core) as publisher:
                machine.wait_for_quiet(QUIET_WAIT_S)
                highest = publisher.highest_rate(0, count)
                unit = Unit(lambda number: latency.measure(publisher, (number + 1) * count, count, highest))
                [kept] = self._shared.alternate({f"D3, {kind}": unit}).values()
            keep(p50, kept, lambda each: each.published.p50 - each.bare.p50)
            keep(p99, kept, lambda each: each.published.p99 - each.bare.p99)
            p50.details = {"highest rate": f"{highest:,.0f}/s, measured at {highest * latency.SHARE:,.0f}/s",
                           "bare": median_text([each.bare.p50 for each in kept.found], "{:.2f} ms")}  # fmt: skip
            p99.details = {"bare": median_text([each.bare.p99 for each in kept.found], "{:.2f} ms")}
        except CannotMeasure as error:
            p50.trouble = p99.trouble = str(error)
        yield from (p50, p99)

    # --- D11, D12, D13 -----------------------------------------------------------------------------------------------

    def _live(self, kind: str) -> Iterator[Figure]:
        """What a further endpoint costs is the difference between several and one, in the same round."""
        on_sqlite = kind == "SQLite"
        several = f"{kind}: each further endpoint of {live.SEVERAL}, CPU against that of a bare POST"
        slowly = f"{kind}: the same at {live.SLOWLY_PER_S:.0f} events/s, against the same"
        every = [
            Figure("D11", f"{kind}: an event, published and delivered, CPU against that of a bare POST", "x", "at most",
                   5.0 if on_sqlite else 6.5),
            Figure("D12", several, "x", "at most", 1.4),
            Figure("D13", slowly, "x", "at most", 18.0 if on_sqlite else 20.0),
        ]  # fmt: skip
        figures = [each for each in every if each.id in self._shared.plan.only]
        try:
            postgres = None if on_sqlite else self._shared.start_postgres()
            with ExitStack() as stack:
                sites = [
                    stack.enter_context(live.Publishing(self._live_place(kind, number), self._shared.receiver,
                                                        self._shared.core, postgres, number))
                    for number in (1, live.SEVERAL)
                ]  # fmt: skip
                for figure in figures:
                    self._measure_live(figure, kind, *sites)
        except CannotMeasure as error:
            for figure in figures:
                figure.trouble = figure.trouble or (None if figure.rounds else str(error))
        yield from figures

    def _live_place(self, kind: str, hooks: int) -> Place:
        url = None if kind == "SQLite" else self._shared.database_url()
        return Place(self._shared.folder / f"live-{kind}-{hooks}", url)

    def _measure_live(self, figure: Figure, kind: str, one: live.Publishing, several: live.Publishing) -> None:
        count = self._shared.plan.published

        def measure(number: int) -> live.Live:
            bare = self._shared.bare()
            if figure.id == "D13":
                return one.measure(bare, count // 4, slowly=True)
            alone = one.measure(bare, count)
            return several.measure(bare, count).further(alone, live.SEVERAL - 1) if figure.id == "D12" else alone

        [kept] = self._shared.alternate({f"{figure.id}, {kind}": Unit(measure)}).values()
        keep(figure, kept, lambda each: each.ratio)
        figure.details = {
            "the server's CPU": median_text([each.server_us for each in kept.found], "{:.0f} µs"),
            "the database's": median_text([each.database_us for each in kept.found], "{:.0f} µs"),
            "CPU a bare post": median_text([each.bare.cpu_us for each in kept.found], "{:.0f} µs"),
        }

    # --- A1, A2, A4 --------------------------------------------------------------------------------------------------

    def _boards(self, kind: str, new_database: Callable[[], str] | None) -> Iterator[Figure]:
        at_once = f"{board.WRITERS} at once"
        every = [
            Figure("A1", f"{kind}: GET a column's {board.SHOWN} tasks, CPU against from memory", "x", "at most", 10),
            Figure("A2", f"{kind}: POST a task, CPU against the bare driver's, {at_once}", "x", "at most", 2),
            Figure("A4", f"{kind}: move a card among {board.LONG:,}, against among {board.SHORT}", "x", "at most", 1.2),
        ]
        figures = [each for each in every if each.id in self._shared.plan.only]
        try:
            place = Place(self._shared.folder / f"board-{kind}", new_database() if new_database else None)
            postgres = self._shared.start_postgres() if new_database else None
            with board.Board(place, self._shared.core, postgres) as there:
                for figure in figures:
                    self._measure_board(there, figure, kind)
        except CannotMeasure as error:
            for figure in figures:
                figure.trouble = figure.trouble or (None if figure.rounds else str(error))
        yield from figures

    def _measure_board(self, there: board.Board, figure: Figure, kind: str) -> None:
        count, name = self._shared.plan.asked, f"{figure.id}, {kind}"
        if figure.id == "A1":
            there.prepare_reading()
            [reading] = self._shared.alternate({name: Unit(lambda number: there.read(count))}).values()
            keep(figure, reading, lambda each: each.ratio)
            figure.details = {
                "server": median_text([each.server_us for each in reading.found], "{:.0f} µs"),
                "database": median_text([each.database_us for each in reading.found], "{:.0f} µs"),
                "database of server's": median_text(
                    [each.database_us / each.server_us for each in reading.found], "{:.2f}"
                ),
                "from memory": median_text([each.plain_us[0] for each in reading.found], "{:.0f} µs"),
            }
        elif figure.id == "A2":
            there.prepare_writing()
            [writing] = self._shared.alternate({name: Unit(lambda number: there.write(count))}).values()
            keep(figure, writing, lambda each: each.ratio)
            figure.details = {
                "server": median_text([each.server_us for each in writing.found], "{:.0f} µs"),
                "database": median_text([each.database_us for each in writing.found], "{:.0f} µs"),
                "bare": median_text([each.bare_us[0] for each in writing.found], "{:.0f} µs"),
            }
        else:
            there.prepare_moving()
            [moving] = self._shared.alternate({name: Unit(lambda number: there.move(count // 8))}).values()
            keep(figure, moving, lambda each: each.ratio)
            figure.details = {
                "among few": median_text([each.short_ms for each in moving.found], "{:.2f} ms"),
                "among many": median_text([each.long_ms for each in moving.found], "{:.2f} ms"),
            }

    # --- D5, M1, S1 --------------------------------------------------------------------------------------------------

    def _fan_out(self) -> Figure:
        what = f"one event to {fanout.HOOKS:,} webhooks, against as many single ones"
        figure = Figure("D5", what, "x", "at most", 1.2)
        try:
            place = Place(self._shared.folder / "D5", self._shared.database_url())
            with fanout.Crowd(place, self._shared.receiver, self._shared.core) as crowd:
                [kept] = self._shared.alternate({"D5": Unit(crowd.measure)}).values()
            keep(figure, kept, lambda each: each.one / each.singles)
            figure.details = {
                "one event": median_text([each.one for each in kept.found], "{:.2f} s"),
                "singles": median_text([each.singles for each in kept.found], "{:.2f} s"),
            }
        except CannotMeasure as error:
            figure.trouble = str(error)
        return figure

    def _growth(self) -> Figure:
        """Minutes, where `make soak` takes an hour."""
        seconds = self._shared.plan.busy_s
        what = f"memory after {seconds:.0f} s at half rate, SQLite: growth after the first quarter"
        figure = Figure("M1", what, "MiB", "at most", soak.GROWTH_MIB)
        try:
            place = Place(self._shared.folder / "busy", None)
            with latency.Publisher(place, self._shared.receiver, self._shared.core) as publisher:
                self._shared.say("M1: at half rate")
                per_s, samples = soak.work(publisher, seconds, lambda *_: None, seconds / 20)
            figure.rounds, figure.made = [soak.grown_mib(samples)], 1
            figure.details = {"rate": f"{per_s:,.0f}/s", "resident at the end": f"{samples[-1][1]:.0f} MiB"}
        except CannotMeasure as error:
            figure.trouble = str(error)
        return figure

    def _idle(self) -> Iterator[Figure]:
        memory = Figure("M1", "memory of an idle server (resident)", "MiB", "at most", 100.0)
        start = Figure("S1", "from `workhook serve` on an empty folder to the first 200", "s", "at most", 1.3)
        try:
            unit = Unit(lambda number: idle.measure(self._shared.folder / f"idle{number}", self._shared.core))
            [kept] = self._shared.alternate({"M1, S1": unit}).values()
            keep(memory, kept, lambda each: each.idle_mib)
            keep(start, kept, lambda each: each.seconds)
        except CannotMeasure as error:
            memory.trouble = start.trouble = str(error)
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
