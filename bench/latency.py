"""D3: latency from the client reading the 202 to the receiver having the event, compared with a bare POST."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Self

from bench import world
from bench.client import post, send_all
from bench.databases import Place
from bench.figures import percentile_99
from bench.processes import workhook
from bench.remote import Receiver

WORKERS = 64
SHARE = 0.25  # of the maximum rate


@dataclass
class Spread:
    """Latencies in milliseconds."""

    p50: float
    p99: float


@dataclass
class Latency:
    """One round. `per_s` is the rate of the measurement."""

    published: Spread
    bare: Spread
    per_s: float


class Publisher:
    """A context manager that runs `serve` on a core, publishes to it and watches the receiver.

    `workers` is the number of additional delivering processes on the same core. With none, the server delivers.
    """

    def __init__(
        self, place: Place, receiver: Receiver, core: int, *,
        repositories: int = world.REPOSITORIES, hooks: int = 1, hanging: int = 0, workers: int = 0,
    ) -> None:  # fmt: skip
        self.receiver, self._hanging = receiver, hanging
        self.world = world.make_world(place, receiver.url, repositories=repositories, hooks=hooks, hanging=hanging)
        alone = ("--no-worker",) if workers else ()
        self.process = workhook("serve", place.folder, place.settings, core, "--port", "0", *alone)
        self.url = self.process.wait_for_url()
        self.processes = [self.process]
        self.processes += [workhook("worker", place.folder, place.settings, core) for _ in range(workers)]
        self._paths = [f"/repos/{name}/events" for name in self.world.repositories]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.processes:
            each.stop()

    def request(self, mark: int) -> bytes:
        body = b'{"event":"push","payload":' + world.body(mark) + b"}"
        return post(self._paths[mark % len(self._paths)], body, self.world.token)

    def publish(self, first: int, count: int, per_s: float | None = None, at_once: int = WORKERS) -> dict[int, float]:
        """Publish marked events, at a rate or as fast as possible. Returns when each 202 was read.

        Raises `CannotMeasure` for any other response.
        """
        requests = [self.request(first + number) for number in range(count)]
        sent = send_all(self.url, requests, expected=202, at_once=at_once, per_s=per_s)
        return {first + number: each.read_s for number, each in enumerate(sent)}

    def hangs(self, mark: int) -> bool:
        """Return whether the event is sent to a receiver that never responds."""
        return mark % len(self._paths) < self._hanging

    def highest_rate(self, first: int, count: int) -> float:
        """Return events per second from the first publish to the last arrival."""
        self.receiver.reset()
        started = time.monotonic()
        self.publish(first, count)
        self.receiver.wait_for(count, 60)
        return count / (time.monotonic() - started)


def measure(publisher: Publisher, first: int, count: int, highest: float) -> Latency:
    """Measure one round at a quarter of the maximum rate."""
    per_s = highest * SHARE
    receiver = publisher.receiver
    receiver.reset()
    read = publisher.publish(first, count, per_s)
    receiver.wait_for(count, 60)
    arrived = receiver.marks()
    published = [(arrived[mark] - at) * 1000 for mark, at in read.items()]
    return Latency(_spread(published), _spread(_bare(receiver, count, per_s)), per_s)


def p99_published(publisher: Publisher, first: int, count: int, per_s: float) -> float:
    """Return the 99th percentile in milliseconds for receivers that respond."""
    publisher.receiver.reset()
    read = {mark: at for mark, at in publisher.publish(first, count, per_s).items() if not publisher.hangs(mark)}
    publisher.receiver.wait_for(len(read), 60)
    arrived = publisher.receiver.marks()
    return _spread([(arrived[mark] - at) * 1000 for mark, at in read.items()]).p99


def _bare(receiver: Receiver, count: int, per_s: float) -> list[float]:
    requests = [post("/bare", world.body(number)) for number in range(count)]
    receiver.reset()
    sent = send_all(receiver.url, requests, expected=200, per_s=per_s)
    arrived = receiver.marks()
    return [(arrived[number] - each.sent_s) * 1000 for number, each in enumerate(sent)]


def _spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), percentile_99(values))
