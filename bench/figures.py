"""A figure: its rounds, their median and spread, and whether it reaches its target."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Literal

from bench.processes import CannotMeasure

Direction = Literal["at least", "at most"]


@dataclass
class Figure:
    """One line of the table. Without rounds it could not be measured, for the reason in `trouble`."""

    id: str
    what: str
    unit: str
    direction: Direction
    target: float
    rounds: list[float] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    noise: list[float] = field(default_factory=list)  # other processes' share of the CPU in each round
    made: int = 0  # number of rounds; the quietest are kept
    trouble: str | None = None
    took_s: float = 0.0  # including preparation; for figures measured together, counted with the first

    @property
    def value(self) -> float | None:
        return statistics.median(self.rounds) if self.rounds else None

    @property
    def reached(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.target if self.direction == "at least" else self.value <= self.target

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "value": self.value, "reached": self.reached}


@contextmanager
def recorded_trouble(*figures: Figure) -> Iterator[None]:
    """Record why figures could not be measured, in those that have no rounds yet."""
    try:
        yield
    except CannotMeasure as error:
        for figure in figures:
            figure.trouble = figure.trouble or (None if figure.rounds else str(error))


def percentile_99(values: list[float]) -> float:
    """Return the 99th percentile, or the maximum of fewer than a hundred values."""
    return max(values) if len(values) < 100 else statistics.quantiles(values, n=100)[-1]


def median_text(values: list[float], pattern: str = "{:,.0f}") -> str:
    """Return the median with minimum and maximum, or a dash if there are no values."""
    if not values:
        return "-"
    numbers = (statistics.median(values), min(values), max(values))
    return "{} ({}…{})".format(*(pattern.format(number) for number in numbers))
