"""M1 after an hour at half rate: `python -m bench soak` watches the memory of a server that delivers continuously."""

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
SHARE = 0.5  # of the maximum rate
PROBE = 2_000  # events used to find the maximum rate
Samples = list[tuple[float, float]]
Tell = Callable[[float, float, int], object]

GROWTH_MIB = 5.0  # from the end of the first quarter to the end; more counts as growth


def soak(console: Console, folder: Path, core: int, rest: int, minutes: float) -> bool:
    """Run the soak and write `soak-<date>.json`. Returns whether memory stayed level; raises `CannotMeasure`."""
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
    """Return the growth from the end of the first quarter, when warm-up is over, to the end."""
    return samples[-1][1] - samples[len(samples) // 4][1]


def work(publisher: Publisher, seconds: float, tell: Tell, burst_s: float = BURST_S) -> tuple[float, Samples]:
    """Publish at half of the maximum rate. Returns that rate, and a sample of seconds and MiB per burst."""
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
