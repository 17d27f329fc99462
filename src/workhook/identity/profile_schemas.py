"""API form of users, organizations, repositories, members and invitations, with every key that typed clients require.

Events contain less (`identity.schemas`). Callers who cannot see the account of an invited person only get the login.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workhook.core.clock import now_ms
from workhook.http.wire_types import Time, Unserved, Url
from workhook.identity import schemas
from workhook.identity.apps.app_schemas import (
    AppRepositoryShape,
    OwnerShape,
    app_repository_to_response,
    owner_to_response,
)
from workhook.identity.invitations import CLIENT, Invitation


class ProfileShape(OwnerShape, kw_only=True):
    """A user, an organization, or the bot of an app."""

    name: str | None
    email: Annotated[str | None, Meta(description="Null, except for the caller.")]
    created_at: Time
    updated_at: Time
    bio: None = None
    blog: str = ""
    company: None = None
    hireable: None = None
    location: None = None
    public_repos: int = 0
    public_gists: int = 0
    followers: int = 0
    following: int = 0


class OrganizationProfileShape(schemas.OrganizationShape, kw_only=True):
    """An organization, as shown to its members."""

    name: str | None
    email: Annotated[str | None, Meta(description="Only members see it.")]
    created_at: Time
    updated_at: Time
    blog: str = ""
    company: None = None
    location: None = None
    archived_at: None = None
    public_repos: int = 0
    public_gists: int = 0
    followers: int = 0
    following: int = 0
    has_organization_projects: bool = False
    has_repository_projects: bool = False


class RepositoryProfileShape(AppRepositoryShape, kw_only=True):
    """A repository, with the caller's permissions."""

    network_count: int = 0
    subscribers_count: int = 0


class Email(msgspec.Struct):
    """An e-mail address of the caller."""

    email: str
    primary: Annotated[bool, Meta(description="Always true: there is only one address.")]
    verified: Annotated[
        bool,
        Meta(description="Always true: the address comes from an administrator, or from a provider that verified it."),
    ]
    visibility: Annotated[str, Meta(description="Always `private`.")]


class Team(msgspec.Struct):
    """A team. Never returned."""


class PublicKey(msgspec.Struct):
    """A key. Never returned."""


def profile_to_response(account: schemas.Account, base: str, *, whole: bool) -> ProfileShape:
    """Return the shape of an account. `whole` includes the address, which others cannot see."""
    shape = msgspec.structs.asdict(owner_to_response(account, base))
    return schemas.shape_of(ProfileShape, account, **shape, email=account.email if whole else None)


def organization_profile_to_response(account: schemas.Account, base: str) -> OrganizationProfileShape:
    shape = msgspec.structs.asdict(schemas.organization_to_response(account, base))
    return schemas.shape_of(OrganizationProfileShape, account, **shape)


def repository_profile_to_response(repository: schemas.Repository, base: str) -> RepositoryProfileShape:
    return RepositoryProfileShape(**msgspec.structs.asdict(app_repository_to_response(repository, base)))


Role = Literal["none", "read", "write", "admin"]


class Membership(msgspec.Struct):
    """A membership in an organization."""

    url: Url
    state: Annotated[Literal["active", "pending"], Meta(description="`pending`: invited, but not accepted yet.")]
    role: Annotated[Literal["admin", "member"], Meta(description="`admin`: an owner.")]
    organization_url: Url
    organization: OrganizationProfileShape
    user: Annotated[
        OwnerShape | None, Meta(description="Null for an invited person whose account the caller does not see.")
    ]


class CollaboratorShape(OwnerShape, kw_only=True):
    """A person with access to a repository."""

    permissions: Annotated[schemas.Permissions, Meta(description="Permissions of this person.")]
    role_name: Role


class CollaboratorPermission(msgspec.Struct):
    """A user's permission in a repository."""

    permission: Role
    role_name: Annotated[Role, Meta(description="The same.")]
    user: CollaboratorShape


State = Literal["active", "pending"]


def membership_to_response(
    organization: schemas.Account, user: schemas.Account, role: str, base: str, *, state: State = "active"
) -> Membership:
    shape = organization_profile_to_response(organization, base)
    return Membership(
        url=f"{shape.url}/memberships/{user.login}",
        state=state,
        role="admin" if role == "owner" else "member",
        organization_url=shape.url,
        organization=shape,
        user=owner_to_response(user, base),
    )


def pending_membership_to_response(invitation: Invitation, invitee: schemas.Account, base: str) -> Membership:
    """Return the membership that an invitation offers, without the organization's address."""
    shape = membership_to_response(invitation.account, invitee, invitation.role, base, state="pending")
    shape.organization.email = None
    if not invitation.is_known:
        shape.user = None
    return shape


def collaborator_to_response(account: schemas.Account, role: Role, base: str) -> CollaboratorShape:
    return CollaboratorShape(
        **msgspec.structs.asdict(owner_to_response(account, base)),
        permissions=schemas.permissions_of(None if role == "none" else role),
        role_name=role,
    )


class OrganizationInvitation(msgspec.Struct):
    """An invitation to an organization."""

    id: int
    node_id: str
    login: Annotated[str | None, Meta(description="Login of the invited user; null for an invitation by e-mail.")]
    email: Annotated[str | None, Meta(description="Address that was invited; null for an invitation by login.")]
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
    login: Annotated[str | None, Meta(description="Login of the invited user; null for an invitation by e-mail.")]
    invitee: Annotated[OwnerShape | None, Meta(description="Null if the caller does not see that account.")]
    inviter: OwnerShape
    permissions: Literal["read", "write", "admin"]
    created_at: Time
    expired: bool
    url: Url
    html_url: Url


def organization_invitation(invitation: Invitation, base: str) -> OrganizationInvitation:
    url = f"{base}/orgs/{invitation.account.login}/invitations/{invitation.id}"
    return schemas.shape_of(
        OrganizationInvitation,
        invitation,
        node_id=f"I_{invitation.id}",
        login=invitation.invitee.login if invitation.invitee else None,
        role="admin" if invitation.role == "owner" else "direct_member",
        inviter=owner_to_response(invitation.inviter, base),
        team_count=0,
        invitation_teams_url=f"{url}/teams",
        invitation_source="member",
    )


def repository_invitation(invitation: Invitation, base: str) -> RepositoryInvitation:
    repository, invitee = invitation.repository, invitation.invitee
    assert repository is not None, "it is to a repository"
    shape = repository_profile_to_response(repository, base)
    return schemas.shape_of(
        RepositoryInvitation,
        invitation,
        node_id=f"I_{invitation.id}",
        repository=shape,
        login=invitee.login if invitee else None,
        invitee=owner_to_response(invitee, base) if invitee and invitation.is_known else None,
        inviter=owner_to_response(invitation.inviter, base),
        permissions="read" if invitation.role == CLIENT else invitation.role,
        expired=invitation.expires_at <= now_ms(),
        url=f"{base}/user/repository_invitations/{invitation.id}",
        html_url=f"{shape.html_url}/invitations",
    )
