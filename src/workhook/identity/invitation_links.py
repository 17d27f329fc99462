"""Links to invitations: whoever has one accepts the invitation, once.

An invitation has one link at most, and its secret is stored as a digest only. The link is good as long as the
invitation holds: it ends with it, by whatever way. A new link takes the place of the old one; so does inviting again,
and a changed role ends it: a link gives what it was made for. Decision 40 says what whoever has it may do.
"""

from __future__ import annotations

import secrets

import msgspec
import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.disclosure import Secretive
from workhook.identity.invitations import (
    Invitation,
    find_one,
    find_page,
    invitation_of,
    is_client,
    take_statement,
    to_organizations,
    to_repositories,
)
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import invitations
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big
from workhook.storage.pages import Page, listed

PATH = "/invitations/links/"
_SECRET_BYTES = 32
_LENGTH_MAX = 100
NOBODY = 0  # no account has this id

_by_digest = invitations.c.link_digest == sa.bindparam("link_digest", type_=sa.LargeBinary)
_to_organization, _to_repository = to_organizations.where(_by_digest), to_repositories.where(_by_digest)
_in_repository = to_repositories.where(invitations.c.repository_id == big("repository_id"))
_any_of_repository = _in_repository.where(invitations.c.id == big("id"))
_clients_of_repository = listed(_in_repository.where(is_client), invitations.c.id)
_set = (
    sa.update(invitations)
    .where(invitations.c.id == big("id"))
    .values(link_digest=sa.bindparam("new_digest", type_=sa.LargeBinary))
)
_take = take_statement.where(_by_digest)


class InvitationLink(Secretive, msgspec.Struct, frozen=True):
    """`path` holds the secret, which is seen only here. `expires_at`: milliseconds since the epoch."""

    path: str
    expires_at: int


async def make_link(tx: Transaction, invitation: Invitation) -> InvitationLink:
    """A link to an invitation that has just been made, or renewed, in this transaction."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    await tx.execute(_set, {"id": invitation.id, "new_digest": digest_of(secret)})
    return InvitationLink(PATH + secret, invitation.expires_at)


async def find_by_link(reader: Reader, secret: str, viewer: Account | None) -> Invitation | None:
    """None for a link that is unknown, was used or replaced, or whose invitation does not hold. Looking does not use it
    up. `viewer`: whose role `Invitation.repository` has."""
    if len(secret) > _LENGTH_MAX:
        return None
    user_id = NOBODY if viewer is None else viewer.id
    params = {"link_digest": digest_of(secret), "user_id": user_id, "now": now_ms()}
    for statement in (_to_organization, _to_repository):
        row = await reader.fetch_one(statement, params)
        if row is not None:
            return invitation_of(row, viewer)
    return None


async def take_by_link(tx: Transaction, invitation: Invitation, secret: str) -> Invitation | None:
    """For who accepts: as `invitations.take`, if the link is still this one."""
    row = await tx.fetch_one(_take, {"id": invitation.id, "link_digest": digest_of(secret), "now": now_ms()})
    return msgspec.structs.replace(invitation, role=row["role"]) if row else None


async def list_clients(
    reader: Reader, repository: Repository, viewer: Account, page: Page
) -> tuple[list[Invitation], int]:
    """Who is invited as a client, oldest first, and how many there are."""
    return await find_page(reader, _clients_of_repository, {"repository_id": repository.id}, viewer, page)


async def find_any_of_repository(
    reader: Reader, repository: Repository, invitation_id: int, viewer: Account
) -> Invitation | None:
    """As `invitations.find_of_repository`, or of a client."""
    return await find_one(reader, _any_of_repository, {"repository_id": repository.id, "id": invitation_id}, viewer)
