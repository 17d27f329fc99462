"""How far a command has come, on standard error: a bar on a terminal, else few lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from workhook.core.text import unguarded, visible

Progress = Callable[[str, int, int], None]
"""Gets what is being done, how much of it is done, and how much there is."""

LINE_EVERY_S = 10.0


@contextmanager
def show_progress() -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield ProgressLines()
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


class ProgressLines:
    """For pipes and logs: one line when a stage is done, and one every `LINE_EVERY_S` seconds until then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}
        self._done = set[str]()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what in self._done or not total:
            return
        now = self._clock()
        if done >= total:
            self._done.add(what)
            click.echo(f"workhook: {what}: {total:,}", err=True)
        elif now >= self._next.setdefault(what, now + LINE_EVERY_S):
            self._next[what] = now + LINE_EVERY_S
            click.echo(f"workhook: {what}: {done:,} of {total:,}", err=True)
