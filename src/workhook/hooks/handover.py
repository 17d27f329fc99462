"""What this process has just committed goes to the worker beside it from memory: nothing is read again.

It is offered, and it is in the database as well. What no worker takes is found there by whoever has the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import msgspec
import structlog

from workhook.storage import Database

BEFORE_MAX = 64  # dispatches of a hook that are due: with more, it has to be read anyway
BEFORE_MS = 5_000  # and how long they may have been so: what is older was found by the worker's own search

log = structlog.get_logger(__name__)


class Fresh(msgspec.Struct, frozen=True):
    """A dispatch that was committed just now and is due. `version` is the hook's at the commit; `before` the other
    dispatches of the hook that were due then, None if there are more than `BEFORE_MAX`."""

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


Take = Callable[[Fresh], bool]
"""Answers whether it will be sent from here; if not, the taker keeps nothing of it."""

_takers: WeakKeyDictionary[Database, Take] = WeakKeyDictionary()


def take_with(database: Database, take: Take) -> Callable[[], None]:
    """From now on `take` is offered what is committed to the database; until the answer is called."""
    _takers[database] = take

    def end() -> None:
        _takers.pop(database, None)

    return end


def taken_from(database: Database) -> bool:
    """Whether anybody would take something."""
    return database in _takers


def offer(database: Database, fresh: Fresh) -> bool:
    """Whether a worker of this process has taken it. It is committed: nothing that goes wrong here is the publisher's
    concern."""
    take = _takers.get(database)
    try:
        return take is not None and take(fresh)
    except Exception:
        log.exception("handover_failed", hook_id=fresh.hook_id, dispatch_id=fresh.dispatch_id)
        return False
