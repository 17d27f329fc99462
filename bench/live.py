"""D11, D12, D13: what an event costs while events come in, in CPU of the server, its worker and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

import uvloop

from bench import world
from bench.client import Pool, closed_loop, open_loop, post
from bench.databases import Place, Postgres
from bench.drain import Bare
from bench.processes import CannotMeasure, tree_cpu_s, workhook
from bench.remote import Books, Receiver

PUBLISHERS = 16
SEVERAL = 8  # endpoints
SLOWLY_PER_S = 25.0
WARM_UP = 200


@dataclass
class Live:
    """One round: CPU microseconds an event, of the processes that serve and deliver, and of the database."""

    bare: Bare
    server_us: float
    database_us: float

    @property
    def ratio(self) -> float:
        """How many bare posts an event costs."""
        return (self.server_us + self.database_us) / self.bare.cpu_us

    def further(self, alone: Live, number: int) -> Live:
        """What each further endpoint costs, of so many more than `alone` had."""
        server_us, database_us = self.server_us - alone.server_us, self.database_us - alone.database_us
        return Live(self.bare, server_us / number, database_us / number)


class Publishing:
    """`serve` with its worker on a core, and repositories whose webhooks get what is published. A context manager.

    `workers`: so many processes deliver beside it, on the same core, and it does not.
    """

    def __init__(
        self, place: Place, receiver: Receiver, core: int, postgres: Postgres | None, hooks: int, *,
        repositories: int = 1, workers: int = 0,
    ) -> None:  # fmt: skip
        self._place, self._receiver, self._postgres, self._hooks = place, receiver, postgres, hooks
        self._world = world.make_world(place, receiver.url, repositories=repositories, hooks=hooks)
        alone = ("--no-worker",) if workers else ()
        server = workhook("serve", place.folder, place.settings, core, "--port", "0", *alone)
        self._processes = [server]
        self._url = server.wait_for_line("workhook: listening on ").split()[-1]
        self._processes += [workhook("worker", place.folder, place.settings, core) for _ in range(workers)]
        self._repositories = list(self._world.repositories)
        self._published = 0

    def __enter__(self) -> Self:
        self._publish(WARM_UP, None)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            each.stop()

    def measure(self, bare: Bare, count: int, *, slowly: bool = False) -> Live:
        """Publish so many events, by `PUBLISHERS` one after the other or slowly at a rate, until all is recorded."""
        server, database = self._cpu()
        self._publish(count, SLOWLY_PER_S if slowly else None)
        server_after, database_after = self._cpu()
        each = 1e6 / count
        return Live(bare, (server_after - server) * each, (database_after - database) * each)

    def _cpu(self) -> tuple[float, float]:
        """The processes with those that they started; seconds."""
        own = sum(tree_cpu_s(each.info) for each in self._processes)
        return own, self._postgres.cpu_s() if self._postgres else 0.0

    def _publish(self, count: int, per_s: float | None) -> None:
        self._receiver.reset()
        requests = [self._request(self._published + number) for number in range(count)]

        async def run() -> None:
            pool = Pool(self._url)

            async def send(number: int) -> None:
                status, _ = await pool.request(requests[number])
                if status != 202:
                    raise CannotMeasure(f"the server answered {status} to a publish")

            await (closed_loop(send, count, PUBLISHERS) if per_s is None else open_loop(send, count, per_s))
            pool.close()

        uvloop.run(run())
        self._published += count
        self._receiver.wait_for(count * self._hooks, 60)
        asyncio.run(self._wait_until_recorded(self._published * self._hooks))

    async def _wait_until_recorded(self, expected: int) -> None:
        """Raises `CannotMeasure` if there are more or less records of successes than there were deliveries."""
        async with Books(self._place) as books:
            await books.wait_until_done()
            if (recorded := await books.recorded()) != expected:
                raise CannotMeasure(f"{recorded} of {expected} deliveries were recorded as successes")

    def _request(self, mark: int) -> bytes:
        body = b'{"event":"push","payload":' + world.body(mark) + b"}"
        return post(f"/repos/{self._repositories[mark % len(self._repositories)]}/events", body, self._world.token)
