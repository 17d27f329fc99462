"""Invitations with every key that typed clients insist on.

Who is invited is shown by login alone to those who do not see that account otherwise: its id, and its address, stay
where it belongs.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workhook.core.clock import now_ms, to_seconds_text
from workhook.http.wire_types import Time, Unserved, Url
from workhook.identity.apps.app_schemas import OwnerShape, owner_shape
from workhook.identity.invitations import Invitation
from workhook.identity.profile_schemas import RepositoryProfileShape, repository_profile_shape


class OrganizationInvitation(msgspec.Struct):
    """An invitation to an organization."""

    id: int
    node_id: str
    login: Annotated[str | None, Meta(description="Of the invited user; null for an invitation by e-mail.")]
    email: Annotated[str | None, Meta(description="That it was made for; null for an invitation by login.")]
    role: Annotated[Literal["admin", "direct_member"], Meta(description="`admin`: an owner.")]
    created_at: Time
    inviter: OwnerShape
    team_count: Annotated[int, Meta(description="Always 0.")]
    invitation_teams_url: Unserved
    invitation_source: Annotated[str, Meta(description="Always `member`.")]
    failed_at: None = None
    failed_reason: None = None


class RepositoryInvitation(msgspec.Struct):
    """An invitation to a repository."""

    id: int
    node_id: str
    repository: RepositoryProfileShape
    login: Annotated[str, Meta(description="Of the invited user.")]
    invitee: Annotated[OwnerShape | None, Meta(description="Null where the caller does not see that account.")]
    inviter: OwnerShape
    permissions: Literal["read", "write", "admin"]
    created_at: Time
    expired: bool
    url: Url
    html_url: Url


def organization_invitation(invitation: Invitation, base: str) -> OrganizationInvitation:
    """`base`: what links in the body start with."""
    url = f"{base}/orgs/{invitation.account.login}/invitations/{invitation.id}"
    return OrganizationInvitation(
        id=invitation.id,
        node_id=f"I_{invitation.id}",
        login=invitation.invitee.login if invitation.invitee else None,
        email=invitation.email,
        role="admin" if invitation.role == "owner" else "direct_member",
        created_at=to_seconds_text(invitation.created_at),
        inviter=owner_shape(invitation.inviter, base),
        team_count=0,
        invitation_teams_url=f"{url}/teams",
        invitation_source="member",
    )


def repository_invitation(invitation: Invitation, base: str) -> RepositoryInvitation:
    """`base`: what links in the body start with."""
    repository, invitee = invitation.repository, invitation.invitee
    assert repository is not None, "it is to a repository"
    assert invitee is not None, "nobody is invited to a repository by e-mail"
    shape = repository_profile_shape(repository, base)
    return RepositoryInvitation(
        id=invitation.id,
        node_id=f"I_{invitation.id}",
        repository=shape,
        login=invitee.login,
        invitee=owner_shape(invitee, base) if invitation.is_known else None,
        inviter=owner_shape(invitation.inviter, base),
        permissions=invitation.role,  # type: ignore[arg-type]  # read, write, admin
        created_at=to_seconds_text(invitation.created_at),
        expired=invitation.expires_at <= now_ms(),
        url=f"{base}/user/repository_invitations/{invitation.id}",
        html_url=f"{shape.html_url}/invitations",
    )
