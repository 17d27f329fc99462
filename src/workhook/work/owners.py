"""The account that something new belongs to: the organization that the caller names or is in, or the caller's own."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, memberships
from workhook.identity.tokens.lookup import covers, not_accessible
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.access import RANKS

_organizations = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__), memberships.c.role)
    .join_from(accounts, memberships, memberships.c.organization_id == accounts.c.id)
    .where(memberships.c.user_id == big("user_id"))
    .order_by(accounts.c.id)
)


class Owner(msgspec.Struct, frozen=True):
    """An account and the caller's place in it: `role` is owner, member or app."""

    account: Account
    role: str

    def require_owner(self, doing: str) -> None:
        """`doing` ends the sentence "Only an owner of … can …". Raises `Forbidden`."""
        if self.role != "owner":
            raise Forbidden(f"Only an owner of {self.account.login} can {doing}.", code="missing_role")


async def choose_owner(reader: Reader, actor: Actor, login: str | UnsetType) -> Owner:
    """The organization that is named or the only one that the caller is in; else the caller.

    What the caller's token does not reach counts for nothing. Raises `Invalid`, and `Forbidden` where that leaves
    nothing.
    """
    rows = await reader.fetch_all(_organizations, {"user_id": actor.user.id})
    organizations = [Owner(account_of(row), row["role"]) for row in rows if covers(actor, row["id"])]
    own = Owner(actor.user, "owner") if covers(actor, actor.user.id) else None
    every = [*organizations, own] if own else organizations
    if not every:
        raise not_accessible(actor)
    if isinstance(login, UnsetType):
        if len(organizations) > 1:
            logins = ", ".join(each.account.login for each in organizations)
            message = f"organization is required, since you are in several: {logins}"
            raise Invalid(faults=[Fault(field="organization", code="missing", message=message)])
        return _chosen(actor, every[0])
    for owner in every:
        if key_of(owner.account.login) == key_of(login):
            return _chosen(actor, owner)
    message = f'You are not a member of the organization "{login}".'
    raise Invalid(faults=[Fault(field="organization", message=message)])


def _chosen(actor: Actor, owner: Owner) -> Owner:
    actor.request.rests_on(owner.account.id, None, rank_in_account(owner.role))
    return owner


def rank_in_account(role: str) -> int:
    """One of `RANKS`, for a role of `Owner`."""
    return RANKS["owner" if role == "owner" else "write"]
