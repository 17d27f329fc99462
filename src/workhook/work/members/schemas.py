"""Who is in a project or an organization, on the wire. They are users: there is no record of a membership."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from workhook.identity.schemas import Account
from workhook.work.access import Access
from workhook.work.people import PersonShape


class MemberCreate(msgspec.Struct):
    """Somebody who has an account."""

    username: Annotated[str, Meta(min_length=1, max_length=255, description="In any case.")]


class MemberAnswer(msgspec.Struct):
    member: PersonShape
    success: bool = True


class MembersAnswer(msgspec.Struct):
    members: list[PersonShape]
    success: bool = True


class UserAnswer(msgspec.Struct):
    user: PersonShape
    success: bool = True


class Candidate(msgspec.Struct, frozen=True):
    """Somebody in relation to a project. `role`: as a collaborator. `has_place`: the organization gives one, or the
    project is its own. `is_client`: somebody who only looks into it."""

    access: Access
    account: Account | None
    role: str | None
    owns: bool
    has_place: bool
    is_client: bool
