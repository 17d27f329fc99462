"""What this process has just committed goes to the worker beside it from memory: nothing is read again.

It is offered, and it is in the database as well. What no worker takes is found there by whoever has the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
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

BEFORE_MAX = 64  # dispatches of a hook that are due, however long: with more, it has to be read anyway
AHEAD_MS = 20  # how far another process's clock may be ahead

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class Fresh(msgspec.Struct, frozen=True):
    """A dispatch that was committed just now and is due. `version` is the hook's at the commit; `before` the other
    dispatches of the hook that were due then, None if that is not known or they are more than `BEFORE_MAX`."""

    dispatch_id: int
    hook_id: int
    version: int
    guid: str
    event_id: int
    event: str
    action: str | None
    repository_id: int | None
    installation_id: int | None
    payload: bytes
    due_at: int
    before: Sequence[int] | None


def before_on_postgresql(sent: sa.FromClause) -> sa.ColumnElement[Sequence[int]]:
    """For the commit: the other dispatches of a hook that are due, with the first of those that are `sent` to it."""
    return _with_the_first(sent, sa.func.array(_due(sent).scalar_subquery(), type_=ARRAY(sa.BigInteger)))


def before_on_sqlite(sent: sa.FromClause, last_before: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """The same as JSON. `last_before`: the number of the last event before those of the commit, which SQLite sees."""
    some = _due(sent, last_before).subquery("some")
    return _with_the_first(sent, sa.select(sa.func.json_group_array(some.c.id)).scalar_subquery())


def _due(sent: sa.FromClause, last_before: sa.ColumnElement[int] | None = None) -> sa.Select[tuple[int]]:
    due = dispatches.alias("due_before")
    found = sa.select(due.c.id).where(
        due.c.hook_id == sent.c.hook_id,
        due.c.next_attempt_at <= big("due_until"),
    )
    if last_before is not None:
        found = found.where(due.c.event_id <= last_before)
    return found.limit(BEFORE_MAX + 1).correlate(sent)


def _with_the_first(sent: sa.FromClause, found: sa.ColumnElement[_T]) -> sa.ColumnElement[_T]:
    first = sa.func.min(sent.c.id).over(partition_by=sent.c.hook_id)
    return sa.case((sent.c.id == first, found)).label("before")


def before_params() -> dict[str, int]:
    return {"due_until": now_ms() + AHEAD_MS}


def before_of(found: Sequence[int] | str | None) -> Sequence[int] | None:
    """What `Fresh.before` is for a row. The first one of a hook tells of all before; what follows it follows it."""
    if found is None:
        return ()
    ids: Sequence[int] = json.decode(found) if isinstance(found, str) else found
    return ids if len(ids) <= BEFORE_MAX else None


class Taker(Protocol):
    """A worker, as the commit knows it."""

    def may_take(self) -> bool:
        """Whether it is worth asking what was due before."""

    def take(self, fresh: Fresh) -> bool:
        """Whether it will be sent from here; if not, nothing is kept of it."""


_takers: WeakKeyDictionary[Database, Taker] = WeakKeyDictionary()


def take_with(database: Database, taker: Taker) -> Callable[[], None]:
    """From now on `taker` is offered what is committed to the database; until the answer is called."""
    _takers[database] = taker

    def end() -> None:
        _takers.pop(database, None)

    return end


def may_be_taken(database: Database) -> bool:
    """Whether anybody may take something now."""
    taker = _takers.get(database)
    return taker is not None and taker.may_take()


def offer(database: Database, fresh: Fresh) -> bool:
    """Whether a worker of this process has taken it. It is committed: nothing that goes wrong here is the publisher's
    concern."""
    taker = _takers.get(database)
    try:
        return taker is not None and taker.take(fresh)
    except Exception:
        log.exception("handover_failed", hook_id=fresh.hook_id, dispatch_id=fresh.dispatch_id)
        return False
