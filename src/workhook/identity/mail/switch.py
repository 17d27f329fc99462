"""Whether this process has a mail server. Without one nothing is queued, so that nothing is sent late either."""

from __future__ import annotations

from collections.abc import Callable

_users = {"count": 0}


def turn_on() -> Callable[[], None]:
    """Queue messages from now on. Answers what ends it."""
    _users["count"] += 1

    def undo() -> None:
        _users["count"] -= 1

    return undo


def is_on() -> bool:
    """Whether messages are queued."""
    return _users["count"] > 0
