"""Who is in an organization and in a repository, and what the caller is where."""

from __future__ import annotations

from typing import cast

from workhook.core.errors import NotFound
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_B, Operation, Query
from workhook.http.paging import PAGING, page_link, page_of
from workhook.identity import invitations, member_queries
from workhook.identity.apps.app_schemas import OwnerShape, owner_shape
from workhook.identity.guard import actor_of, caller_of
from workhook.identity.member_queries import Affiliation, InOrganization, InRepository, MemberRole
from workhook.identity.member_schemas import (
    CollaboratorPermission,
    CollaboratorShape,
    Membership,
    Role,
    collaborator_shape,
    membership_shape,
    pending_membership_shape,
)
from workhook.identity.queries import find_account
from workhook.identity.schemas import Account, Repository

_MEMBERS = ("all", "admin", "member")
_AFFILIATIONS = ("all", "direct", "outside")
# What clients call a role, by the role that is enough for it.
_LEAST: dict[str, Role] = {"pull": "read", "triage": "write", "push": "write", "maintain": "admin", "admin": "admin"}
_COLLABORATORS = "repository.collaborators"


async def members(call: Call) -> Answer:
    call.query_choice("filter", ("all",))
    role = cast(MemberRole, call.query_choice("role", _MEMBERS))
    page, per_page = page_of(call)
    found, total = await member_queries.list_members(
        call.database,
        _organization(call).id,
        role,
        limit=per_page,
        offset=(page - 1) * per_page,
    )
    shapes = [owner_shape(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def check_member(call: Call) -> Answer:
    await _member(call)
    return Answer(status=204)


async def membership(call: Call) -> Answer:
    """Owners see who is invited, too. Raises `NotFound`."""
    place, login = caller_of(call).organization, call.path("username")
    assert place is not None, "the operation's rule names an organization"
    member = await member_queries.find_member(call.database, place.account.id, login)
    if member is not None:
        return Answer(membership_shape(place.account, member.account, member.role, call.base))
    person = await find_account(call.database, login) if place.role == "owner" else None
    if person is None:
        raise NotFound()
    pending = await invitations.find_pending(call.database, place.account, person, actor_of(call).user)
    if pending is None:
        raise NotFound()
    return Answer(pending_membership_shape(pending, person, call.base))


async def own_memberships(call: Call) -> Answer:
    """The active ones, then those that wait to be accepted."""
    state = call.query_choice("state", ("all", "active", "pending"))
    page, per_page = page_of(call)
    actor, offset = actor_of(call), (page - 1) * per_page
    shapes: list[Membership] = []
    active = 0
    if state != "pending":
        found, active = await member_queries.list_own(call.database, actor, limit=per_page, offset=offset)
        shapes = [membership_shape(each.account, actor.user, each.role, call.base) for each in found]
    pending = 0
    if state != "active":
        room = per_page - len(shapes)
        waiting, pending = await invitations.list_to_organizations(
            call.database, actor.user, limit=max(1, room), offset=max(0, offset - active)
        )
        shapes += [pending_membership_shape(each, actor.user, call.base) for each in waiting[:room]]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=active + pending))


async def own_membership(call: Call) -> Answer:
    found = caller_of(call).organization
    assert found is not None, "the operation's rule names an organization"
    assert found.role is not None, "the rule asks for a member"
    return Answer(membership_shape(found.account, actor_of(call).user, found.role, call.base))


async def collaborators(call: Call) -> Answer:
    affiliation = call.query_choice("affiliation", _AFFILIATIONS)
    permission = call.query_choice("permission", tuple(_LEAST))
    page, per_page = page_of(call)
    found, total = await member_queries.list_collaborators(
        call.database,
        _repository(call),
        cast(Affiliation, affiliation),
        _LEAST[permission],
        limit=per_page,
        offset=(page - 1) * per_page,
    )
    shapes = [collaborator_shape(each.account, each.role, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def check_collaborator(call: Call) -> Answer:
    if (await _somebody(call)).role == "none":
        raise NotFound()
    return Answer(status=204)


async def collaborator_permission(call: Call) -> Answer:
    found = await _somebody(call)
    shape = collaborator_shape(found.account, found.role, call.base)
    return Answer(CollaboratorPermission(permission=found.role, role_name=found.role, user=shape))


async def _member(call: Call) -> InOrganization:
    """Somebody of the organization, with the role. Raises `NotFound`; the bots of its apps are no members."""
    found = await member_queries.find_member(call.database, _organization(call).id, call.path("username"))
    if found is None:
        raise NotFound()
    return found


async def _somebody(call: Call) -> InRepository:
    """Raises `NotFound` for who is not in the repository, and whom the caller does not see elsewhere."""
    found = await member_queries.find_somebody(call.database, actor_of(call), _repository(call), call.path("username"))
    if found is None:
        raise NotFound()
    return found


def _organization(call: Call) -> Account:
    found = caller_of(call).organization
    assert found is not None, "the operation's rule names an organization"
    return found.account


def _repository(call: Call) -> Repository:
    found = caller_of(call).repository
    assert found is not None, "the operation's rule names a repository"
    return found


def _op(path: str, name: str, summary: str, access: str, handler: object, answer: object, **more: object) -> Operation:
    return Operation(
        AREA_B, "GET", path, handler, name, summary, access, "support",  # type: ignore[arg-type]  # passed through
        **{"answers": {200: answer}, **more},  # type: ignore[arg-type]  # likewise
    )  # fmt: skip


def _list(
    path: str, name: str, summary: str, access: str, handler: object, item: object, *query: Query, text: str = ""
) -> Operation:
    return _op(
        path, name, summary, access, handler, item, query=(*query, *PAGING), problems=(422,), description=text
    )  # fmt: skip


def _choice(name: str, description: str, *known: str, default: str = "") -> Query:
    schema = {"enum": list(known)}
    return Query(name, description, {**schema, "default": default} if default else schema)


_ORG = "organization.read"

OPERATIONS = (
    _list("/user/memberships/orgs", "user_memberships", "What the caller is in each organization", "user",
          own_memberships, list[Membership],
          _choice("state", "`pending`: the caller is invited. Without it both.", "active", "pending")),
    _op("/user/memberships/orgs/{org}", "user_membership", "What the caller is in an organization",
        "organization.membership", own_membership, Membership),
    _list("/orgs/{org}/members", "organization_members", "Who is in an organization", _ORG, members, list[OwnerShape],
          _choice("role", "`admin`: owners; `member`: the others.", *_MEMBERS, default="all"),
          _choice("filter", "Nothing else is known of them.", "all", default="all"),
          text="The bots of its apps, and people from outside who were added to a repository, are not."),
    _op("/orgs/{org}/members/{username}", "organization_member_check", "Whether somebody is in an organization", _ORG,
        check_member, None, answers={204: None}),
    _op("/orgs/{org}/memberships/{username}", "organization_membership", "What somebody is in an organization", _ORG,
        membership, Membership),
    _list("/repos/{owner}/{repo}/collaborators", "repository_collaborators", "Who is in a repository", _COLLABORATORS,
          collaborators, list[CollaboratorShape],
          _choice("affiliation", "`direct`: who was added; `outside`: of these, who is not in the organization.",
                  *_AFFILIATIONS, default="all"),
          _choice("permission", "Who may do at least this.", *_LEAST),
          text="Owners of the organization, its members unless the repository is private, and who was added. Clients "
               "of the project are not in it."),
    _op("/repos/{owner}/{repo}/collaborators/{username}", "repository_collaborator_check",
        "Whether somebody is in a repository", _COLLABORATORS, check_collaborator, None, answers={204: None}),
    _op("/repos/{owner}/{repo}/collaborators/{username}/permission", "repository_collaborator_permission",
        "What somebody may do in a repository", _COLLABORATORS, collaborator_permission, CollaboratorPermission,
        description="`none` for somebody whom the caller sees in an organization, and who is not in the repository."),
)  # fmt: skip
