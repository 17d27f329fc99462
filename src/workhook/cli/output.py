"""Output for people and scripts: sentences, tables, JSON, errors and progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from workhook.cli.error_messages import CliError, Misuse
from workhook.core import json as core_json
from workhook.core import log
from workhook.core.clock import to_millis_text
from workhook.core.text import underlying_stream, visible, visible_json


def print_json(data: object) -> None:
    click.echo(visible_json(core_json.encode_text(data)))


_ANY_WIDTH = 10_000


def print_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], narrow: Sequence[Mapping[str, object]]
) -> None:
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    # Without a terminal, nothing is cut or wrapped: each row is one line.
    stream = underlying_stream(sys.stdout)  # keeps the table's own bold formatting; its cells are escaped
    console = Console(file=stream) if sys.stdout.isatty() else Console(file=stream, width=_ANY_WIDTH)
    for shown, names in ((rows, columns), (narrow, list(narrow[0]) if narrow else [])):
        table = Table(*(name.replace("_", " ") for name in names), box=None, pad_edge=False, header_style="bold")
        for row in shown:
            table.add_row(*(Text(cell(row[name])) for name in names))
        width = Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table).maximum
        if shown and width <= console.width:
            console.print(table)
            return
    # IDs and times must not be cut.
    click.echo("\n\n".join(to_lines({name: row[name] for name in columns}) for row in rows))


def to_lines(data: Mapping[str, object], to_text: Callable[[object], str] | None = None) -> str:
    """Return lines for people, each with a name and a value."""
    width = max(map(len, data))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {(to_text or cell)(value)}" for name, value in data.items())


def cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(cell, value)) or "-"
    if isinstance(value, dict):  # permissions
        return ", ".join(f"{cell(name)}={cell(level)}" for name, level in sorted(value.items())) or "none"
    return "-" if value is None else visible(str(value), keep="")


def format_time(at_ms: int | None) -> str | None:
    """Return a time, in milliseconds since the epoch, in the API's format."""
    return None if at_ms is None else to_millis_text(at_ms)


def complain(lines: Sequence[str], *, as_log: bool = False) -> None:
    """Print an error and its remedy to standard error. `as_log` prints one line of the JSON log."""
    if as_log:
        log.configure(style="json")
        remedy = " ".join(line.strip() for line in lines[1:])
        log.failure(error=lines[0], **{"remedy": remedy} if remedy else {})
        return
    click.echo("\n".join([f"workhook: {lines[0]}", *lines[1:]]), err=True)


def confirm_deletion(login: str, complaint: Sequence[str] = ()) -> None:
    """Prompt for the login before permanently deleting an account. `complaint` is printed first. Raises `CliError`."""
    if not sys.stdin.isatty():
        raise Misuse("the deletion cannot be confirmed without a terminal.", "Use --yes.")
    if complaint:
        complain(complaint)
    if click.prompt(f"Type {login} to delete it permanently", default="") != login:
        raise CliError("the login does not match.", "Nothing was deleted.")


@contextmanager
def interrupted(advice: str) -> Iterator[None]:
    """Explain the state of unfinished work if the command is interrupted."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            complain(["interrupted.", advice])
        raise


def write_private(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can read, and sync it to disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


Progress = Callable[[str, int, int], None]
"""Receives the current stage, the amount done, and the total."""

LINE_EVERY_S = 10.0


@contextmanager
def show_progress(*, lines: bool = True) -> Iterator[Progress]:
    """Show progress on standard error: a bar on a terminal, otherwise a few lines, or nothing without `lines`."""
    if not sys.stderr.isatty():
        yield ProgressLines() if lines else lambda what, done, total: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(file=underlying_stream(sys.stderr)), transient=True) as bars:
        known: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(escape(visible(what, keep="")), total=total)
            bars.update(known[what], completed=done, total=total)

        yield show


class ProgressLines:
    """Progress for pipes and logs: a line when a stage is done, and one every `LINE_EVERY_S` seconds until then."""

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
