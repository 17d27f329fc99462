"""M1 after an hour at half rate: `python -m bench soak` watches the memory of a server that delivers all the time."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench.databases import Place
from bench.latency import Publisher
from bench.remote import Receiver

BURST_S = 10.0
SHARE = 0.5  # of the highest rate
PROBE = 2_000  # events that find the highest rate
GROWTH_MIB = 5.0  # from the end of the first quarter to the end: more is growth


def soak(console: Console, folder: Path, core: int, rest: int, minutes: float) -> bool:
    """Answers whether memory stayed level; writes `soak-<date>.json`. Raises `CannotMeasure`."""
    with ExitStack() as stack:
        receiver = Receiver(rest)
        stack.callback(receiver.close)
        publisher = stack.enter_context(Publisher(Place(folder / "soak", None), receiver, core))
        per_s = publisher.highest_rate(0, PROBE) * SHARE
        console.print(f"{per_s:,.0f} events a second for {minutes:g} minutes")
        samples = _publish(console, publisher, receiver, per_s, minutes * 60)
    grown = samples[-1][1] - samples[len(samples) // 4][1]
    path = Path(f"soak-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json")
    path.write_text(json.dumps({"per_s": per_s, "samples_s_mib": samples, "grown_mib": grown}, indent=2) + "\n")
    console.print(f"memory grew by {grown:.1f} MiB after the first quarter; {path}")
    return grown <= GROWTH_MIB


def _publish(
    console: Console, publisher: Publisher, receiver: Receiver, per_s: float, seconds: float
) -> list[tuple[float, float]]:
    """Seconds and MiB, a sample a burst."""
    samples: list[tuple[float, float]] = []
    started = time.monotonic()
    count = max(1, round(per_s * BURST_S))
    first = PROBE
    while (elapsed := time.monotonic() - started) < seconds or len(samples) < 4:
        receiver.reset()
        publisher.publish(first, count, per_s)
        receiver.wait_for(count, 60)
        first += count
        samples.append((elapsed, publisher.process.rss_bytes() / 2**20))
        console.print(f"{elapsed:6.0f} s  {samples[-1][1]:6.1f} MiB  {first:,} events")
    return samples
