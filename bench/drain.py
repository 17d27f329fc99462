"""D1 and D2: draining a backlog, compared with a bare loop that posts the same bytes before and after."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench import world
from bench.databases import Place, Postgres
from bench.processes import CannotMeasure, Process, run_module, workhook
from bench.remote import Books, Receiver

CONNECTIONS = 64


@dataclass
class Drained:
    """One round: deliveries per second from the first arrival to the last commit, and CPU microseconds per delivery."""

    per_s: float
    worker_cpu_us: float
    postgres_cpu_us: float | None

    @property
    def cpu_us(self) -> float:
        return self.worker_cpu_us + (self.postgres_cpu_us or 0.0)


class Drain:
    """A database with a backlog to drain: by workers on PostgreSQL, or by `serve` with its built-in worker on SQLite.

    With `stored`, deliveries of earlier rounds and all other rows are kept.
    """

    def __init__(
        self, place: Place, receiver: Receiver, core: int, postgres: Postgres | None, *,
        repositories: int = world.REPOSITORIES, hooks: int = 1, workers: int = 1, stored: bool = False,
    ) -> None:  # fmt: skip
        self._place, self._receiver, self._core, self._postgres = place, receiver, core, postgres
        self._workers, self._stored, self._after = workers, stored, 0
        self._world = world.make_world(place, receiver.url, repositories=repositories, hooks=hooks)

    def prepare(self, count: int) -> None:
        """Create the backlog of the next round."""
        if self._stored:
            self._after = world.add(self._place, self._world, count)
        else:
            world.fill(self._place, self._world, count)

    def run(self, count: int) -> Drained:
        """Drain the backlog. Raises `CannotMeasure` unless every event was delivered and recorded."""
        self._receiver.reset()
        return asyncio.run(self._drain(count))

    async def _drain(self, count: int) -> Drained:
        async with Books(self._place) as books:
            processes = self._start()
            try:
                self._receiver.wait_for(1, 60, lambda: _must_live(processes))
                cpu, postgres_cpu = _cpu_of(processes), self._postgres_cpu()
                first_s = self._receiver.wait_for(count, 60 + count / 200, lambda: _must_live(processes))
                await books.wait_until_done()
                seconds = time.monotonic() - first_s
                cpu, postgres_cpu = _cpu_of(processes) - cpu, self._postgres_cpu() - postgres_cpu
            finally:
                for process in processes:
                    process.stop()
            await books.require(count, self._after)
        per_delivery = 1e6 / count
        return Drained(count / seconds, cpu * per_delivery, postgres_cpu * per_delivery if self._postgres else None)

    def _start(self) -> list[Process]:
        place = self._place
        if self._postgres is None:
            return [workhook("serve", place.folder, place.settings, self._core, "--port", "0")]
        return [workhook("worker", place.folder, place.settings, self._core) for _ in range(self._workers)]

    def _postgres_cpu(self) -> float:
        return self._postgres.cpu_s() if self._postgres else 0.0


def _cpu_of(processes: list[Process]) -> float:
    return sum(each.cpu_s() for each in processes)


def _must_live(processes: list[Process]) -> None:
    for process in processes:
        if process.info.status() == psutil.STATUS_ZOMBIE or process.ended():
            raise CannotMeasure("it ended: " + "\n".join(process.output[-15:]))


@dataclass
class Bare:
    """One run of the bare loop."""

    per_s: float
    cpu_us: float


@dataclass
class Round:
    """One drained backlog, with the bare loop before and after it."""

    before: Bare
    drained: Drained
    after: Bare

    @property
    def bare_per_s(self) -> float:
        return (self.before.per_s + self.after.per_s) / 2

    @property
    def ratio(self) -> float:
        return self.drained.per_s / self.bare_per_s


def bare(receiver: Receiver, requests: Path, core: int, count: int, per_s: float | None = None) -> Bare:
    """Run the bare loop, at the rate `per_s` if given, otherwise as fast as possible."""
    paced = [] if per_s is None else [str(per_s)]
    line = run_module("bench.bare", [f"{receiver.url}/bare", str(requests), str(count), str(CONNECTIONS), *paced], core)
    told = json.loads(line)
    return Bare(told["count"] / told["seconds"], told["cpu_s"] * 1e6 / told["count"])
