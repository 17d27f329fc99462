"""D1 and D2: a backlog is drained, against a bare loop that posts the same bytes before and after."""

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
    """One round: deliveries a second from the first arrival to the last commit, and CPU microseconds a delivery."""

    per_s: float
    worker_cpu_us: float
    postgres_cpu_us: float | None


class Drain:
    """A database with a world to drain; `command` is what delivers: `worker`, or `serve` with the worker inside."""

    def __init__(self, place: Place, receiver: Receiver, core: int, postgres: Postgres | None) -> None:
        self._place, self._receiver, self._core, self._postgres = place, receiver, core, postgres
        self._world = world.make_world(place, receiver.url)

    def prepare(self, count: int) -> None:
        """The backlog of the next round."""
        world.fill(self._place, self._world, count)

    def run(self, count: int) -> Drained:
        """Raises `CannotMeasure` if not every event was delivered and recorded."""
        self._receiver.reset()
        return asyncio.run(self._drain(count))

    async def _drain(self, count: int) -> Drained:
        async with Books(self._place) as books:
            process = self._start()
            try:
                self._receiver.wait_for(1, 30, lambda: _must_live(process))
                cpu, postgres_cpu = process.cpu_s(), self._postgres_cpu()
                first_s = self._receiver.wait_for(count, 60 + count / 200, lambda: _must_live(process))
                await books.wait_until_done()
                seconds = time.monotonic() - first_s
                cpu, postgres_cpu = process.cpu_s() - cpu, self._postgres_cpu() - postgres_cpu
            finally:
                process.stop()
            if (recorded := await books.recorded()) != count:
                raise CannotMeasure(f"{recorded} of {count} deliveries were recorded as successes")
        per_delivery = 1e6 / count
        return Drained(count / seconds, cpu * per_delivery, postgres_cpu * per_delivery if self._postgres else None)

    def _start(self) -> Process:
        if self._postgres is not None:
            return workhook("worker", self._place.folder, self._place.settings, self._core)
        return workhook("serve", self._place.folder, self._place.settings, self._core, "--port", "0")

    def _postgres_cpu(self) -> float:
        return self._postgres.cpu_s() if self._postgres else 0.0


def _must_live(process: Process) -> None:
    if process.info.status() == psutil.STATUS_ZOMBIE or process.ended():
        raise CannotMeasure("it ended: " + "\n".join(process.output[-15:]))


@dataclass
class Bare:
    """One run of the bare loop."""

    per_s: float
    cpu_us: float


@dataclass
class Round:
    """A drained backlog, with the bare loop before and after it."""

    before: Bare
    drained: Drained
    after: Bare

    @property
    def bare_per_s(self) -> float:
        return (self.before.per_s + self.after.per_s) / 2

    @property
    def ratio(self) -> float:
        return self.drained.per_s / self.bare_per_s


def bare(receiver: Receiver, requests: Path, core: int, count: int) -> Bare:
    line = run_module("bench.bare", [f"{receiver.url}/bare", str(requests), str(count), str(CONNECTIONS)], core)
    told = json.loads(line)
    return Bare(told["count"] / told["seconds"], told["cpu_s"] * 1e6 / told["count"])
