"""Alternating rounds, of which the quietest count: selected by the activity of other processes, never by result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import psutil

from bench import machine

T = TypeVar("T")
QUIET_WAIT_S = 20.0  # how long a round waits for other processes to leave the cores idle
NOISY = 0.10  # other processes' share of the CPU above which a round is repeated
MOST = 3  # at most this many times the requested rounds
REPEAT_S = 120.0  # after this time only the requested rounds are made


@dataclass
class Unit(Generic[T]):
    """The work of a round.

    `measure` is timed; `prepare`, which precedes it, is not. Both receive the round's number.
    """

    measure: Callable[[int], T]
    prepare: Callable[[int], object] = lambda number: None


@dataclass
class Sample(Generic[T]):
    """One round. `noise` is the other processes' share of the CPU during it."""

    noise: float
    found: T


@dataclass
class Kept(Generic[T]):
    """The rounds that count, and the number of rounds made."""

    samples: list[Sample[T]]
    made: int

    @property
    def found(self) -> list[T]:
        return [sample.found for sample in self.samples]

    @property
    def noise(self) -> list[float]:
        return [sample.noise for sample in self.samples]


def alternate(
    units: Mapping[str, Unit[T]], rounds: int, say: Callable[[str], None], postmaster: psutil.Process | None
) -> dict[str, Kept[T]]:
    """Run the units in turn until each has enough quiet rounds or has been repeated often enough."""
    made: dict[str, list[Sample[T]]] = {name: [] for name in units}
    started = time.monotonic()
    for number in range(rounds * MOST):
        if number >= rounds and time.monotonic() - started > REPEAT_S:
            break
        open_units = [name for name, samples in made.items() if _quiet(samples) < rounds]
        for name in open_units:
            say(f"{name}: round {number + 1}, {_quiet(made[name])} of {rounds} quiet so far")
            units[name].prepare(number)
            machine.wait_for_quiet(QUIET_WAIT_S)
            noise = machine.Noise(postmaster)
            found = units[name].measure(number)
            made[name].append(Sample(noise.share(), found))
    return {
        name: Kept(sorted(samples, key=lambda sample: sample.noise)[:rounds], len(samples))
        for name, samples in made.items()
    }


def _quiet(samples: list[Sample[T]]) -> int:
    return sum(sample.noise < NOISY for sample in samples)
