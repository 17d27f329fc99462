"""What a caller says about memberships and invitations, in GitHub's words."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.work.clients.schemas import Email


class OrganizationInvitationBody(msgspec.Struct):
    """Whom to invite: the id of a user, or an e-mail address. Nobody learns whether an address has an account."""

    invitee_id: Annotated[int, Meta(ge=1, le=2**53 - 1)] | UnsetType = UNSET
    email: Email | UnsetType = UNSET
    role: Annotated[Literal["direct_member", "admin"], Meta(description="`admin`: an owner.")] = "direct_member"
    team_ids: Annotated[list[int], Meta(description="There are no teams: ignored.")] | UnsetType = UNSET


class MembershipBody(msgspec.Struct):
    """What somebody is to be in the organization."""

    role: Annotated[Literal["member", "admin"], Meta(description="`admin`: an owner.")] = "member"


class AcceptBody(msgspec.Struct):
    """`active` accepts the invitation."""

    state: Literal["active"]


class CollaboratorBody(msgspec.Struct):
    """What somebody is to be in the repository."""

    permission: Literal["pull", "push", "admin"] = "push"


class RepositoryInvitationBody(msgspec.Struct):
    """What the invited person is to be in the repository."""

    permissions: Literal["read", "write", "admin"]
