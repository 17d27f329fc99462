"""Hands what this process has just committed to its own worker from memory, so that nothing is read again.

It is only an offer: what the worker does not take is read from the database by the process that has the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import ARRAY

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.hooks.tables import dispatches
from workhook.storage import Database
from workhook.storage.metadata import big

BEFORE_MAX = 64  # due dispatches of a hook: with more, they have to be read anyway
AHEAD_MS = 20  # how far another process's clock may be ahead

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class CommittedDispatch(msgspec.Struct, frozen=True):
    """One event for one hook: just committed, and due now. `event` has the values of `outbox.COLUMNS`.

    `version` is the hook's at the commit, `app_id` that of the OAuth app that made the hook. `before`: the hook's other
    dispatches that were due then; None if nobody asked, or if they are more than `BEFORE_MAX`.
    """

    id: int
    hook_id: int
    version: int
    guid: str
    event_id: int
    event: Mapping[str, Any]
    app_id: int | None = None
    before: Sequence[int] | None = None


def before_on_postgresql(sent: sa.FromClause) -> sa.ColumnElement[Sequence[int]]:
    """A column of the commit: the hook's other due dispatches, beside the first of those that are `sent` to it."""
    return _with_the_first(sent, sa.func.array(_due(sent).scalar_subquery(), type_=ARRAY(sa.BigInteger)))


def before_on_sqlite(sent: sa.FromClause, last_before: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """The same as JSON. `last_before`: the id of the last event before those of the commit, which SQLite sees."""
    some = _due(sent, last_before).subquery("some")
    return _with_the_first(sent, sa.select(sa.func.json_group_array(some.c.id)).scalar_subquery())


def _due(sent: sa.FromClause, last_before: sa.ColumnElement[int] | None = None) -> sa.Select[tuple[int]]:
    due = dispatches.alias("due_before")
    found = sa.select(due.c.id).where(due.c.hook_id == sent.c.hook_id, due.c.next_attempt_at <= big("due_until"))
    if last_before is not None:
        found = found.where(due.c.event_id <= last_before)
    return found.limit(BEFORE_MAX + 1).correlate(sent)


def _with_the_first(sent: sa.FromClause, found: sa.ColumnElement[_T]) -> sa.ColumnElement[_T]:
    first = sa.func.min(sent.c.id).over(partition_by=sent.c.hook_id)
    return sa.case((sent.c.id == first, found)).label("before")


def before_params() -> dict[str, int]:
    return {"due_until": now_ms() + AHEAD_MS}


def before_of(found: Sequence[int] | str | None) -> Sequence[int] | None:
    """`CommittedDispatch.before` of a row. The first of a hook lists all before it; the others only follow that one."""
    if found is None:
        return ()
    ids: Sequence[int] = json.decode(found) if isinstance(found, str) else found
    return ids if len(ids) <= BEFORE_MAX else None


class Taker(Protocol):
    """What a commit knows of a worker."""

    def may_take(self) -> bool:
        """Whether a commit should ask for `CommittedDispatch.before`."""

    def take(self, new: CommittedDispatch) -> bool:
        """Return whether the worker will send it."""


_takers: WeakKeyDictionary[Database, Taker] = WeakKeyDictionary()


def take_with(database: Database, taker: Taker) -> Callable[[], None]:
    """Offer `taker` what is committed to the database, until the returned function is called."""
    _takers[database] = taker

    def end() -> None:
        _takers.pop(database, None)

    return end


def may_be_taken(database: Database) -> bool:
    """Whether a worker may take something now."""
    taker = _takers.get(database)
    return taker is not None and taker.may_take()


def offer(database: Database, new: CommittedDispatch) -> bool:
    """Return whether a worker of this process took it. It is committed, so the publisher gets no error from here."""
    taker = _takers.get(database)
    try:
        return taker is not None and taker.take(new)
    except Exception:
        log.exception("handover_failed", hook_id=new.hook_id, dispatch_id=new.id)
        return False
