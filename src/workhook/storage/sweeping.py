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


async def in_batches(kind: str, size: int, do: Callable[[int, int], Awaitable[int]]) -> int:
    """`do(limit, offset)` takes away at most `limit` of the rows that are due, but for the first `offset`, and answers
    how many. It is called until there are no more; where it fails with fewer rows, down to the one that it fails with.

    Raises `Unavailable` if the database cannot be used, and what `do` raised once `SKIPPED_MAX` rows were skipped.
    """
    done, skipped, limit = 0, 0, size
    while True:
        try:
            count = await do(limit, skipped)
        except Exception as error:
            if concerns_all(error) or skipped >= SKIPPED_MAX:
                raise
            if limit > 1:
                limit = max(limit // 10, 1)
                continue
            _skip(kind, skipped)
            skipped += 1
            continue
        done += count
        if count < limit:
            return done
        limit = min(limit * 10, size)


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
    done, skipped, limit, last = 0, 0, size, None
    while rows := await following(last, limit):
        try:
            done += await do(last, rows)
        except Exception as error:
            if concerns_all(error) or skipped >= SKIPPED_MAX:
                raise
            if limit > 1:
                limit = max(limit // 10, 1)
                continue
            _skip(kind, skipped)
            skipped += 1
        else:
            limit = min(limit * 10, size)
        last = rows[-1]
    return done


def concerns_all(error: Exception) -> bool:
    """Whether it is about the database, and not about what was to be done: the next would fail likewise."""
    return isinstance(error, Unavailable) and not isinstance(error, RolledBack)


def _skip(kind: str, which: object) -> None:
    metrics.SKIPPED.labels(kind).inc()
    log.exception("sweep_skipped", kind=kind, which=which)
