"""Before a repository goes for good, the areas that keep something about it give that up, or say that it has to wait.
When an app goes, so does what it made for itself; when a user takes a consent back, what it did there for itself ends.
When it is uninstalled, what it made for the organization stays, or is removed with it.

`bootstrap` subscribes them: areas of one rank do not know one another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.storage import Transaction

Forget = Callable[[Transaction, int], Awaitable[bool]]
"""Gets the repository id; False: not yet, and nothing was done."""

ForgetApp = Callable[[Transaction, int], Awaitable[None]]
"""Gets the id of the app."""

TakenBack = Callable[[Transaction, int], Awaitable[None]]
"""Gets the id of the app that a user does not let act any more; the grant is gone already."""

Uninstalled = Callable[[Transaction, int, int, bool], Awaitable[list[str]]]
"""Gets the ids of the installation and of the account that it was on, and whether to remove what it made; answers the
addresses of all that (`/repos/acme/website/hooks/7`)."""

_subscribers: list[Forget] = []
_app_subscribers: list[ForgetApp] = []
_grant_subscribers: list[TakenBack] = []
_installation_subscribers: list[Uninstalled] = []


def subscribe(forget: Forget) -> None:
    """Subscribing twice is once."""
    if forget not in _subscribers:
        _subscribers.append(forget)


def subscribe_app(forget: ForgetApp) -> None:
    """Subscribing twice is once."""
    if forget not in _app_subscribers:
        _app_subscribers.append(forget)


def subscribe_grant(taken_back: TakenBack) -> None:
    """Subscribing twice is once."""
    if taken_back not in _grant_subscribers:
        _grant_subscribers.append(taken_back)


def subscribe_installation(gone: Uninstalled) -> None:
    """Subscribing twice is once."""
    if gone not in _installation_subscribers:
        _installation_subscribers.append(gone)


async def forget(tx: Transaction, repository_id: int) -> bool:
    """Whether nothing holds the repository any more. False: the caller rolls back, or changes nothing itself."""
    return all([await each(tx, repository_id) for each in _subscribers])


async def grant_taken_back(tx: Transaction, app_id: int) -> None:
    """What the app made where it may not act any more ends, in the transaction that ends the grant."""
    for each in _grant_subscribers:
        await each(tx, app_id)


async def forget_app(tx: Transaction, app_id: int) -> None:
    """What the app made for itself goes with it, in the transaction that deletes it."""
    for each in _app_subscribers:
        await each(tx, app_id)


async def uninstalled(tx: Transaction, installation_id: int, account_id: int, *, remove: bool) -> list[str]:
    """What an installation made on the account, in the transaction that ends it: it stays, or with `remove` it goes."""
    made = [await each(tx, installation_id, account_id, remove) for each in _installation_subscribers]
    return [address for each in made for address in each]
