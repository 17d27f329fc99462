"""M1 after an hour at half rate: `python -m bench soak` watches the memory of a server that delivers all the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from bench.databases import Place
from bench.latency import Publisher
from bench.remote import Receiver
from bench.report import write_json

BURST_S = 10.0
SHARE = 0.5  # of the highest rate
PROBE = 2_000  # events that find the highest rate
Samples = list[tuple[float, float]]
Tell = Callable[[float, float, int], object]

GROWTH_MIB = 5.0  # from the end of the first quarter to the end: more is growth


def soak(console: Console, folder: Path, core: int, rest: int, minutes: float) -> bool:
    """Answers whether memory stayed level; writes `soak-<date>.json`. Raises `CannotMeasure`."""
    with ExitStack() as stack:
        receiver = Receiver(rest)
        stack.callback(receiver.close)
        publisher = stack.enter_context(Publisher(Place(folder / "soak", None), receiver, core))

        def tell(elapsed: float, mib: float, published: int) -> None:
            console.print(f"{elapsed:6.0f} s  {mib:6.1f} MiB  {published:,} events")

        per_s, samples = work(publisher, minutes * 60, tell)
    grown = grown_mib(samples)
    path = write_json(None, "soak", {"per_s": per_s, "samples_s_mib": samples, "grown_mib": grown})
    console.print(f"memory grew by {grown:.1f} MiB after the first quarter; {path}")
    return grown <= GROWTH_MIB


def grown_mib(samples: Samples) -> float:
    """From the end of the first quarter to the end: before, it is warming up."""
    return samples[-1][1] - samples[len(samples) // 4][1]


def work(publisher: Publisher, seconds: float, tell: Tell, burst_s: float = BURST_S) -> tuple[float, Samples]:
    """Publish at half of the highest rate. Answers that rate, and seconds and MiB, a sample a burst."""
    receiver = publisher.receiver
    per_s = publisher.highest_rate(0, PROBE) * SHARE
    samples: Samples = []
    started = time.monotonic()
    count = max(1, round(per_s * burst_s))
    first = PROBE
    while (elapsed := time.monotonic() - started) < seconds or len(samples) < 4:
        receiver.reset()
        publisher.publish(first, count, per_s)
        receiver.wait_for(count, 60)
        first += count
        samples.append((elapsed, publisher.process.rss_bytes() / 2**20))
        tell(elapsed, samples[-1][1], first)
    return per_s, samples
