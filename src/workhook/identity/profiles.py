"""Who the caller is and what it is in, who others are, and an organization's and a repository's own page.

Who is in these: `identity.members`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from workhook.core.errors import NotFound
from workhook.http.calls import Call
from workhook.http.endpoints import Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import profile_schemas as s
from workhook.identity.apps.queries import list_repositories, sees
from workhook.identity.authenticator import actor_of, named_organization, named_repository
from workhook.identity.queries import account_columns, key_of, repositories, repository_of
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params, within_reach
from workhook.storage.database import Reader
from workhook.storage.metadata import big
from workhook.storage.pages import Listed, Page, listed, read_page

_theirs = memberships.alias("theirs")
# The organizations that the caller and somebody are both in; the caller's own are those with itself.
_shared = listed(
    sa.select(*account_columns())
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .join(_theirs, _theirs.c.organization_id == memberships.c.organization_id)
    .where(
        memberships.c.user_id == big("user_id"),
        _theirs.c.user_id == big("other_id"),
        within_reach(memberships.c.organization_id, None),
    ),
    accounts.c.id,
)

# By what the user is in, so that it costs nothing how many others the server has.
_seen = repositories.where(
    sa.or_(
        projects.c.account_id == big("user_id"),
        projects.c.account_id.in_(
            sa.select(memberships.c.organization_id).where(memberships.c.user_id == big("user_id"))
        ),
        projects.c.repository_id.in_(
            sa.select(collaborators.c.repository_id).where(collaborators.c.user_id == big("user_id"))
        ),
    ),
    sa.or_(projects.c.account_id == big("user_id"), sees),
    within_reach(projects.c.account_id, projects.c.repository_id),
)
all_seen = listed(_seen, projects.c.repository_id)
seen_of_account = listed(_seen.where(projects.c.account_id == big("account_id")), projects.c.repository_id)

_in_it = (
    sa.select(memberships.c.role)
    .where(
        memberships.c.user_id == big("user_id"),
        memberships.c.organization_id == accounts.c.id,
        within_reach(memberships.c.organization_id, None),
    )
    .correlate(accounts)
    .exists()
)
_fellow = (
    sa.select(_theirs.c.role)
    .join_from(memberships, _theirs, _theirs.c.organization_id == memberships.c.organization_id)
    .where(
        memberships.c.user_id == big("user_id"),
        _theirs.c.user_id == accounts.c.id,
        within_reach(memberships.c.organization_id, None),
    )
    .correlate(accounts)
    .exists()
)
is_visible = sa.or_(accounts.c.id == big("user_id"), _in_it, _fellow)
"""The caller, an organization that the caller is in, or somebody who is in one of these; nobody else. `reach_params`
and `user_id` are its parameters."""
_visible = sa.select(*account_columns()).where(is_visible)
visible_by_login = _visible.where(accounts.c.login_key == sa.bindparam("login_key"))
visible_by_id = _visible.where(accounts.c.id == big("id"))


routes = Routes(WEBHOOK_API, "support")


async def list_shared(reader: Reader, actor: Actor, user_id: int, page: Page) -> tuple[list[Account], int]:
    """The organizations that the caller and the user are in, as far as the token reaches, oldest first; and how many
    there are."""
    params = {"user_id": actor.user.id, "other_id": user_id, **reach_params(actor)}
    rows, number = await read_page(reader, _shared, params, page)
    return [account_of(row) for row in rows], number


async def list_seen(
    reader: Reader, actor: Actor, which: Listed, page: Page, **others: object
) -> tuple[list[Repository], int]:
    """Those in which the caller has a place, as far as the token reaches, oldest first; and how many there are."""
    rows, number = await read_page(reader, which, {"user_id": actor.user.id, **reach_params(actor), **others}, page)
    return [repository_of(row, actor.user.id) for row in rows], number


async def find_visible(reader: Reader, actor: Actor, which: sa.Select[Any], **others: object) -> Account:
    """Raises `NotFound` for those whom the caller does not see."""
    row = await reader.fetch_one(which, {"user_id": actor.user.id, **reach_params(actor), **others})
    if row is None:
        raise NotFound()
    return account_of(row)


def _organizations(call: Call, found: tuple[list[Account], int]) -> Paged[list[s.OrganizationProfileShape]]:
    return Paged([s.organization_profile_shape(each, call.base) for each in found[0]], found[1])


def _repositories(call: Call, found: tuple[list[Repository], int]) -> Paged[list[s.RepositoryProfileShape]]:
    return Paged([s.repository_profile_shape(each, call.base) for each in found[0]], found[1])


async def _named(call: Call, login: str) -> Account:
    return await find_visible(call.database, actor_of(call), visible_by_login, login_key=key_of(login))


@routes.get("/user", access="user")
async def user_get(call: Call) -> s.ProfileShape:
    """The caller."""
    return s.profile_shape(actor_of(call).user, call.base, whole=True)


@routes.get("/user/emails", access="user")
async def user_emails(call: Call) -> list[s.Email]:
    """Get the caller's e-mail address."""
    address = actor_of(call).user.email
    return [s.Email(address, primary=True, verified=True, visibility="private")] if address else []


@routes.get("/user/orgs", access="user")
async def user_organizations(call: Call, page: Page) -> Paged[list[s.OrganizationProfileShape]]:
    """List the organizations that the caller is in."""
    actor = actor_of(call)
    return _organizations(call, await list_shared(call.database, actor, actor.user.id, page))


@routes.get("/user/repos", access="user")
async def user_repositories(call: Call, page: Page) -> Paged[list[s.RepositoryProfileShape]]:
    """List the repositories that the caller is in."""
    return _repositories(call, await list_seen(call.database, actor_of(call), all_seen, page))


@routes.get("/user/teams", access="user")
async def user_teams(call: Call) -> list[s.Team]:
    """List the caller's teams: always empty."""
    return []


@routes.get("/users/{username}", access="account.read")
async def account_get(call: Call, username: str) -> s.ProfileShape:
    """Get a user or an organization that the caller sees."""
    return _profile(call, await _named(call, username))


@routes.get(
    "/users/{username}/gpg_keys",
    name="account_gpg_keys",
    summary="List somebody's GPG keys: always empty",
    access="account.read",
)
@routes.get("/users/{username}/keys", access="account.read")
async def account_keys(call: Call, username: str) -> list[s.Key]:
    """List somebody's SSH keys: always empty."""
    await _named(call, username)  # Terraform's `github_user` has no answer at all without these two lists
    return []


@routes.get("/users/{username}/orgs", access="account.read")
async def account_organizations(call: Call, username: str, page: Page) -> Paged[list[s.OrganizationProfileShape]]:
    """List the organizations that the caller and the user are both in."""
    found = await _named(call, username)
    return _organizations(call, await list_shared(call.database, actor_of(call), found.id, page))


@routes.get("/users/{username}/repos", access="account.read")
async def account_repositories(call: Call, username: str, page: Page) -> Paged[list[s.RepositoryProfileShape]]:
    """List the repositories of an account that the caller sees."""
    found = await _named(call, username)
    return _repositories(
        call, await list_seen(call.database, actor_of(call), seen_of_account, page, account_id=found.id)
    )


@routes.get(
    "/organizations/{organization_id}",
    name="organization_get_by_number",
    summary="Get an organization by its id",
    access="organization.read",
    path_types={"organization_id": "integer"},
    action="organization.get",
)
@routes.get("/orgs/{org}", access="organization.read")
async def organization_get(call: Call) -> s.OrganizationProfileShape:
    """Get an organization."""
    return s.organization_profile_shape(named_organization(call).account, call.base)


@routes.get("/orgs/{org}/repos", access="organization.read")
async def organization_repositories(call: Call, page: Page) -> Paged[list[s.RepositoryProfileShape]]:
    """List the repositories of an organization."""
    actor, place = actor_of(call), named_organization(call).account
    reached = next((each for each in actor.grants or () if each.account_id == place.id), None)
    chosen = None if reached is None else reached.repository_ids
    return _repositories(call, await list_repositories(call.database, place, chosen, actor.user.id, page))


@routes.get(
    "/repositories/{repository_id}",
    name="repository_get_by_number",
    summary="Get a repository by its id",
    access="repository.read",
    path_types={"repository_id": "integer"},
    action="repository.get",
)
@routes.get("/repos/{owner}/{repo}", access="repository.read")
async def repository_get(call: Call) -> s.RepositoryProfileShape:
    """A repository."""
    return s.repository_profile_shape(named_repository(call), call.base)


@routes.get("/user/{account_id}", access="account.read", action="account.get")
async def account_get_by_number(call: Call, account_id: int) -> s.ProfileShape:
    """Get a user or an organization by its id."""
    return _profile(call, await find_visible(call.database, actor_of(call), visible_by_id, id=account_id))


def _profile(call: Call, found: Account) -> s.ProfileShape:
    return s.profile_shape(found, call.base, whole=found.id == actor_of(call).user.id)
