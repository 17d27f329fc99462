"""The table and the JSON of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, median_text

QUICK = "quick: short rounds, not figures to quote"


def show(console: Console, figures: Sequence[Figure], machine: Mapping[str, str], *, quick: bool) -> None:
    """Print the machine's facts, the figures, and the figures that could not be measured."""
    facts = Table(title="Machine" + (f" ({QUICK})" if quick else ""), show_header=False, title_justify="left")
    for name, value in machine.items():
        facts.add_row(name, value)
    console.print(facts)
    table = Table(title="Figures", title_justify="left")
    for heading in ("id", "what", "median", "spread", "target", "result"):
        table.add_column(heading, overflow="fold")
    for figure in figures:
        table.add_row(*_row(figure))
    console.print(table)
    for figure in figures:
        beside = "; ".join(f"{name} {value}" for name, value in _beside(figure))
        console.print(f"{figure.id} {figure.what}: {beside}", markup=False, highlight=False)
        if figure.trouble is not None:
            console.print(f"{figure.id} could not be measured: {figure.trouble}", style="red", markup=False)


def _row(figure: Figure) -> tuple[str, ...]:
    unit = figure.unit if figure.unit == "x" else f" {figure.unit}"
    sign = "≥" if figure.direction == "at least" else "≤"
    target = f"{sign} {figure.target:g}{unit}"
    if figure.value is None:
        return figure.id, figure.what, "-", "-", target, "[red]not measured[/]"
    spread = f"{min(figure.rounds):.2f}…{max(figure.rounds):.2f}"
    verdict = "[green]reached[/]" if figure.reached else "[yellow]missed[/]"
    return figure.id, figure.what, f"{figure.value:.2f}{unit}", spread, target, verdict


def _beside(figure: Figure) -> list[tuple[str, str]]:
    told = [("rounds", f"{len(figure.rounds)} of {figure.made}"), ("took", f"{figure.took_s:.0f} s")]
    told += figure.details.items()
    if figure.noise:
        told.append(("others' CPU", median_text(figure.noise, "{:.0%}")))
    return told


def as_json(figures: Sequence[Figure], machine: Mapping[str, str], *, quick: bool) -> dict[str, object]:
    return {"quick": quick, "machine": dict(machine), "figures": [figure.as_json() for figure in figures]}


def write_json(path: Path | None, name: str, found: Mapping[str, object]) -> Path:
    """Write the file and return its path, by default `<name>-<date>.json` in the current folder."""
    now = datetime.now(UTC)
    path = path or Path(f"{name}-{now:%Y-%m-%d-%H%M%S}.json")
    told = {"at": now.isoformat(timespec="seconds"), **found}
    path.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
