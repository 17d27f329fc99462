"""For what is swept now and then: one row that cannot be done holds up no other. It is logged, counted, and left for
the next run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import structlog

from workhook.core.errors import Unavailable
from workhook.storage import metrics
from workhook.storage.database import RolledBack

T = TypeVar("T")

SKIPPED_MAX = 100  # of one kind in one run: more than that is no matter of single rows

log = structlog.get_logger(__name__)


async def one_by_one(kind: str, things: Iterable[T], do: Callable[[T], Awaitable[int]]) -> int:
    """The sum of what `do` answers for each thing. `kind` names them in the log and the metric.

    Raises `Unavailable` if the database cannot be used.
    """
    done = 0
    for thing in things:
        try:
            done += await do(thing)
        except Exception as error:
            if concerns_all(error):
                raise
            _skip(kind, thing)
    return done


class _Bite:
    """How many rows are taken at once: fewer where that fails, down to the row that it fails with, which is skipped."""

    def __init__(self, kind: str, size: int) -> None:
        self.limit, self.skipped = size, 0
        self._kind, self._size = kind, size

    def is_over(self, error: Exception) -> bool:
        """Whether the error concerns all rows, or too many of them."""
        return concerns_all(error) or self.skipped >= SKIPPED_MAX

    def skips(self) -> bool:
        """After an error, to be called where it is handled: whether its row is skipped, or fewer are to be tried."""
        if self.limit > 1:
            self.limit = max(self.limit // 10, 1)
            return False
        _skip(self._kind, self.skipped)
        self.skipped += 1
        return True

    def done(self) -> None:
        self.limit = min(self.limit * 10, self._size)


async def in_batches(kind: str, size: int, do: Callable[[int, int], Awaitable[int]]) -> int:
    """`do(limit, offset)` takes away at most `limit` of the rows that are due, but for the first `offset`, and answers
    how many. It is called until there are no more; where it fails with fewer rows, down to the one that it fails with.
    It looks at what stays each time: where that can be much, take `in_order`.

    Raises `Unavailable` if the database cannot be used, and what `do` raised once `SKIPPED_MAX` rows were skipped.
    """
    done, bite = 0, _Bite(kind, size)
    while True:
        try:
            count = await do(bite.limit, bite.skipped)
        except Exception as error:
            if bite.is_over(error):
                raise
            bite.skips()
            continue
        done += count
        if count < bite.limit:
            return done
        bite.done()


async def in_order(
    kind: str,
    size: int,
    following: Callable[[T | None, int], Awaitable[Sequence[T]]],
    do: Callable[[T | None, Sequence[T]], Awaitable[int]],
) -> int:
    """The sum of what `do` answers, for rows one after the other and each once, however many of them stay.

    `following(last, limit)` answers the first rows behind `last` (None: all) in an order of its own; `do(last, rows)`
    does them. Where it fails, it is given fewer rows, down to the one that it fails with.

    Raises `Unavailable` if the database cannot be used, and what `do` raised once `SKIPPED_MAX` rows were skipped.
    """
    done, bite, last = 0, _Bite(kind, size), None
    while rows := await following(last, bite.limit):
        try:
            done += await do(last, rows)
        except Exception as error:
            if bite.is_over(error):
                raise
            if not bite.skips():
                continue
        else:
            bite.done()
        last = rows[-1]
    return done


def concerns_all(error: Exception) -> bool:
    """Whether it is about the database, and not about what was to be done: the next would fail too."""
    return isinstance(error, Unavailable) and not isinstance(error, RolledBack)


def _skip(kind: str, which: object) -> None:
    metrics.SKIPPED.labels(kind).inc()
    log.exception("sweep_skipped", kind=kind, which=which)
