"""How far a command has come, on standard error: a bar on a terminal, else a line for each stage that is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from workhook.core.terminal import unguarded, visible

Progress = Callable[[str, int, int], None]
"""Gets what is being done, how much of it is done, and how much there is."""


@contextmanager
def show_progress() -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield _lines
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(file=unguarded(sys.stderr)), transient=True) as bars:
        known: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(escape(visible(what, keep="")), total=total)
            bars.update(known[what], completed=done, total=total)

        yield show


def _lines(what: str, done: int, total: int) -> None:
    if done == total and total:
        click.echo(f"workhook: {what}: {total:,}", err=True)
