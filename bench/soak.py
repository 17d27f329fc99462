"""M1 after an hour at half rate: `python -m bench soak` watches a server that delivers continuously.

Neither its memory nor its open descriptors may grow once it has warmed up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from rich.console import Console

from bench.databases import Place
from bench.latency import Publisher
from bench.remote import Receiver
from bench.report import write_json

BURST_S = 10.0
SHARE = 0.5  # of the maximum rate
PROBE = 2_000  # events used to find the maximum rate

GROWTH_MIB = 5.0  # from the end of the first quarter to the end; more counts as growth
GROWTH_DESCRIPTORS = 5


class Sample(NamedTuple):
    """The server after a burst: seconds since the start, resident memory, open descriptors, and events so far."""

    seconds: float
    mib: float
    descriptors: int
    published: int


def soak(console: Console, place: Place, core: int, rest: int, minutes: float) -> bool:
    """Run the soak and write `soak-<date>.json`. Returns whether the server stayed level; raises `CannotMeasure`."""
    with ExitStack() as stack:
        receiver = Receiver(rest)
        stack.callback(receiver.close)
        publisher = stack.enter_context(Publisher(place, receiver, core))

        def tell(sample: Sample) -> None:
            console.print(
                f"{sample.seconds:6.0f} s  {sample.mib:6.1f} MiB  {sample.descriptors} descriptors  "
                f"{sample.published:,} events"
            )

        per_s, samples = work(publisher, minutes * 60, tell)
    mib, descriptors = growth(samples)
    result = {"database": place.kind, "per_s": per_s, "grown_mib": mib, "grown_descriptors": descriptors}
    path = write_json(None, "soak", {**result, "samples": [each._asdict() for each in samples]})
    console.print(
        f"{place.kind}, {per_s:,.0f} events a second: after the first quarter, memory grew by {mib:.1f} MiB and "
        f"descriptors by {descriptors}; {path}"
    )
    return mib <= GROWTH_MIB and descriptors <= GROWTH_DESCRIPTORS


def growth(samples: Sequence[Sample]) -> tuple[float, int]:
    """Return the growth in MiB and descriptors from the end of the first quarter, after the warm-up, to the end."""
    warm, last = samples[len(samples) // 4], samples[-1]
    return last.mib - warm.mib, last.descriptors - warm.descriptors


def work(
    publisher: Publisher, seconds: float, tell: Callable[[Sample], object], burst_s: float = BURST_S
) -> tuple[float, list[Sample]]:
    """Publish at half of the maximum rate. Returns that rate, and a sample per burst."""
    receiver = publisher.receiver
    per_s = publisher.highest_rate(0, PROBE) * SHARE
    samples: list[Sample] = []
    started = time.monotonic()
    count = max(1, round(per_s * burst_s))
    first = PROBE
    while (elapsed := time.monotonic() - started) < seconds or len(samples) < 4:
        receiver.reset()
        publisher.publish(first, count, per_s)
        receiver.wait_for(count, 60)
        first += count
        server = publisher.process
        samples.append(Sample(elapsed, server.rss_bytes() / 2**20, server.descriptors(), first))
        tell(samples[-1])
    return per_s, samples
