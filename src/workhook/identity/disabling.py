"""A user is disabled: nothing that stands for them is good any more, in every process within a second.

Tokens, passwords and identities are not deleted, and are good again once the user is enabled: whoever looks one up asks
in the same statement whether its user is disabled. Sessions and links that sign in have ended, and so have timers and
streams. What the user did and the places that they have stay, and show them.
"""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid
from workhook.identity import audit, queries, removal
from workhook.identity.schemas import Account, Actor
from workhook.identity.signin import sessions
from workhook.identity.tables import accounts, memberships
from workhook.identity.tokens.issue import forget_after_commit
from workhook.storage import Transaction
from workhook.storage.metadata import big

_own = memberships.alias("own")
_others = memberships.alias("others")
_other_people = accounts.alias("other_people")
_owned = sa.select(_own.c.organization_id).where(_own.c.user_id == big("user_id"), _own.c.role == "owner")
# Held until the transaction ends, in the order in which `actions` holds those of one organization: of two owners who go
# at the same time, by whatever way, the second sees that the first has gone.
_hold_owners = (
    sa.select(memberships.c.user_id)
    .where(memberships.c.organization_id.in_(_owned), memberships.c.role == "owner")
    .order_by(memberships.c.organization_id, memberships.c.user_id)
    .with_for_update()
)
_left_alone = (
    sa.select(accounts.c.login)
    .where(
        accounts.c.id.in_(_owned),
        ~sa.exists()
        .where(
            _others.c.organization_id == accounts.c.id,
            _others.c.role == "owner",
            _others.c.user_id != big("user_id"),
            _other_people.c.id == _others.c.user_id,
            _other_people.c.disabled_at.is_(None),
        )
        .correlate(accounts),
    )
    .order_by(accounts.c.login_key)
)
_disable = (
    sa.update(accounts)
    .where(accounts.c.id == big("user_id"), accounts.c.disabled_at.is_(None))
    .values(disabled_at=big("now"))
)
_enable = (
    sa.update(accounts)
    .where(accounts.c.id == big("user_id"), accounts.c.disabled_at.is_not(None))
    .values(disabled_at=sa.null())
)


class LastOwner(Invalid):
    """`organizations`: logins of those that would be left without an owner who is not disabled."""

    def __init__(self, user: Account, organizations: list[str]) -> None:
        message = f"{user.login} is the last owner of {', '.join(organizations)} who is not disabled"
        super().__init__(faults=[Fault(field="user", message=message)])
        self.organizations = organizations


class Disabled(NamedTuple):
    """`at`: since when, in milliseconds since the epoch. `changed` False: it was so already."""

    at: int
    changed: bool


async def disable(tx: Transaction, user: Account, *, base: str, actor: Actor | None = None) -> Disabled:
    """`actor` and `base`: see `removal.Loss`. Raises `LastOwner`."""
    since = await queries.disabled_at(tx, user.id)
    if since is not None:
        return Disabled(since, changed=False)
    await tx.fetch_all(_hold_owners, {"user_id": user.id})
    alone = [row["login"] for row in await tx.fetch_all(_left_alone, {"user_id": user.id})]
    if alone:
        raise LastOwner(user, alone)
    now = now_ms()
    if not await tx.execute(_disable, {"user_id": user.id, "now": now}):  # somebody else has, at this very moment
        return Disabled(await queries.disabled_at(tx, user.id) or now, changed=False)
    await _sign_out(tx, user)
    await removal.rights_lost(tx, None, user_id=user.id, actor=actor, base=base)
    forget_after_commit(tx)
    await audit.record(tx, actor, "user.disable", user.login, account_id=user.id)
    return Disabled(now, changed=True)


async def enable(tx: Transaction, user: Account, *, actor: Actor | None = None) -> bool:
    """Answers whether the user was disabled."""
    if not await tx.execute(_enable, {"user_id": user.id}):
        return False
    await _sign_out(tx, user)  # who was signing in while the user was disabled has a session that never was good
    await audit.record(tx, actor, "user.enable", user.login, account_id=user.id)
    return True


async def _sign_out(tx: Transaction, user: Account) -> None:
    await sessions.end_others(tx, user.id)
    await sessions.end_links(tx, user.id)
