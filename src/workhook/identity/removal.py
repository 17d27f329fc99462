"""Before a repository goes for good, the areas that keep something about it give that up, or say that it has to wait.
When an app goes, so does what it made for itself. When it is uninstalled, what it made for the organization stays, or
is removed with it.

`rights_lost` is the one door of decision 20: whatever can take a right away calls it in the transaction that takes it,
and what the right made possible ends there. A call too many changes nothing; one too few leaves something running.

`bootstrap` subscribes them: areas of one rank do not know one another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from workhook.identity.schemas import Actor
from workhook.storage import Transaction


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody may do less in a place, or an app may do less for somebody. It is so in the database already: who is
    told looks at what is left, not at what was taken."""

    account_id: int | None
    """The organization or user whose place it is. None: every place; a consent counts in all of them, and so does being
    disabled."""
    repository_id: int | None
    """The project. None: all of the account's."""
    user_id: int | None
    """Who may do less, a person or an app's bot. None: anybody there, as when a project becomes private."""
    app_id: int | None
    """The app that may do less for that user. None: the user itself."""
    actor: Actor | None
    """Who took it: the sender of what happens because of this. None: the command line, an app itself, a page."""
    base: str
    """What links in events start with, see `work.record_events`."""


Forget = Callable[[Transaction, int], Awaitable[bool]]
"""Gets the repository id; False: not yet, and nothing was done."""
ForgetApp = Callable[[Transaction, int], Awaitable[None]]
"""Gets the id of the app."""
OnLoss = Callable[[Transaction, Loss], Awaitable[None]]
Uninstalled = Callable[[Transaction, int, int, bool], Awaitable[list[str]]]
"""Gets the ids of the installation and of the account that it was on, and whether to remove what it made; answers the
addresses of all that (`/repos/acme/website/hooks/7`)."""
F = TypeVar("F")


class Subscribers(list[F]):
    """Functions to call, in the order in which they were subscribed."""

    def subscribe(self, function: F) -> None:
        """Subscribing twice is once."""
        if function not in self:
            self.append(function)


repositories = Subscribers[Forget]()
apps = Subscribers[ForgetApp]()
losses = Subscribers[OnLoss]()
installations = Subscribers[Uninstalled]()
_links = {"base": ""}


def links_start_with(base: str) -> None:
    """In events of a loss that no request led to."""
    _links["base"] = base


async def forget(tx: Transaction, repository_id: int) -> bool:
    """Whether nothing holds the repository any more. False: the caller rolls back, or changes nothing itself."""
    return all([await each(tx, repository_id) for each in repositories])


async def rights_lost(
    tx: Transaction,
    account_id: int | None,
    repository_id: int | None = None,
    *,
    user_id: int | None = None,
    app_id: int | None = None,
    actor: Actor | None = None,
    base: str | None = None,
) -> None:
    """What the right made possible ends, in the transaction that takes the right. Call it after the write. The
    arguments are those of `Loss`; `base` None: nobody asked for it over HTTP."""
    loss = Loss(
        account_id=account_id,
        repository_id=repository_id,
        user_id=user_id,
        app_id=app_id,
        actor=actor,
        base=_links["base"] if base is None else base,
    )
    for each in losses:
        await each(tx, loss)
