"""Periodic work in which a failing row does not block the others: it is logged, counted and left for the next run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog

from workhook.core.errors import Unavailable
from workhook.storage import metrics
from workhook.storage.database import Database, RolledBack, Row
from workhook.storage.metadata import bigint_param

T = TypeVar("T")

SKIPPED_MAX = 100  # per kind per run; if more fail, single rows are not the cause

log = structlog.get_logger(__name__)


async def for_each_isolated(kind: str, things: Iterable[T], do: Callable[[T], Awaitable[int]]) -> int:
    """Return the sum of `do` over all things. `kind` names them in the log and the metric.

    Raises `Unavailable` if the database cannot be used.
    """
    done = 0
    for thing in things:
        try:
            done += await do(thing)
        except Exception as error:
            if is_database_failure(error):
                raise
            _skip(kind, thing)
    return done


class _BatchSize:
    """The size of a batch. Shrinks after a failure down to the failing row, which is skipped."""

    def __init__(self, kind: str, size: int) -> None:
        self.limit, self.skipped = size, 0
        self._kind, self._size = kind, size

    def is_over(self, error: Exception) -> bool:
        """Return whether the error concerns all rows, or too many rows were skipped."""
        return is_database_failure(error) or self.skipped >= SKIPPED_MAX

    def skips(self) -> bool:
        """Return whether a failed row is skipped (True), or a smaller batch is tried (False)."""
        if self.limit > 1:
            self.limit = max(self.limit // 10, 1)
            return False
        _skip(self._kind, self.skipped)
        self.skipped += 1
        return True

    def done(self) -> None:
        self.limit = min(self.limit * 10, self._size)


async def in_batches(kind: str, size: int, do: Callable[[int, int], Awaitable[int]]) -> int:
    """Call `do(limit, offset)` until nothing is left. Raises the errors of `in_order`.

    `do` removes at most `limit` of the due rows after the first `offset`, and returns their number. After a failure it
    gets smaller limits, down to the failing row. Use `in_order` if many rows can remain.
    """
    done, size_now = 0, _BatchSize(kind, size)
    while True:
        try:
            count = await do(size_now.limit, size_now.skipped)
        except Exception as error:
            if size_now.is_over(error):
                raise
            size_now.skips()
            continue
        done += count
        if count < size_now.limit:
            return done
        size_now.done()


async def in_order(
    kind: str,
    size: int,
    following: Callable[[T | None, int], Awaitable[Sequence[T]]],
    do: Callable[[T | None, Sequence[T]], Awaitable[int]],
) -> int:
    """Process rows once in order, however many of them remain, and return the sum of `do`.

    `following(last, limit)` returns the first rows after `last` (None: from the beginning), and `do(last, rows)`
    processes them. After a failure, `do` gets fewer rows, down to the failing one, which is skipped. Raises
    `Unavailable` if the database cannot be used, and the last error of `do` once `SKIPPED_MAX` rows were skipped.
    """
    done, size_now, last = 0, _BatchSize(kind, size), None
    while rows := await following(last, size_now.limit):
        try:
            done += await do(last, rows)
        except Exception as error:
            if size_now.is_over(error):
                raise
            if not size_now.skips():
                continue
        else:
            size_now.done()
        last = rows[-1]
    return done


class AgedRows:
    """The rows of a table in the order of a unique `key` whose first column is a time in milliseconds."""

    def __init__(self, *key: sa.Column[Any]) -> None:
        self._key = key
        place, last = sa.tuple_(*key), self._bound("last")
        self._old = (
            sa.select(*key)
            .where(place > last, key[0] < bigint_param("before"))
            .order_by(*key)
            .limit(bigint_param("limit"))
        )
        self._delete = sa.delete(key[0].table).where(place > last, place <= self._bound("upto"))

    def _bound(self, prefix: str) -> sa.Tuple:
        return sa.tuple_(*(sa.bindparam(f"{prefix}_{each.name}", type_=each.type) for each in self._key))

    def _params(self, prefix: str, row: Row | None) -> dict[str, object]:
        """Return the parameters for a row, or for a position before all rows if it is None."""
        before_all = {each.name: "" if isinstance(each.type, sa.Text) else -1 for each in self._key}
        found: Row = before_all if row is None else row
        return {f"{prefix}_{each.name}": found[each.name] for each in self._key}

    async def delete(self, database: Database, before: int, size: int) -> int:
        """Delete rows older than `before`, in batches of `size`; return their number. Raises like `in_order`."""

        async def following(last: Row | None, limit: int) -> Sequence[Row]:
            return await database.fetch_all(self._old, {**self._params("last", last), "before": before, "limit": limit})

        async def remove(last: Row | None, rows: Sequence[Row]) -> int:
            params = {**self._params("last", last), **self._params("upto", rows[-1])}
            return await database.in_transaction(lambda tx: tx.execute(self._delete, params))

        return await in_order(str(self._key[0].table), size, following, remove)


def is_database_failure(error: Exception) -> bool:
    """Return whether the database is at fault, in which case the next row would fail too."""
    return isinstance(error, Unavailable) and not isinstance(error, RolledBack)


def _skip(kind: str, key: object) -> None:
    metrics.SKIPPED.labels(kind).inc()
    log.exception("sweep_skipped", kind=kind, key=key)
