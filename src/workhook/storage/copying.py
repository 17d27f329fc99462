"""Copies a SQLite file into PostgreSQL: every row as it is, then both sides are read and compared.

It may be stopped at any time: each part of a table is one transaction with the key up to which it goes, and the next
run goes on behind it. A connection that is lost is made again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import sqlalchemy as sa
import structlog

from workhook.core.errors import Unavailable
from workhook.storage import dialects
from workhook.storage.connection_cache import DRIVER_ERRORS
from workhook.storage.copy_source import ROWS_A_PART, CopyRefused, CopySource, Mark, Sum
from workhook.storage.copy_target import CopyTarget, Interfered
from workhook.storage.dialects import place
from workhook.storage.migrate import release_command

T = TypeVar("T")
Progress = Callable[[str, int, int], None]

# Before each further try: a cluster takes half a minute to choose a new primary.
PAUSES_S = (0.5, 1.0, 2.0, *[5.0] * 12)
COPIED, COMPARED = "rows copied", "rows compared"

log = structlog.get_logger(__name__)


class Copied(NamedTuple):
    tables: dict[str, Sum]
    resumed: bool
    place: str


@dataclass
class _Copy:
    source: CopySource
    target: CopyTarget
    tables: Sequence[sa.Table]
    progress: Progress
    rows_a_part: int
    total: int = 0
    done: int = 0
    sums: dict[str, Sum] = field(default_factory=dict)

    async def copy(self) -> None:
        self.total = sum(map(self.source.count, self.tables))
        self.progress(COPIED, 0, self.total)
        for table in self.tables:
            await self._patiently(partial(self._copy_table, table, self.done))

    async def _copy_table(self, table: sa.Table, copied: int) -> None:
        """What of it is not there yet. `copied`: rows of the tables before it."""
        after, done = await self.target.progress_of(table)
        self._show(COPIED, copied + (0 if after is None else await self.target.count(table)))
        if done:
            return
        for part in self.source.parts(table, after, self.rows_a_part):
            await self.target.add(table, part, after)
            after = part.last
            self._show(COPIED, self.done + len(part.rows))
        await self.target.complete(table, after)

    async def compare(self) -> None:
        """Raises `CopyRefused` naming every table that differs."""
        self.done, wrong = 0, []
        self.progress(COMPARED, 0, self.total)
        for table in self.tables:
            ours, largest = self.source.sum(table)
            theirs = await self._patiently(partial(self.target.sum, table, largest))
            self.sums[table.name] = ours
            if ours.rows != theirs.rows:
                wrong.append(f"{table.name} has {ours.rows:,} rows in the file and {theirs.rows:,} in PostgreSQL")
            elif ours != theirs:
                wrong.append(f"{table.name} has other values in PostgreSQL")
            self._show(COMPARED, self.done + ours.rows)
        if wrong:
            raise CopyRefused(
                f"the copy differs from the file: {'; '.join(wrong)}.",
                "Somebody wrote to the database meanwhile. Drop it, make it anew, and run the command again.",
            )

    async def finish(self, mark: Mark) -> None:
        """The file first: if this ends in between, the next run finds both, and only this is left to do."""
        self.source.set_mark(mark._replace(done=True))
        numbers = {
            table.name: self.source.last_number(table)
            for table in self.tables
            if isinstance(table.primary_key.columns[0].type, sa.Integer)
        }
        await self._patiently(partial(self.target.finish, numbers))

    def _show(self, what: str, done: int) -> None:
        self.done = done
        self.progress(what, done, self.total)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """`act` reads how far it is, so it can be begun anew over another connection."""
        for pause_s in PAUSES_S:
            try:
                return await act()
            except DRIVER_ERRORS as error:
                if not isinstance(dialects.postgresql_problem(error), Unavailable):
                    raise
                log.warning("copy_interrupted", error=str(error), again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self.target.open_again()
            except DRIVER_ERRORS as error:
                log.warning("copy_not_connected", error=str(error))
        return await act()


async def copy(
    path: Path, url: str, tables: Sequence[sa.Table], progress: Progress, *, rows_a_part: int = ROWS_A_PART
) -> Copied:
    """`tables`: in an order in which each comes after those that it refers to. Raises `CopyRefused`, and what the
    drivers raise."""
    source = CopySource.open(path)
    try:
        target = await CopyTarget.open(url, tables)
        try:
            mark, resumed = await _begin(source, target, place(url))
            work = _Copy(source, target, tables, progress, rows_a_part)
            await work.copy()
            await work.compare()
            await work.finish(mark)
        except Interfered:
            raise CopyRefused(
                f"another process copies into {place(url)}.", "Let it finish, or stop it and run this again."
            ) from None
        finally:
            await target.close()
    finally:
        source.close()
    return Copied(work.sums, resumed, place(url))


async def _begin(source: CopySource, target: CopyTarget, where: str) -> tuple[Mark, bool]:
    """Which copy this is, and whether it was begun before. Marks both sides; the file first."""
    mark, token = source.mark(), await target.unfinished()
    if token is not None:
        if mark is None or mark.copy_id != token:
            raise CopyRefused(
                f"the database at {where} holds an unfinished copy of another file, or of this one before it was used"
                " again.",
                "Drop the database, make it anew, and run the command again.",
            )
        return mark, True
    if mark is not None and mark.done:
        raise CopyRefused(
            f"{source.path} was copied to {mark.place} already.",
            f"If servers are to use the file again, and that copy no more: `{release_command(source.path)}`.",
        )
    # A copy into another place is another copy: the earlier one cannot be gone on with any more.
    begun = mark.copy_id if mark and mark.place == where else None
    mark = Mark(begun or secrets.token_hex(16), where, False)
    source.set_mark(mark)
    await target.begin(mark.copy_id)
    return mark, False
