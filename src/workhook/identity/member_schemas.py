"""People as members of an organization and of a repository, with every key that typed clients insist on."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workhook.http.wire_types import Url
from workhook.identity.apps.app_schemas import OwnerShape, owner_shape
from workhook.identity.invitations import Invitation
from workhook.identity.profile_schemas import OrganizationProfileShape, organization_profile_shape
from workhook.identity.schemas import Account, Permissions, permissions_of

Role = Literal["none", "read", "write", "admin"]


class Membership(msgspec.Struct):
    """Who somebody is in an organization."""

    url: Url
    state: Annotated[Literal["active", "pending"], Meta(description="`pending`: invited, and not accepted yet.")]
    role: Annotated[Literal["admin", "member"], Meta(description="`admin`: an owner.")]
    organization_url: Url
    organization: OrganizationProfileShape
    user: Annotated[
        OwnerShape | None, Meta(description="Null for an invited person whose account the caller does not see.")
    ]


class CollaboratorShape(OwnerShape, kw_only=True):
    """Somebody in a repository."""

    permissions: Annotated[Permissions, Meta(description="What this one may do in it.")]
    role_name: Role


class CollaboratorPermission(msgspec.Struct):
    """What somebody may do in a repository."""

    permission: Role
    role_name: Annotated[Role, Meta(description="The same.")]
    user: CollaboratorShape


def membership_shape(
    organization: Account, user: Account, role: str, base: str, *, state: Literal["active", "pending"] = "active"
) -> Membership:
    shape = organization_profile_shape(organization, base)
    return Membership(
        url=f"{shape.url}/memberships/{user.login}",
        state=state,
        role="admin" if role == "owner" else "member",
        organization_url=shape.url,
        organization=shape,
        user=owner_shape(user, base),
    )


def pending_membership_shape(invitation: Invitation, invitee: Account, base: str) -> Membership:
    """What an invitation will give to the invited person, who is no member yet and sees no address."""
    shape = membership_shape(invitation.account, invitee, invitation.role, base, state="pending")
    shape.organization.email = None
    if not invitation.is_known:
        shape.user = None
    return shape


def collaborator_shape(account: Account, role: Role, base: str) -> CollaboratorShape:
    """`base`: what links in the body start with."""
    return CollaboratorShape(
        **msgspec.structs.asdict(owner_shape(account, base)),
        permissions=permissions_of(None if role == "none" else role),
        role_name=role,
    )
