"""Operations on the caller, other accounts, and the people of an organization or repository."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast, get_args

import sqlalchemy as sa

from workhook.core.errors import NotFound, require_found
from workhook.http.calls import Call
from workhook.http.endpoints import Paged, Routes
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import invitations
from workhook.identity import profile_schemas as s
from workhook.identity.apps.app_schemas import OwnerShape, owner_to_response
from workhook.identity.apps.queries import list_repositories, sees
from workhook.identity.authenticator import actor_of, named_organization, named_repository
from workhook.identity.queries import account_columns, find_account, key_of, repositories, repository_of
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params, within_reach
from workhook.storage.database import Reader, Row
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import NumberedList, Page, numbered_list, read_page

_user_id = bigint_param("user_id")
_is_own, _is_reached = memberships.c.user_id == _user_id, within_reach(memberships.c.organization_id, None)
_their_membership = memberships.alias("theirs")
_is_shared = _their_membership.c.organization_id == memberships.c.organization_id
# Organizations of both the caller and another user. The caller's own are those shared with the caller.
_shared = numbered_list(
    sa.select(*account_columns())
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .join(_their_membership, _is_shared)
    .where(_is_own, _their_membership.c.user_id == bigint_param("other_id"), _is_reached),
    accounts.c.id,
)

# Starts from the user's roles, so that the number of other projects does not matter.
_by_hand = sa.select(collaborators.c.repository_id).where(collaborators.c.user_id == _user_id)
_seen = repositories.where(
    sa.or_(
        projects.c.account_id == _user_id,
        projects.c.account_id.in_(sa.select(memberships.c.organization_id).where(_is_own)),
        projects.c.repository_id.in_(_by_hand),
    ),
    sa.or_(projects.c.account_id == _user_id, sees),
    within_reach(projects.c.account_id, projects.c.repository_id),
)
all_seen = numbered_list(_seen, projects.c.repository_id)
seen_of_account = numbered_list(
    _seen.where(projects.c.account_id == bigint_param("account_id")), projects.c.repository_id
)

_in_it = sa.select(memberships.c.role).where(_is_own, memberships.c.organization_id == accounts.c.id, _is_reached)
_fellow = sa.select(_their_membership.c.role).join_from(memberships, _their_membership, _is_shared)
_fellow = _fellow.where(_is_own, _their_membership.c.user_id == accounts.c.id, _is_reached)
is_visible = sa.or_(accounts.c.id == _user_id, *(each.correlate(accounts).exists() for each in (_in_it, _fellow)))
"""Condition: the account is the caller, one of the caller's organizations, or a member of one of these."""
_visible = sa.select(*account_columns()).where(is_visible)
visible_by_login = _visible.where(accounts.c.login_key == sa.bindparam("login_key"))
visible_by_id = _visible.where(accounts.c.id == bigint_param("id"))


async def list_shared(reader: Reader, actor: Actor, user_id: int, page: Page) -> tuple[list[Account], int]:
    """Return the organizations that caller and user share, within the token's reach, oldest first, and their number."""
    params = {"user_id": actor.user.id, "other_id": user_id, **reach_params(actor)}
    rows, number = await read_page(reader, _shared, params, page)
    return [account_of(row) for row in rows], number


async def list_seen(
    reader: Reader, actor: Actor, statement: NumberedList, page: Page, **others: object
) -> tuple[list[Repository], int]:
    """Return the caller's repositories within the token's reach, oldest first, and their number."""
    rows, number = await read_page(reader, statement, {"user_id": actor.user.id, **reach_params(actor), **others}, page)
    return [repository_of(row, actor.user.id) for row in rows], number


async def find_visible(reader: Reader, actor: Actor, statement: sa.Select[Any], **others: object) -> Account:
    """Return an account. Raises `NotFound` for accounts that the caller cannot see."""
    row = await reader.fetch_one(statement, {"user_id": actor.user.id, **reach_params(actor), **others})
    return account_of(require_found(row))


MemberRole = Literal["all", "admin", "member"]
Affiliation = Literal["all", "direct", "outside"]
_ROLES: tuple[s.Role, ...] = ("none", "read", "write", "admin")


class InOrganization(NamedTuple):
    account: Account
    role: str  # owner or member


class InRepository(NamedTuple):
    account: Account
    role: s.Role


# Bots of apps are not members.
_people = (
    sa.select(*account_columns(), memberships.c.role.label("role"))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .where(memberships.c.organization_id == bigint_param("organization_id"), accounts.c.kind == "user")
)
_person_by_login = _people.where(accounts.c.login_key == sa.bindparam("login_key"))
_members: dict[MemberRole, NumberedList] = {
    "all": numbered_list(_people, accounts.c.id),
    "admin": numbered_list(_people.where(memberships.c.role == "owner"), accounts.c.id),
    "member": numbered_list(_people.where(memberships.c.role == "member"), accounts.c.id),
}
_of_caller = (
    sa.select(*account_columns(), memberships.c.role.label("role"))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .where(_is_own, _is_reached)
)
_organizations_of_caller = numbered_list(_of_caller, accounts.c.id)
_organization_of_caller = _of_caller.where(accounts.c.login_key == sa.bindparam("login_key"))

# The same rule as in `repository_of`: the stronger of the roles by membership and by collaboration.
_member, _addition = memberships.alias("member"), collaborators.alias("addition")
_by_place = sa.case(
    (sa.or_(accounts.c.id == bigint_param("owner_id"), _member.c.role == "owner"), 3),
    (sa.and_(_member.c.role == "member", sa.not_(sa.bindparam("private", type_=sa.Boolean()))), 2),
    else_=0,
)
_rank_by_hand = sa.case((_addition.c.role == "admin", 3), (_addition.c.role == "write", 2),
                        (_addition.c.role == "read", 1), else_=0)  # fmt: skip
_rank = sa.case((_by_place > _rank_by_hand, _by_place), else_=_rank_by_hand)
_in_organization = sa.and_(_member.c.organization_id == bigint_param("owner_id"), _member.c.user_id == accounts.c.id)
_added = sa.and_(_addition.c.repository_id == bigint_param("repository_id"), _addition.c.user_id == accounts.c.id)
_anybody = (
    sa.select(*account_columns(), _rank.label("rank"))
    .select_from(accounts.outerjoin(_member, _in_organization).outerjoin(_addition, _added))
    .where(accounts.c.kind == "user")
)
_owner = accounts.alias("owner")
_least, _owner_id, _repository_id = (bigint_param(name) for name in ("least", "owner_id", "repository_id"))
_in_it_by_place, _in_it_by_hand = memberships.alias("in_it_by_place"), collaborators.alias("in_it_by_hand")
# Collect the candidates first, so that the number of other accounts does not matter.
_candidates = sa.union(
    sa.select(_in_it_by_place.c.user_id).where(
        _in_it_by_place.c.organization_id == _owner_id, sa.or_(_least < 3, _in_it_by_place.c.role == "owner")
    ),
    sa.select(_in_it_by_hand.c.user_id).where(
        _in_it_by_hand.c.repository_id == _repository_id, sa.or_(_least < 3, _in_it_by_hand.c.role == "admin")
    ),
    sa.select(_owner.c.id).where(_owner.c.id == _owner_id),
)
_everybody = _anybody.where(accounts.c.id.in_(_candidates), _rank >= _least)
_direct = _everybody.where(_addition.c.role.is_not(None))
_outside = _direct.where(_member.c.role.is_(None), accounts.c.id != bigint_param("owner_id"))
_in_repository: dict[Affiliation, NumberedList] = {
    "all": numbered_list(_everybody, accounts.c.id),
    "direct": numbered_list(_direct, accounts.c.id),
    "outside": numbered_list(_outside, accounts.c.id),
}
_somebody = _anybody.where(accounts.c.login_key == sa.bindparam("login_key"), sa.or_(_rank > 0, is_visible))


async def list_people(
    reader: Reader, organization_id: int, page: Page, role: MemberRole = "all"
) -> tuple[list[InOrganization], int]:
    """Return the members, oldest first, and their number. The role `admin` selects owners, `member` all others."""
    rows, number = await read_page(reader, _members[role], {"organization_id": organization_id}, page)
    return [InOrganization(account_of(row), row["role"]) for row in rows], number


async def find_member(reader: Reader, organization_id: int, login: str) -> InOrganization | None:
    row = await reader.fetch_one(_person_by_login, {"organization_id": organization_id, "login_key": key_of(login)})
    return InOrganization(account_of(row), row["role"]) if row else None


async def list_own(reader: Reader, actor: Actor, page: Page) -> tuple[list[InOrganization], int]:
    """Return the caller's organizations within the token's reach, oldest first, and their number."""
    params = {"user_id": actor.user.id, **reach_params(actor)}
    rows, number = await read_page(reader, _organizations_of_caller, params, page)
    return [InOrganization(account_of(row), row["role"]) for row in rows], number


async def find_own(reader: Reader, actor: Actor, login: str) -> InOrganization | None:
    """Return the caller's role in the organization, within the token's reach."""
    params = {"user_id": actor.user.id, "login_key": key_of(login), **reach_params(actor)}
    row = await reader.fetch_one(_organization_of_caller, params)
    return InOrganization(account_of(row), row["role"]) if row else None


async def list_collaborators(
    reader: Reader, repository: Repository, affiliation: Affiliation, least: s.Role, page: Page
) -> tuple[list[InRepository], int]:
    """Return the people with at least the role `least`, oldest first, and their number.

    The affiliation `direct` selects people who were added, and `outside` those of them who are not in the organization.
    """
    params = {**_place_params(repository), "least": _ROLES.index(least)}
    rows, number = await read_page(reader, _in_repository[affiliation], params, page)
    return [_in_repository_of(row) for row in rows], number


async def find_somebody(reader: Reader, actor: Actor, repository: Repository, login: str) -> InRepository | None:
    """Return a person in the repository, or another person whom the caller can see, with the role `none`."""
    params = {**_place_params(repository), "login_key": key_of(login), "user_id": actor.user.id, **reach_params(actor)}
    row = await reader.fetch_one(_somebody, params)
    return _in_repository_of(row) if row else None


def _place_params(repository: Repository) -> dict[str, object]:
    return {"owner_id": repository.owner.id, "repository_id": repository.id, "private": repository.private}


def _in_repository_of(row: Row) -> InRepository:
    return InRepository(account_of(row), _ROLES[row["rank"]])


_MEMBERS: tuple[MemberRole, ...] = get_args(MemberRole)
_AFFILIATIONS: tuple[Affiliation, ...] = get_args(Affiliation)
# The role that satisfies each of GitHub's permission names.
_LEAST: dict[str, s.Role] = {"pull": "read", "triage": "write", "push": "write", "maintain": "admin", "admin": "admin"}


routes = Routes(WEBHOOK_API, "support", read="organization.read")


def _organizations(call: Call, found: tuple[list[Account], int]) -> Paged[list[s.OrganizationProfileShape]]:
    return Paged([s.organization_profile_to_response(each, call.base) for each in found[0]], found[1])


def _repositories(call: Call, found: tuple[list[Repository], int]) -> Paged[list[s.RepositoryProfileShape]]:
    return Paged([s.repository_profile_to_response(each, call.base) for each in found[0]], found[1])


async def _get_account(call: Call, login: str) -> Account:
    return await find_visible(call.database, actor_of(call), visible_by_login, login_key=key_of(login))


@routes.get("/user", access="user")
async def user_get(call: Call) -> s.ProfileShape:
    """Get the caller."""
    return s.profile_to_response(actor_of(call).user, call.base, whole=True)


@routes.get("/user/emails", access="user")
async def user_emails(call: Call) -> list[s.Email]:
    """List the caller's e-mail addresses."""
    address = actor_of(call).user.email
    return [s.Email(address, primary=True, verified=True, visibility="private")] if address else []


@routes.get("/user/orgs", access="user")
async def user_organizations(call: Call, page: Page) -> Paged[list[s.OrganizationProfileShape]]:
    """List the caller's organizations."""
    actor = actor_of(call)
    return _organizations(call, await list_shared(call.database, actor, actor.user.id, page))


@routes.get("/user/repos", access="user")
async def user_repositories(call: Call, page: Page) -> Paged[list[s.RepositoryProfileShape]]:
    """List the caller's repositories."""
    return _repositories(call, await list_seen(call.database, actor_of(call), all_seen, page))


@routes.get("/user/teams", access="user")
async def user_teams(call: Call) -> list[s.Team]:
    """List the caller's teams. Always empty."""
    return []


@routes.get("/users/{username}", access="account.read")
async def account_get(call: Call, username: str) -> s.ProfileShape:
    """Get a user or an organization that the caller can see."""
    return _profile(call, await _get_account(call, username))


@routes.get(
    "/users/{username}/gpg_keys",
    name="account_gpg_keys",
    summary="List a user's GPG keys. Always empty",
    access="account.read",
)
@routes.get("/users/{username}/keys", access="account.read")
async def account_keys(call: Call, username: str) -> list[s.PublicKey]:
    """List a user's SSH keys. Always empty."""
    await _get_account(call, username)  # Terraform's `github_user` fails without these two lists
    return []


@routes.get("/users/{username}/orgs", access="account.read")
async def account_organizations(call: Call, username: str, page: Page) -> Paged[list[s.OrganizationProfileShape]]:
    """List the organizations that the caller shares with a user."""
    found = await _get_account(call, username)
    return _organizations(call, await list_shared(call.database, actor_of(call), found.id, page))


@routes.get("/users/{username}/repos", access="account.read")
async def account_repositories(call: Call, username: str, page: Page) -> Paged[list[s.RepositoryProfileShape]]:
    """List an account's repositories that the caller can see."""
    found = await _get_account(call, username)
    seen = await list_seen(call.database, actor_of(call), seen_of_account, page, account_id=found.id)
    return _repositories(call, seen)


@routes.get(
    "/organizations/{organization_id}",
    name="organization_get_by_number",
    summary="Get an organization by its ID",
    path_types={"organization_id": "integer"},
    action="organization.get",
)
@routes.get("/orgs/{org}")
async def organization_get(call: Call) -> s.OrganizationProfileShape:
    """Get an organization."""
    return s.organization_profile_to_response(named_organization(call).account, call.base)


@routes.get("/orgs/{org}/repos")
async def organization_repositories(call: Call, page: Page) -> Paged[list[s.RepositoryProfileShape]]:
    """List the repositories of an organization."""
    actor, place = actor_of(call), named_organization(call).account
    reached = next((each for each in actor.grants or () if each.account_id == place.id), None)
    chosen = None if reached is None else reached.repository_ids
    return _repositories(call, await list_repositories(call.database, place, chosen, actor.user.id, page))


@routes.get(
    "/repositories/{repository_id}",
    name="repository_get_by_number",
    summary="Get a repository by its ID",
    access="repository.read",
    path_types={"repository_id": "integer"},
    action="repository.get",
)
@routes.get("/repos/{owner}/{repo}", access="repository.read")
async def repository_get(call: Call) -> s.RepositoryProfileShape:
    """Get a repository."""
    return s.repository_profile_to_response(named_repository(call), call.base)


@routes.get("/user/{account_id}", access="account.read", action="account.get")
async def account_get_by_number(call: Call, account_id: int) -> s.ProfileShape:
    """Get a user or an organization by its ID."""
    return _profile(call, await find_visible(call.database, actor_of(call), visible_by_id, id=account_id))


def _profile(call: Call, found: Account) -> s.ProfileShape:
    return s.profile_to_response(found, call.base, whole=found.id == actor_of(call).user.id)


def _choice(name: str, description: str, *known: str, default: str = "") -> Query:
    schema = {"enum": list(known)}
    return Query(name, description, {**schema, "default": default} if default else schema)


@routes.get(
    "/user/memberships/orgs",
    access="user",
    query=(_choice("state", "`pending`: the caller is invited. Default: both.", "active", "pending"),),
)
async def user_memberships(call: Call, page: Page) -> Paged[list[s.Membership]]:
    """List the caller's organization memberships."""
    state = call.query_choice("state", ("all", "active", "pending"))
    actor = actor_of(call)
    shapes: list[s.Membership] = []
    active = pending = 0
    if state != "pending":
        found, active = await list_own(call.database, actor, page)
        shapes = [s.membership_to_response(each.account, actor.user, each.role, call.base) for each in found]
    if state != "active":  # pending ones come last
        room = page.limit - len(shapes)
        rest = Page(max(1, room), max(0, page.offset - active))
        waiting, pending = await invitations.list_for(call.database, actor.user, Account, rest)
        shapes += [s.pending_membership_to_response(each, actor.user, call.base) for each in waiting[:room]]
    return Paged(shapes, active + pending)


@routes.get("/user/memberships/orgs/{org}", access="organization.membership")
async def user_membership(call: Call) -> s.Membership:
    """Get the caller's membership in an organization.

    `state` is `pending` if the caller is invited.
    """
    found, user = named_organization(call), actor_of(call).user
    if found.role is not None:
        return s.membership_to_response(found.account, user, found.role, call.base)
    waiting = await invitations.find_to_organization(call.database, user, key_of(found.account.login))
    if not waiting:  # it has just ended
        raise NotFound()
    return s.pending_membership_to_response(waiting[0], user, call.base)


@routes.get(
    "/orgs/{org}/members",
    query=(
        _choice("role", "`admin`: owners; `member`: the others.", *_MEMBERS, default="all"),
        _choice("filter", "Only `all` is supported.", "all", default="all"),
    ),
)
async def organization_members(call: Call, page: Page) -> Paged[list[OwnerShape]]:
    """List the members of an organization.

    Bots of its apps, and outside collaborators who were added to a repository, are not included.
    """
    call.query_choice("filter", ("all",))
    role = cast(MemberRole, call.query_choice("role", _MEMBERS))
    found, total = await list_people(call.database, named_organization(call).account.id, page, role)
    return Paged([owner_to_response(each.account, call.base) for each in found], total)


@routes.get("/orgs/{org}/members/{username}")
async def organization_member_check(call: Call, username: str) -> None:
    """Check whether a user is a member of an organization."""
    require_found(await find_member(call.database, named_organization(call).account.id, username))


@routes.get("/orgs/{org}/memberships/{username}")
async def organization_membership(call: Call, username: str) -> s.Membership:
    """Get a user's membership in an organization."""
    place = named_organization(call)
    member = await find_member(call.database, place.account.id, username)
    if member is not None:
        return s.membership_to_response(place.account, member.account, member.role, call.base)
    # Owners can also see pending invitations.
    person = require_found(await find_account(call.database, username) if place.role == "owner" else None)
    pending = await invitations.find_pending(call.database, place.account, person, actor_of(call).user)
    return s.pending_membership_to_response(require_found(pending), person, call.base)


@routes.get(
    "/repos/{owner}/{repo}/collaborators",
    access="repository.collaborators",
    query=(
        _choice("affiliation", "`direct`: people who were added; `outside`: those not in the organization.",
                *_AFFILIATIONS, default="all"),
        _choice("permission", "Only people with at least this permission.", *_LEAST),
    ),
)  # fmt: skip
async def repository_collaborators(call: Call, page: Page) -> Paged[list[s.CollaboratorShape]]:
    """List the collaborators of a repository.

    Returns the organization's owners, its members (unless the repository is private), and people who were added to the
    repository. Clients of the project are not included.
    """
    affiliation = cast(Affiliation, call.query_choice("affiliation", _AFFILIATIONS))
    least = _LEAST[call.query_choice("permission", tuple(_LEAST))]
    repository = named_repository(call)
    found, total = await list_collaborators(call.database, repository, affiliation, least, page)
    return Paged([s.collaborator_to_response(each.account, each.role, call.base) for each in found], total)


@routes.get("/repos/{owner}/{repo}/collaborators/{username}", access="repository.collaborators")
async def repository_collaborator_check(call: Call, username: str) -> None:
    """Check whether a user is a collaborator of a repository."""
    if (await _require_somebody(call, username)).role == "none":
        raise NotFound()


@routes.get("/repos/{owner}/{repo}/collaborators/{username}/permission", access="repository.collaborators")
async def repository_collaborator_permission(call: Call, username: str) -> s.CollaboratorPermission:
    """Get a user's permission in a repository.

    Returns `none` for people who share an organization with the caller but are not in the repository.
    """
    found = await _require_somebody(call, username)
    shape = s.collaborator_to_response(found.account, found.role, call.base)
    return s.CollaboratorPermission(permission=found.role, role_name=found.role, user=shape)


async def _require_somebody(call: Call, login: str) -> InRepository:
    """Raise `NotFound` for a person who is neither in the repository nor visible elsewhere."""
    return require_found(await find_somebody(call.database, actor_of(call), named_repository(call), login))
