"""Before a repository goes for good, the areas that keep something about it give that up, or say that it has to wait.

`bootstrap` subscribes them: areas of one rank do not know one another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.storage import Transaction

Forget = Callable[[Transaction, int], Awaitable[bool]]
"""Gets the repository id; False: not yet, and nothing was done."""

_subscribers: list[Forget] = []


def subscribe(forget: Forget) -> None:
    """Subscribing twice is once."""
    if forget not in _subscribers:
        _subscribers.append(forget)


async def forget(tx: Transaction, repository_id: int) -> bool:
    """Whether nothing holds the repository any more. False: the caller rolls back, or changes nothing itself."""
    return all([await each(tx, repository_id) for each in _subscribers])
