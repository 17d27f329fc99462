"""D11, D12, D13: the cost of an event under continuous load, in CPU of the server, its worker and PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from bench.databases import Place, Postgres
from bench.drain import Bare
from bench.latency import Publisher
from bench.processes import tree_cpu_s
from bench.remote import Books, Receiver

PUBLISHERS = 16
SEVERAL = 8  # endpoints
SLOWLY_PER_S = 25.0
WARM_UP = 200


@dataclass
class Live:
    """One round: CPU microseconds per event, of the processes that serve and deliver and of the database."""

    bare: Bare
    server_us: float
    database_us: float

    @property
    def ratio(self) -> float:
        """Return the cost of an event in bare posts."""
        return (self.server_us + self.database_us) / self.bare.cpu_us

    def further(self, alone: Live, number: int) -> Live:
        """Return the cost of each additional endpoint, given a run with `number` more of them than `alone`."""
        server_us, database_us = self.server_us - alone.server_us, self.database_us - alone.database_us
        return Live(self.bare, server_us / number, database_us / number)


class Publishing(Publisher):
    """A publisher that counts the CPU of all processes until every delivery is recorded."""

    def __init__(
        self, place: Place, receiver: Receiver, core: int, postgres: Postgres | None, hooks: int, *,
        repositories: int = 1, workers: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(place, receiver, core, repositories=repositories, hooks=hooks, workers=workers)
        self._place, self._postgres, self._hooks, self._published = place, postgres, hooks, 0

    def __enter__(self) -> Self:
        try:
            self._deliver(WARM_UP, None)
        except BaseException:
            self.__exit__()
            raise
        return self

    def measure(self, bare: Bare, count: int, *, slowly: bool = False) -> Live:
        """Publish `count` events until all are recorded: with `PUBLISHERS` in parallel, or slowly at a fixed rate."""
        server, database = self._cpu()
        self._deliver(count, SLOWLY_PER_S if slowly else None)
        server_after, database_after = self._cpu()
        each = 1e6 / count
        return Live(bare, (server_after - server) * each, (database_after - database) * each)

    def _cpu(self) -> tuple[float, float]:
        """Return CPU seconds of the processes, including their children, and of PostgreSQL."""
        own = sum(tree_cpu_s(each.info) for each in self.processes)
        return own, self._postgres.cpu_s() if self._postgres else 0.0

    def _deliver(self, count: int, per_s: float | None) -> None:
        self.receiver.reset()
        self.publish(self._published, count, per_s, PUBLISHERS)
        self._published += count
        self.receiver.wait_for(count * self._hooks, 60)
        Books.wait_for(self._place, self._published * self._hooks)
