"""`python -m bench` measures the figures and prints them.

`python -m bench soak` watches memory and descriptors for an hour. `python -m bench lists` fills a database and measures
every list endpoint of the API with all of its filters and sort orders.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import lists, report
from bench.databases import Place, Postgres
from bench.figures import Figure
from bench.filling.plan import LEAST, MOST
from bench.processes import CannotMeasure, cores
from bench.run import IDS, Run
from bench.shared import Plan, Shared
from bench.soak import soak
from workhook.core import log


def _new_folder(text: str) -> Path:
    if Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text} is already there; name a new folder")
    return Path(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["soak", "lists"], help="instead of the figures")
    parser.add_argument("--only", metavar="IDS", help=f"figures, separated by commas: {','.join(IDS)}")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds a figure (default 5)")
    parser.add_argument("--quick", action="store_true", help="short rounds, to see that everything runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the JSON goes (default bench-<date>.json)")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to soak (default 60)")
    parser.add_argument("--rows", type=int, default=100_000, metavar="N", help="deliveries behind the lists")
    parser.add_argument("--times", type=int, default=20, metavar="N", help="how often each list is requested")
    parser.add_argument("--postgresql", action="store_true", help="soak or lists on PostgreSQL, not on SQLite")
    parser.add_argument("--keep", type=_new_folder, metavar="DIR", help="new folder for the data, which is not deleted")
    found = parser.parse_args()
    found.only = IDS if found.only is None else tuple(found.only.upper().split(","))
    if unknown := set(found.only) - set(IDS):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}; there are {', '.join(IDS)}")
    if (found.rounds is not None and found.rounds < 1) or found.times < 1:
        parser.error("at least one round, and one time")
    if not LEAST <= found.rows <= MOST:
        parser.error(f"--rows takes a number from {LEAST:,} to {MOST:,}")
    return found


def _measure(console: Console, arguments: argparse.Namespace, folder: Path) -> int:
    plan = Plan.of(arguments.only, arguments.rounds, quick=arguments.quick)
    figures: list[Figure] = []
    with ExitStack() as stack:
        progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console)
        with progress:
            task = progress.add_task("starting")
            shared = Shared(plan, folder, lambda text: progress.update(task, description=text), stack)
            figures.extend(Run(shared).figures())
            progress.update(task, description="done")
        machine = shared.machine()
    report.show(console, figures, machine, quick=plan.quick)
    found = report.as_json(figures, machine, quick=plan.quick)
    console.print(f"written to {report.write_json(arguments.json, 'bench', found)}")
    return 1 if any(figure.trouble for figure in figures) else 0


def _run_command(console: Console, arguments: argparse.Namespace, folder: Path) -> bool:
    core, rest = cores()
    os.sched_setaffinity(0, {rest})
    with ExitStack() as stack:
        url = None
        if arguments.postgresql:
            postgres = Postgres(folder / "postgres")
            stack.callback(postgres.close)
            url = postgres.new()
        place = Place(folder / arguments.command, url)
        if arguments.command == "soak":
            return soak(console, place, core, rest, arguments.minutes)
        return lists.run(console, place, core, arguments.rows, arguments.times)


def main() -> int:
    """Run the command and return its exit status: 1 if something could not be measured.

    A missed target is a result, not an error.
    """
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the receiver and PostgreSQL on exit
    log.configure("warning")
    console = Console()
    with ExitStack() as stack:
        folder = arguments.keep
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="workhook-bench-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(temporary))
        try:
            if arguments.command is None:
                return _measure(console, arguments, folder)
            return 0 if _run_command(console, arguments, folder) else 1
        except CannotMeasure as error:
            console.print(f"could not be measured: {error}", style="red", markup=False)
            return 1


if __name__ == "__main__":
    sys.exit(main())
