"""Who is in an organization and in a repository, and what the caller is where."""

from __future__ import annotations

from typing import cast

from workhook.core.errors import NotFound
from workhook.http.calls import Call
from workhook.http.endpoints import Paged, Routes
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import invitations, member_queries
from workhook.identity.apps.app_schemas import OwnerShape, owner_shape
from workhook.identity.authenticator import actor_of, named_organization, named_repository
from workhook.identity.member_queries import Affiliation, InRepository, MemberRole
from workhook.identity.profile_schemas import (
    CollaboratorPermission,
    CollaboratorShape,
    Membership,
    Role,
    collaborator_shape,
    membership_shape,
    pending_membership_shape,
)
from workhook.identity.queries import find_account
from workhook.storage.pages import Page

_MEMBERS = ("all", "admin", "member")
_AFFILIATIONS = ("all", "direct", "outside")
# What clients call a role, by the role that is enough for it.
_LEAST: dict[str, Role] = {"pull": "read", "triage": "write", "push": "write", "maintain": "admin", "admin": "admin"}


routes = Routes(WEBHOOK_API, "support", read="organization.read")


def _choice(name: str, description: str, *known: str, default: str = "") -> Query:
    schema = {"enum": list(known)}
    return Query(name, description, {**schema, "default": default} if default else schema)


@routes.get(
    "/user/memberships/orgs",
    access="user",
    query=(_choice("state", "`pending`: the caller is invited. Without it both.", "active", "pending"),),
)
async def user_memberships(call: Call, page: Page) -> Paged[list[Membership]]:
    """What the caller is in each organization."""
    state = call.query_choice("state", ("all", "active", "pending"))
    actor = actor_of(call)
    shapes: list[Membership] = []
    active = pending = 0
    if state != "pending":
        found, active = await member_queries.list_own(call.database, actor, page)
        shapes = [membership_shape(each.account, actor.user, each.role, call.base) for each in found]
    if state != "active":  # those that wait to be accepted come after the others
        room = page.limit - len(shapes)
        rest = Page(max(1, room), max(0, page.offset - active))
        waiting, pending = await invitations.list_to_organizations(call.database, actor.user, rest)
        shapes += [pending_membership_shape(each, actor.user, call.base) for each in waiting[:room]]
    return Paged(shapes, active + pending)


@routes.get("/user/memberships/orgs/{org}", access="organization.membership")
async def user_membership(call: Call) -> Membership:
    """What the caller is in an organization."""
    found = named_organization(call)
    assert found.role is not None, "the rule asks for a member"
    return membership_shape(found.account, actor_of(call).user, found.role, call.base)


@routes.get(
    "/orgs/{org}/members",
    query=(
        _choice("role", "`admin`: owners; `member`: the others.", *_MEMBERS, default="all"),
        _choice("filter", "Nothing else is known of them.", "all", default="all"),
    ),
)
async def organization_members(call: Call, page: Page) -> Paged[list[OwnerShape]]:
    """Who is in an organization.

    The bots of its apps, and people from outside who were added to a repository, are not.
    """
    call.query_choice("filter", ("all",))
    role = cast(MemberRole, call.query_choice("role", _MEMBERS))
    found, total = await member_queries.list_members(call.database, named_organization(call).account.id, role, page)
    return Paged([owner_shape(each, call.base) for each in found], total)


@routes.get("/orgs/{org}/members/{username}")
async def organization_member_check(call: Call, username: str) -> None:
    """Whether somebody is in an organization."""
    if await member_queries.find_member(call.database, named_organization(call).account.id, username) is None:
        raise NotFound()  # also for the bots of its apps


@routes.get("/orgs/{org}/memberships/{username}")
async def organization_membership(call: Call, username: str) -> Membership:
    """What somebody is in an organization."""
    place = named_organization(call)
    member = await member_queries.find_member(call.database, place.account.id, username)
    if member is not None:
        return membership_shape(place.account, member.account, member.role, call.base)
    # Owners see who is invited, too.
    person = await find_account(call.database, username) if place.role == "owner" else None
    if person is None:
        raise NotFound()
    pending = await invitations.find_pending(call.database, place.account, person, actor_of(call).user)
    if pending is None:
        raise NotFound()
    return pending_membership_shape(pending, person, call.base)


@routes.get(
    "/repos/{owner}/{repo}/collaborators",
    access="repository.collaborators",
    query=(
        _choice("affiliation", "`direct`: who was added; `outside`: of these, who is not in the organization.",
                *_AFFILIATIONS, default="all"),
        _choice("permission", "Who may do at least this.", *_LEAST),
    ),
)  # fmt: skip
async def repository_collaborators(call: Call, page: Page) -> Paged[list[CollaboratorShape]]:
    """Who is in a repository.

    Owners of the organization, its members unless the repository is private, and who was added. Clients of the project
    are not in it.
    """
    affiliation = cast(Affiliation, call.query_choice("affiliation", _AFFILIATIONS))
    least = _LEAST[call.query_choice("permission", tuple(_LEAST))]
    repository = named_repository(call)
    found, total = await member_queries.list_collaborators(call.database, repository, affiliation, least, page)
    return Paged([collaborator_shape(each.account, each.role, call.base) for each in found], total)


@routes.get("/repos/{owner}/{repo}/collaborators/{username}", access="repository.collaborators")
async def repository_collaborator_check(call: Call, username: str) -> None:
    """Whether somebody is in a repository."""
    if (await _somebody(call, username)).role == "none":
        raise NotFound()


@routes.get("/repos/{owner}/{repo}/collaborators/{username}/permission", access="repository.collaborators")
async def repository_collaborator_permission(call: Call, username: str) -> CollaboratorPermission:
    """What somebody may do in a repository.

    `none` for somebody whom the caller sees in an organization, and who is not in the repository.
    """
    found = await _somebody(call, username)
    shape = collaborator_shape(found.account, found.role, call.base)
    return CollaboratorPermission(permission=found.role, role_name=found.role, user=shape)


async def _somebody(call: Call, login: str) -> InRepository:
    """Raises `NotFound` for who is not in the repository, and whom the caller does not see elsewhere."""
    found = await member_queries.find_somebody(call.database, actor_of(call), named_repository(call), login)
    if found is None:
        raise NotFound()
    return found
