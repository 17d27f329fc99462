"""Who is in a project or an organization, on the wire. They are users: there is no record of a membership."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.identity.schemas import Account
from workhook.work.access import Access
from workhook.work.people import PersonShape


class MemberCreate(msgspec.Struct):
    """Somebody who has an account."""

    username: Annotated[str, Meta(min_length=1, max_length=255, description="In any case.")]


class MemberShape(msgspec.Struct):
    """A member, or somebody who was invited: of these the caller learns nothing but the login."""

    login: str
    username: str
    email: Annotated[str, Meta(description="A stand-in for those who may not see it, and of who was invited.")]
    avatar: str | None = None
    id: Annotated[int, Meta(description="Not of who was invited.")] | UnsetType = UNSET


class MemberAnswer(msgspec.Struct):
    """`pending`: the person was invited, and is no member before accepting."""

    member: MemberShape
    pending: bool = False
    success: bool = True


class MembersAnswer(msgspec.Struct):
    members: list[PersonShape]
    success: bool = True


class UserAnswer(msgspec.Struct):
    user: PersonShape
    success: bool = True


class Candidate(msgspec.Struct, frozen=True):
    """Somebody in relation to a project."""

    access: Access
    account: Account | None
    role: str | None  # as a collaborator
    owns: bool
    has_place: bool  # the organization gives one, or the project is their own
    is_client: bool  # somebody who only looks into it
    # In the organization that owns the project, or in another one together with the caller: needs no invitation.
    is_near: bool
    organization_id: int | None  # the one that owns the project, if the person is in it
