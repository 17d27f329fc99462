"""`workhook bench`."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import click

from workhook import bootstrap
from workhook.cli import asking, schema
from workhook.cli.common import Context, command
from workhook.cli.error_messages import FAILED, CliError, Misuse, about, require_postgresql
from workhook.cli.filling import fill, plan
from workhook.cli.options import Option
from workhook.cli.progress import Progress, show_progress
from workhook.core import config, log
from workhook.core.clock import now_ms
from workhook.work.time.timesheets import sums

ROWS_DEFAULT, TIMES_DEFAULT = 100_000, 20

# What makes a database anything but empty. What an extension brought is nobody's.
_TABLES = """SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')"""

_IS_HERE = "SELECT inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8'"


@command(None, "bench", settings=())
async def bench(
    context: Context,
    *,
    rows: Annotated[
        int, Option("N", "Number of deliveries to make. The number of most other rows follows from it.")
    ] = ROWS_DEFAULT,
    database_url: Annotated[
        str | None,
        Option(
            "URL",
            "An empty PostgreSQL database, which is filled and kept. Otherwise a SQLite file is made and removed.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        Option("DIR", "New folder for the data, which stays. With --database-url the rows are in that database."),
    ] = None,
    times: Annotated[int, Option("N", "How often each request is sent.")] = TIMES_DEFAULT,
) -> int:
    """Fill a database of its own with many rows, ask for every list with each of its filters, and print the times.

    Your own data is not touched: WORKHOOK_DATA and WORKHOOK_DATABASE_URL are ignored. Requests that take more than
    100 ms are marked. The exit status is 0 if every request was answered with 200.
    """
    if not plan.LEAST <= rows <= plan.MOST:
        raise Misuse(f"--rows is {rows:,}.", f"It must be a number from {plan.LEAST:,} to {plan.MOST:,}.")
    if times < 1:
        raise Misuse(f"--times is {times}.", "It must be 1 or more.")
    log.configure("error")
    counts = plan.RowCounts.of(rows)
    with _folder(keep) as folder, show_progress() as progress:
        given = "TMPDIR and --keep" if database_url is None else "--database-url"
        with about(context.settings, database_url or f"sqlite:///{folder}/workhook.db", given):
            await _require_room(folder, database_url, counts)
            begun = time.monotonic()
            token, first_hook = await _fill(folder, database_url, counts, progress)
        filled_s = time.monotonic() - begun
        found = await _ask(folder, database_url, counts, token, first_hook, times, progress)
    _answer(context, counts, "sqlite" if database_url is None else "postgresql", filled_s, found)
    return FAILED if any(each.status != 200 for each in found) else 0


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="workhook-bench-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    try:
        keep.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise CliError(f"{keep} is there already.", "Give --keep another name: nothing is overwritten.") from None
    yield keep.absolute()


async def _require_room(folder: Path, url: str | None, counts: plan.RowCounts) -> None:
    """Raises `CliError` for a disk that is too small, and for a database that is anything but empty."""
    place: Path | None = folder
    if url is not None:
        place = await _require_empty(url)
    needed = counts.bytes("sqlite" if url is None else "postgresql")
    if place is None:
        click.echo(f"workhook: about {needed / 2**30:,.1f} GiB will be needed where the database is", err=True)
    elif (free := shutil.disk_usage(place).free) < needed:
        message = f"{place} has {free / 2**30:,.1f} GiB free, and about {needed / 2**30:,.1f} GiB are needed."
        remedy = "Give fewer --rows" + (", or set TMPDIR or --keep to another disk." if url is None else ".")
        raise CliError(message, remedy)


async def _require_empty(url: str) -> Path | None:
    """Where the database's files are, if that is known and here."""
    import asyncpg

    require_postgresql("--database-url", url)
    async with schema.connected(url) as connection:
        if await connection.fetchval(_TABLES):
            remedy = "Make one for this alone (`createdb bench`), and drop it afterwards."
            raise CliError("the database is not empty.", remedy)
        if not await connection.fetchval(_IS_HERE):
            return None
        try:
            return _folder_at(await connection.fetchval("SHOW data_directory"))
        except asyncpg.InsufficientPrivilegeError:
            return None


def _folder_at(path: str) -> Path | None:
    try:
        return Path(path) if Path(path).is_dir() else None
    except PermissionError:  # another user's
        return None


async def _fill(folder: Path, url: str | None, counts: plan.RowCounts, progress: Progress) -> tuple[str, int]:
    """The owner's token, and the id of the first webhook."""
    given = {"data": str(folder), **({} if url is None else {"database_url": url})}
    async with bootstrap.open_services(config.load(given, {})) as services:
        base = await fill.fill(services.database, counts, progress)
        await sums.add_changes(services, now_ms())  # as the chore has done where time has passed
    if url is not None:
        async with schema.connected(url) as connection:
            await connection.execute("VACUUM ANALYZE")  # as autovacuum does it in time
    return base.token, base.params["first_hook"]


async def _ask(
    folder: Path, url: str | None, counts: plan.RowCounts, token: str, first_hook: int, times: int, progress: Progress
) -> list[asking.Measured]:
    every = list(asking.questions(asking.Samples(counts, first_hook)))
    async with asking.serving(folder, {} if url is None else {"database_url": url}) as address:
        return await asyncio.to_thread(asking.measure_all, address, token, every, times, progress)


def _answer(
    context: Context, counts: plan.RowCounts, database: str, filled_s: float, found: Sequence[asking.Measured]
) -> None:
    answers = [each.shown() for each in found]
    if context.as_json:
        data = {"rows": counts.deliveries, "database": database, "filled_s": round(filled_s, 1)}
        context.answer({**data, "slow_ms": asking.SLOW_MS, "answers": answers}, "")
        return
    rows = [{**each, "note": _note(measured)} for each, measured in zip(answers, found, strict=True)]
    context.answer_rows(rows, ("operation", "query", "p50_ms", "p99_ms", "returned", "note"), none="nothing was asked")
    slow = sum(each.slow for each in found)
    context.answer(
        {}, f"\n{counts.deliveries:,} deliveries, {database}, filled in {filled_s:,.0f} s: "
        f"{slow} of {len(found)} questions took more than {asking.SLOW_MS:.0f} ms",
    )  # fmt: skip


def _note(measured: asking.Measured) -> str | None:
    if measured.status != 200:
        return f"answered {measured.status}"
    return "slow" if measured.slow else None
