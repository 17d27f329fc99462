"""What this process has just committed goes to the worker beside it from memory: nothing is read again.

It is offered, and it is in the database as well. What no worker takes is found there by whoever has the lane.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import msgspec

from workhook.storage import Database


class Fresh(msgspec.Struct, frozen=True):
    """A dispatch that was committed just now and is due. `version` is the hook's at the commit."""

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


Take = Callable[[Fresh], bool]
"""Answers whether it will be sent from here; if not, the taker keeps nothing of it."""

_takers: WeakKeyDictionary[Database, Take] = WeakKeyDictionary()


def take_with(database: Database, take: Take) -> Callable[[], None]:
    """From now on `take` is offered what is committed to the database; until the answer is called."""
    _takers[database] = take

    def end() -> None:
        _takers.pop(database, None)

    return end


def offer(database: Database, fresh: Fresh) -> bool:
    """Whether a worker of this process has taken it."""
    take = _takers.get(database)
    return take is not None and take(fresh)
