"""Shared by all figures of a run: the plan, the cores, the receiver, PostgreSQL and the folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench import drain, machine, world
from bench.databases import Place, Postgres
from bench.figures import Figure
from bench.processes import cores
from bench.remote import Receiver
from bench.rounds import Kept, Unit, alternate

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """The sizes of a run's measurements.

    `events` is the size of a backlog, `posts` of one run of the bare loop, `published` the events in a round of D3,
    `asked` the requests in a round of A1 or A2, `stored` the additional deliveries in D7, and `at_rest` the webhooks in
    D10, which watches them for `rest_s`. `busy_s` is the duration of M1.
    """

    only: Sequence[str]
    rounds: int
    events: int
    posts: int
    published: int
    asked: int
    stored: int
    at_rest: int
    rest_s: float
    busy_s: float
    quick: bool

    @classmethod
    def of(cls, only: Sequence[str], rounds: int | None, *, quick: bool) -> Plan:
        if quick:
            return cls(only, rounds or 2, 4_000, 4_000, 400, 400, 200_000, 5_000, 5, 20, quick)
        return cls(only, rounds or 5, 20_000, 20_000, 2_000, 4_000, 10_000_000, 100_000, 20, 180, quick)


class Shared:
    """The shared resources. All processes started from here run off the measured core."""

    def __init__(self, plan: Plan, folder: Path, say: Say, stack: ExitStack) -> None:
        self.plan, self.folder, self.say, self._stack = plan, folder, say, stack
        self.core, rest = cores()
        os.sched_setaffinity(0, {rest})  # inherited by all processes started from here
        self.receiver = Receiver(rest)
        stack.callback(self.receiver.close)
        self._postgres: Postgres | None = None
        self._requests = folder / "requests"
        world.presign(self._requests)

    def machine(self) -> dict[str, str]:
        return machine.facts(self.folder, self._postgres.version if self._postgres else None)

    def start_postgres(self) -> Postgres:
        if self._postgres is None:
            self._postgres = Postgres(self.folder / "postgres")
            self._stack.callback(self._postgres.close)
        return self._postgres

    def postgres_of(self, kind: str) -> Postgres | None:
        return None if kind == "SQLite" else self.start_postgres()

    def database_url(self) -> str:
        return self.start_postgres().new()

    def place(self, name: str, kind: str = "PostgreSQL") -> Place:
        """Create a new folder with a new database."""
        return Place(self.folder / f"{name}-{kind}", None if kind == "SQLite" else self.database_url())

    def alternate(self, units: Mapping[str, Unit[T]]) -> dict[str, Kept[T]]:
        return alternate(units, self.plan.rounds, self.say, self._postgres.postmaster if self._postgres else None)

    def one(self, name: str, unit: Unit[T]) -> Kept[T]:
        """Measure the rounds of a single unit."""
        return self.alternate({name: unit})[name]

    def bare(self) -> drain.Bare:
        return drain.bare(self.receiver, self._requests, self.core, self.plan.posts)

    def paced_bare(self, count: int, per_s: float) -> drain.Bare:
        return drain.bare(self.receiver, self._requests, self.core, count, per_s)


def keep(figure: Figure, kept: Kept[T], value: Callable[[T], float]) -> None:
    figure.rounds = [value(each) for each in kept.found]
    figure.noise, figure.made = kept.noise, kept.made
