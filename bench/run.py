"""One run: which figures, how many rounds, in alternation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench import board, drain, fanout, idle, latency, live, machine, world
from bench.databases import Place, Postgres
from bench.figures import Figure, median_text
from bench.processes import CannotMeasure, cores
from bench.remote import Receiver
from bench.rounds import QUIET_WAIT_S, Kept, Unit, alternate

IDS = ("D1", "D2", "D3", "D5", "D11", "D12", "D13", "A1", "A2", "A4", "M1", "S1")

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """`events`: a backlog. `posts`: one run of the bare loop. `published`: events of a round of D3. `asked`: requests
    of a round of A1 or A2."""

    only: Sequence[str]
    rounds: int
    events: int
    posts: int
    published: int
    asked: int
    quick: bool

    @classmethod
    def of(cls, only: Sequence[str], rounds: int | None, *, quick: bool) -> Plan:
        if quick:
            return cls(only, rounds or 2, 4_000, 4_000, 400, 400, quick)
        return cls(only, rounds or 5, 20_000, 20_000, 2_000, 4_000, quick)


class Run:
    """Everything that a run shares: the cores, the receiver, PostgreSQL, the folder."""

    def __init__(self, plan: Plan, folder: Path, say: Say, stack: ExitStack) -> None:
        self._plan, self._folder, self._say, self._stack = plan, folder, say, stack
        self._core, rest = cores()
        os.sched_setaffinity(0, {rest})  # whatever is started from here inherits it
        self._receiver = Receiver(rest)
        stack.callback(self._receiver.close)
        self._postgres: Postgres | None = None
        self._requests = folder / "requests"
        world.presign(self._requests)

    def figures(self) -> Iterator[Figure]:
        """As they are finished."""
        wanted = self._plan.only
        if {"D1", "D2"} & set(wanted):
            yield from self._drains()
        if "D3" in wanted:
            yield from self._latencies("SQLite", None)
            yield from self._latencies("PostgreSQL", self._database_url)
        if "D5" in wanted:
            yield self._fan_out()
        if {"D11", "D12", "D13"} & set(wanted):
            yield from self._live("SQLite")
            yield from self._live("PostgreSQL")
        if {"A1", "A2", "A4"} & set(wanted):
            yield from self._boards("SQLite", None)
            yield from self._boards("PostgreSQL", self._database_url)
        if {"M1", "S1"} & set(wanted):
            yield from (each for each in self._idle() if each.id in wanted)

    def machine(self) -> dict[str, str]:
        return machine.facts(self._folder, self._postgres.version if self._postgres else None)

    def _start_postgres(self) -> Postgres:
        if self._postgres is None:
            self._postgres = Postgres(self._folder / "postgres")
            self._stack.callback(self._postgres.close)
        return self._postgres

    def _database_url(self) -> str:
        return self._start_postgres().new()

    def _alternate(self, units: Mapping[str, Unit[T]]) -> dict[str, Kept[T]]:
        postmaster = self._postgres.postmaster if self._postgres else None
        return alternate(units, self._plan.rounds, self._say, postmaster)

    # --- D1, D2 ------------------------------------------------------------------------------------------------------

    def _drains(self) -> Iterator[Figure]:
        d1 = Figure("D1", "deliveries/s, PostgreSQL, one worker, against a bare aiohttp loop", "x", "at least", 0.5)
        d2 = Figure("D2", "deliveries/s, SQLite, server and worker in one, against the same", "x", "at least", 0.35)
        figures = [each for each in (d1, d2) if each.id in self._plan.only]
        try:
            units = {each.id: self._drain_unit(each.id, with_postgres=each is d1) for each in figures}
            for name, kept in self._alternate(units).items():
                _tell_drain(next(each for each in figures if each.id == name), kept)
        except CannotMeasure as error:
            for figure in figures:
                figure.trouble = str(error)
        yield from figures

    def _drain_unit(self, name: str, *, with_postgres: bool) -> Unit[drain.Round]:
        postgres = self._start_postgres() if with_postgres else None
        place = Place(self._folder / name, postgres.new() if postgres else None)
        backlog = drain.Drain(place, self._receiver, self._core, postgres)

        def measure(number: int) -> drain.Round:
            before = self._bare()
            drained = backlog.run(self._plan.events)
            return drain.Round(before, drained, self._bare())

        return Unit(measure, lambda number: backlog.prepare(self._plan.events))

    def _bare(self) -> drain.Bare:
        return drain.bare(self._receiver, self._requests, self._core, self._plan.posts)

    # --- D3 ----------------------------------------------------------------------------------------------------------

    def _latencies(self, kind: str, new_database: Callable[[], str] | None) -> Iterator[Figure]:
        what = f"{kind}: 202 read → receiver has it, over a bare POST"
        p50 = Figure("D3", f"{what}, p50", "ms", "at most", 5.0)
        p99 = Figure("D3", f"{what}, p99", "ms", "at most", 25.0)
        try:
            place = Place(self._folder / f"D3-{kind}", new_database() if new_database else None)
            count = self._plan.published
            with latency.Publisher(place, self._receiver, self._core) as publisher:
                machine.wait_for_quiet(QUIET_WAIT_S)
                highest = publisher.highest_rate(0, count)
                unit = Unit(lambda number: latency.measure(publisher, (number + 1) * count, count, highest))
                [kept] = self._alternate({f"D3, {kind}": unit}).values()
            _keep(p50, kept, lambda each: each.published.p50 - each.bare.p50)
            _keep(p99, kept, lambda each: each.published.p99 - each.bare.p99)
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
        figures = [each for each in every if each.id in self._plan.only]
        try:
            postgres = None if on_sqlite else self._start_postgres()
            with ExitStack() as stack:
                sites = [
                    stack.enter_context(live.Publishing(self._live_place(kind, number), self._receiver, self._core,
                                                        postgres, number))
                    for number in (1, live.SEVERAL)
                ]  # fmt: skip
                for figure in figures:
                    self._measure_live(figure, kind, *sites)
        except CannotMeasure as error:
            for figure in figures:
                figure.trouble = figure.trouble or (None if figure.rounds else str(error))
        yield from figures

    def _live_place(self, kind: str, hooks: int) -> Place:
        url = None if kind == "SQLite" else self._database_url()
        return Place(self._folder / f"live-{kind}-{hooks}", url)

    def _measure_live(self, figure: Figure, kind: str, one: live.Publishing, several: live.Publishing) -> None:
        count = self._plan.published

        def measure(number: int) -> live.Live:
            bare = self._bare()
            if figure.id == "D13":
                return one.measure(bare, count // 4, slowly=True)
            alone = one.measure(bare, count)
            return several.measure(bare, count).further(alone, live.SEVERAL - 1) if figure.id == "D12" else alone

        [kept] = self._alternate({f"{figure.id}, {kind}": Unit(measure)}).values()
        _keep(figure, kept, lambda each: each.ratio)
        figure.details = {
            "the server's CPU": median_text([each.server_us for each in kept.found], "{:.0f} µs"),
            "the database's": median_text([each.database_us for each in kept.found], "{:.0f} µs"),
            "CPU a bare post": median_text([each.bare.cpu_us for each in kept.found], "{:.0f} µs"),
        }

    # --- A1, A2, A4 --------------------------------------------------------------------------------------------------

    def _boards(self, kind: str, new_database: Callable[[], str] | None) -> Iterator[Figure]:
        at_once = f"{board.WRITERS} at once"
        every = [
            Figure("A1", f"{kind}: GET a column's {board.SHOWN} tasks, against from memory", "x", "at least", 0.3),
            Figure("A2", f"{kind}: POST a task, against a bare INSERT, {at_once}", "x", "at least", 0.4),
            Figure("A4", f"{kind}: move a card among {board.LONG:,}, against among {board.SHORT}", "x", "at most", 1.2),
        ]
        figures = [each for each in every if each.id in self._plan.only]
        try:
            place = Place(self._folder / f"board-{kind}", new_database() if new_database else None)
            with board.Board(place, self._core) as there:
                for figure in figures:
                    self._measure_board(there, figure, kind)
        except CannotMeasure as error:
            for figure in figures:
                figure.trouble = figure.trouble or (None if figure.rounds else str(error))
        yield from figures

    def _measure_board(self, there: board.Board, figure: Figure, kind: str) -> None:
        count, name = self._plan.asked, f"{figure.id}, {kind}"
        if figure.id == "A1":
            there.prepare_reading()
            [reading] = self._alternate({name: Unit(lambda number: there.read(count))}).values()
            _keep(figure, reading, lambda each: each.ratio)
            figure.details = {
                "answers/s": median_text([each.per_s for each in reading.found]),
                "from memory": median_text([each.plain[0] for each in reading.found]),
            }
        elif figure.id == "A2":
            there.prepare_writing()
            [writing] = self._alternate({name: Unit(lambda number: there.write(count))}).values()
            _keep(figure, writing, lambda each: each.ratio)
            figure.details = {
                "tasks/s": median_text([each.per_s for each in writing.found]),
                "bare inserts/s": median_text([each.bare[0] for each in writing.found]),
            }
        else:
            there.prepare_moving()
            [moving] = self._alternate({name: Unit(lambda number: there.move(count // 8))}).values()
            _keep(figure, moving, lambda each: each.ratio)
            figure.details = {
                "among few": median_text([each.short_ms for each in moving.found], "{:.2f} ms"),
                "among many": median_text([each.long_ms for each in moving.found], "{:.2f} ms"),
            }

    # --- D5, M1, S1 --------------------------------------------------------------------------------------------------

    def _fan_out(self) -> Figure:
        what = f"one event to {fanout.HOOKS:,} webhooks, against as many single ones"
        figure = Figure("D5", what, "x", "at most", 1.2)
        try:
            place = Place(self._folder / "D5", self._database_url())
            with fanout.Crowd(place, self._receiver, self._core) as crowd:
                [kept] = self._alternate({"D5": Unit(crowd.measure)}).values()
            _keep(figure, kept, lambda each: each.one / each.singles)
            figure.details = {
                "one event": median_text([each.one for each in kept.found], "{:.2f} s"),
                "singles": median_text([each.singles for each in kept.found], "{:.2f} s"),
            }
        except CannotMeasure as error:
            figure.trouble = str(error)
        return figure

    def _idle(self) -> Iterator[Figure]:
        memory = Figure("M1", "memory of an idle server (resident)", "MiB", "at most", 120.0)
        start = Figure("S1", "from `workhook serve` on an empty folder to the first 200", "s", "at most", 2.0)
        try:
            unit = Unit(lambda number: idle.measure(self._folder / f"idle{number}", self._core))
            [kept] = self._alternate({"M1, S1": unit}).values()
            _keep(memory, kept, lambda each: each.idle_mib)
            _keep(start, kept, lambda each: each.seconds)
        except CannotMeasure as error:
            memory.trouble = start.trouble = str(error)
        yield from (memory, start)


def _keep(figure: Figure, kept: Kept[T], value: Callable[[T], float]) -> None:
    figure.rounds = [value(each) for each in kept.found]
    figure.noise, figure.made = kept.noise, kept.made


def _tell_drain(figure: Figure, kept: Kept[drain.Round]) -> None:
    _keep(figure, kept, lambda each: each.ratio)
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
