"""D3: from the moment that the client has read the 202 until the receiver has the event, against a bare POST."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Self

import uvloop

from bench import world
from bench.client import Pool, closed_loop, open_loop, post
from bench.databases import Place
from bench.processes import CannotMeasure, workhook
from bench.remote import Receiver

WORKERS = 64
SHARE = 0.25  # of the highest rate


@dataclass
class Spread:
    """Milliseconds."""

    p50: float
    p99: float


@dataclass
class Latency:
    """One round. `per_s`: the rate at which it was measured."""

    published: Spread
    bare: Spread
    per_s: float


class Publisher:
    """`serve` with its worker on a core; publishes to it and watches the receiver. A context manager."""

    def __init__(
        self, place: Place, receiver: Receiver, core: int, *,
        repositories: int = world.REPOSITORIES, hooks: int = 1, hanging: int = 0,
    ) -> None:  # fmt: skip
        self.receiver, self._hanging = receiver, hanging
        self.world = world.make_world(place, receiver.url, repositories=repositories, hooks=hooks, hanging=hanging)
        self.process = workhook("serve", place.folder, place.settings, core, "--port", "0")
        self.url = self.process.wait_for_line("workhook: listening on ").split()[-1]
        self._paths = [f"/repos/{name}/events" for name in self.world.repositories]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def request(self, mark: int) -> bytes:
        body = b'{"event":"push","payload":' + world.body(mark) + b"}"
        return post(self._paths[mark % len(self._paths)], body, self.world.token)

    def publish(self, first: int, count: int, per_s: float | None) -> dict[int, float]:
        """Publish marked events at a rate, or as fast as it goes; answers when each 202 was read.

        Raises `CannotMeasure` for any other answer.
        """
        requests = [self.request(first + number) for number in range(count)]
        read: dict[int, float] = {}

        async def run() -> None:
            pool = Pool(self.url)

            async def send(number: int) -> None:
                status, read[first + number] = await pool.request(requests[number])
                if status != 202:
                    raise CannotMeasure(f"the server answered {status} to a publish")

            await (closed_loop(send, count, WORKERS) if per_s is None else open_loop(send, count, per_s))
            pool.close()

        uvloop.run(run())
        return read

    def hangs(self, mark: int) -> bool:
        """Whether it goes to a receiver that never answers."""
        return mark % len(self._paths) < self._hanging

    def highest_rate(self, first: int, count: int) -> float:
        """Events a second, from the first publish to the last arrival."""
        self.receiver.reset()
        started = time.monotonic()
        self.publish(first, count, None)
        self.receiver.wait_for(count, 60)
        return count / (time.monotonic() - started)


def measure(publisher: Publisher, first: int, count: int, highest: float) -> Latency:
    """One round at a quarter of the highest rate."""
    per_s = highest * SHARE
    receiver = publisher.receiver
    receiver.reset()
    read = publisher.publish(first, count, per_s)
    receiver.wait_for(count, 60)
    arrived = receiver.marks()
    published = [(arrived[mark] - at) * 1000 for mark, at in read.items()]
    return Latency(_spread(published), _spread(_bare(receiver, count, per_s)), per_s)


def p99_published(publisher: Publisher, first: int, count: int, per_s: float) -> float:
    """Milliseconds, of what goes to receivers that answer."""
    publisher.receiver.reset()
    read = {mark: at for mark, at in publisher.publish(first, count, per_s).items() if not publisher.hangs(mark)}
    publisher.receiver.wait_for(len(read), 60)
    arrived = publisher.receiver.marks()
    return _spread([(arrived[mark] - at) * 1000 for mark, at in read.items()]).p99


def _bare(receiver: Receiver, count: int, per_s: float) -> list[float]:
    requests = [post("/bare", world.body(number)) for number in range(count)]
    sent: dict[int, float] = {}

    async def run() -> None:
        pool = Pool(receiver.url)

        async def send(number: int) -> None:
            sent[number] = time.monotonic()
            await pool.request(requests[number])

        await open_loop(send, count, per_s)
        pool.close()

    receiver.reset()
    uvloop.run(run())
    arrived = receiver.marks()
    return [(arrived[number] - at) * 1000 for number, at in sent.items()]


def _spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), statistics.quantiles(values, n=100)[-1])
