"""What follows from a push to a repository, in the commit of its event. Others subscribe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from workhook.identity.removal import Subscribers
from workhook.identity.schemas import Actor, Repository
from workhook.storage import Transaction

PUSH = "push"


class PushFollower(NamedTuple):
    """`concerns`: whether anything follows from a payload. `follow`: do it, before the event is appended. It gets who
    pushes (None: a command), and what links in events start with."""

    concerns: Callable[[Mapping[str, Any], Repository], bool]
    follow: Callable[[Transaction, Repository, Mapping[str, Any], Actor | None, str], Awaitable[None]]


push_followers = Subscribers[PushFollower]()
