"""Consequences of removing a repository, app, installation or right. `bootstrap` subscribes each package's handlers.

Code that may take away a right calls `rights_lost` in the same transaction. The call ends whatever depended on the
right (decision 26). An unnecessary call changes nothing.

An invitation ends when the inviter loses the right to invite, or the invitee is removed. It is not restored if a
role is granted again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import sqlalchemy as sa

from workhook.events.outbox import Subscribers
from workhook.identity import audit
from workhook.identity.invitations import BY_EMAIL, for_invited, invited, place_key, still_may_invite
from workhook.identity.queries import lock_account
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import accounts, invitations, projects
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A right that was lost. The database is already changed, so handlers check the rights that remain."""

    account_id: int | None  # of the place's owner; None: every place, as for a consent or a disabled user
    repository_id: int | None  # None: all of the account's
    user_id: int | None  # the person or app's bot; None: everyone there, as when a project becomes private
    app_id: int | None  # the app that lost the right to act for that user; None: the user itself
    actor: Actor | None  # removed the right, and sends the events; None: a command, an app itself, or a page
    base: str  # the prefix of links in events; see `work.kernel.record_events`


Forget = Callable[[Transaction, int], Awaitable[bool]]
"""Called with the repository ID. Returns False if it cannot be forgotten yet, without having changed anything."""
ForgetApp = Callable[[Transaction, int], Awaitable[None]]
"""Called with the app's ID."""
OnLoss = Callable[[Transaction, Loss], Awaitable[None]]
Uninstalled = Callable[[Transaction, int, int, bool], Awaitable[list[str]]]
"""Called with the IDs of the installation and its account, and whether to remove its objects. Returns their paths."""
repositories = Subscribers[Forget]()
apps = Subscribers[ForgetApp]()
losses = Subscribers[OnLoss]()
installations = Subscribers[Uninstalled]()
_links = {"base": ""}


def links_start_with(base: str) -> None:
    """Set the base of links in events about rights that were lost without a request."""
    _links["base"] = base


async def forget(tx: Transaction, repository_id: int) -> bool:
    """Make all packages forget a repository. Returns False if one still needs it; the caller must then roll back."""
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
    """End what a lost right (see `Loss`) made possible. Runs after the write that removes it, in its transaction."""
    base = _links["base"] if base is None else base
    loss = Loss(
        account_id=account_id, repository_id=repository_id, user_id=user_id, app_id=app_id, actor=actor, base=base
    )
    for each in losses:
        await each(tx, loss)


# The places of an account: the organization and its repositories, spelled as in the index.
_of_repositories = sa.select(sa.literal("r", sa.Text) + sa.cast(projects.c.repository_id, sa.Text)).where(
    projects.c.account_id == bigint_param("account_id")
)
_places = sa.union_all(sa.select(sa.bindparam("place", type_=sa.Text)), _of_repositories)
_in_account = invitations.c.place.in_(_places)
_at_place = invitations.c.place == sa.bindparam("place", type_=sa.Text)

_invitee = accounts.alias("invitee")
# Locked first, so that if two rights are lost concurrently, the second loss sees the first.
_made = (
    sa.select(invitations.c.id, invitations.c.account_id, invitations.c.repository_id)
    .add_columns(_invitee.c.login.label("invitee"))
    .select_from(invitations.outerjoin(_invitee, _invitee.c.id == invitations.c.user_id))
    .where(invitations.c.inviter_id == bigint_param("inviter_id"))
    .order_by(invitations.c.id)
    .with_for_update(of=invitations)
)
_made_at_place, _made_in_account = _made.where(_at_place), _made.where(_in_account)
_end = (
    sa.delete(invitations).where(any_of(invitations.c.id, "ids"), sa.not_(still_may_invite)).returning(invitations.c.id)
)
_held = sa.delete(invitations).where(for_invited)
_held_at_place, _held_in_account = _held.where(_at_place), _held.where(_in_account)
_of_repository = sa.delete(invitations).where(_at_place)


async def end_invitations(tx: Transaction, loss: Loss) -> None:
    """End invitations whose inviter may no longer invite people there. An `OnLoss` handler."""
    if loss.app_id is not None or loss.account_id is None or loss.user_id is None:
        return  # consents and visibility make no one an owner or admin
    # `invite` takes the same lock, so earlier invitations are seen here, and later ones see that the right is gone.
    await lock_account(tx, loss.user_id)
    whole = loss.repository_id is None
    params = {**_where(loss.account_id, loss.repository_id), "inviter_id": loss.user_id}
    made = await tx.fetch_all(_made_in_account if whole else _made_at_place, params)
    if not made:
        return
    ended = {row["id"] for row in await tx.fetch_all(_end, {"ids": [row["id"] for row in made]})}
    entries = [
        audit.AuditTarget(row["invitee"] or BY_EMAIL, row["account_id"], row["repository_id"], {"reason": "right_lost"})
        for row in made
        if row["id"] in ended
    ]
    audit.record_all(tx, loss.actor, "invitation.delete", entries)


def delete_invitations_of(tx: Transaction, account_id: int, repository_id: int | None, person: Account) -> None:
    """Defer deleting the invitations that would let a removed person return.

    Without `repository_id`, this covers the account and all its repositories.
    """
    held = _held_in_account if repository_id is None else _held_at_place
    tx.defer(held, [{**_where(account_id, repository_id), **invited(person)}])


def delete_invitations_to(tx: Transaction, repository: Repository) -> None:
    """Delete the invitations to a deleted project, with the next statement."""
    tx.defer(_of_repository, [{"place": place_key(repository)}])


def _where(account_id: int, repository_id: int | None) -> dict[str, object]:
    """Return the parameters of `_in_account` or, with a repository, of `_at_place`."""
    if repository_id is None:
        return {"account_id": account_id, "place": f"o{account_id}"}
    return {"place": f"r{repository_id}"}
