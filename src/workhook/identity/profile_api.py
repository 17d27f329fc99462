"""Who the caller is and what it is in, who others are, and an organization's and a repository's own page.

Who is in these: `identity.member_api`.
"""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import Call
from workhook.http.endpoints import Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import profile_queries
from workhook.identity.apps.app_queries import list_repositories
from workhook.identity.authenticator import actor_of, named_organization, named_repository
from workhook.identity.profile_schemas import (
    Email,
    Key,
    OrganizationProfileShape,
    ProfileShape,
    RepositoryProfileShape,
    Team,
    organization_profile_shape,
    profile_shape,
    repository_profile_shape,
)
from workhook.identity.schemas import Account, Repository
from workhook.storage.pages import Page

routes = Routes(WEBHOOK_API, "support")


def _organizations(call: Call, found: tuple[list[Account], int]) -> Paged[list[OrganizationProfileShape]]:
    return Paged([organization_profile_shape(each, call.base) for each in found[0]], found[1])


def _repositories(call: Call, found: tuple[list[Repository], int]) -> Paged[list[RepositoryProfileShape]]:
    return Paged([repository_profile_shape(each, call.base) for each in found[0]], found[1])


@routes.get("/user", access="user")
async def user_get(call: Call) -> ProfileShape:
    """The caller."""
    return profile_shape(actor_of(call).user, call.base, whole=True)


@routes.get("/user/emails", access="user")
async def user_emails(call: Call) -> list[Email]:
    """The caller's e-mail address."""
    address = actor_of(call).user.email
    return [Email(address, primary=True, verified=True, visibility="private")] if address else []


@routes.get("/user/orgs", access="user")
async def user_organizations(call: Call, page: Page) -> Paged[list[OrganizationProfileShape]]:
    """The organizations that the caller is in."""
    actor = actor_of(call)
    return _organizations(call, await profile_queries.list_shared(call.database, actor, actor.user.id, page))


@routes.get("/user/repos", access="user")
async def user_repositories(call: Call, page: Page) -> Paged[list[RepositoryProfileShape]]:
    """The repositories in which the caller has a place."""
    return _repositories(call, await profile_queries.list_own_repositories(call.database, actor_of(call), page))


@routes.get("/user/teams", access="user")
async def user_teams(call: Call) -> list[Team]:
    """The caller's teams: there are none."""
    return []


@routes.get("/users/{username}", access="account.read")
async def account_get(call: Call, username: str) -> ProfileShape:
    """The caller, an organization, or somebody of the same one."""
    return _profile(call, await _visible(call, username))


@routes.get(
    "/users/{username}/gpg_keys",
    name="account_gpg_keys",
    summary="GPG keys of somebody: there are none",
    access="account.read",
)
@routes.get("/users/{username}/keys", access="account.read")
async def account_keys(call: Call, username: str) -> list[Key]:
    """SSH keys of somebody: there are none."""
    await _visible(call, username)  # Terraform's `github_user` has no answer at all without these two lists
    return []


@routes.get("/users/{username}/orgs", access="account.read")
async def account_organizations(call: Call, username: str, page: Page) -> Paged[list[OrganizationProfileShape]]:
    """The organizations that the caller is in with somebody."""
    found = await _visible(call, username)
    return _organizations(call, await profile_queries.list_shared(call.database, actor_of(call), found.id, page))


@routes.get("/users/{username}/repos", access="account.read")
async def account_repositories(call: Call, username: str, page: Page) -> Paged[list[RepositoryProfileShape]]:
    """The repositories of somebody that the caller sees."""
    found = await _visible(call, username)
    return _repositories(call, await profile_queries.list_repositories_of(call.database, actor_of(call), found, page))


@routes.get(
    "/organizations/{organization_id}",
    name="organization_get_by_number",
    summary="An organization, by its number",
    access="organization.read",
    path_types={"organization_id": "integer"},
)
@routes.get("/orgs/{org}", access="organization.read")
async def organization_get(call: Call) -> OrganizationProfileShape:
    """An organization."""
    return organization_profile_shape(named_organization(call).account, call.base)


@routes.get("/orgs/{org}/repos", access="organization.read")
async def organization_repositories(call: Call, page: Page) -> Paged[list[RepositoryProfileShape]]:
    """The repositories of an organization."""
    actor, place = actor_of(call), named_organization(call).account
    reached = next((each for each in actor.reaches or () if each.account_id == place.id), None)
    chosen = None if reached is None else reached.repository_ids
    return _repositories(call, await list_repositories(call.database, place, chosen, actor.user.id, page))


@routes.get(
    "/repositories/{repository_id}",
    name="repository_get_by_number",
    summary="A repository, by its number",
    access="repository.read",
    path_types={"repository_id": "integer"},
)
@routes.get("/repos/{owner}/{repo}", access="repository.read")
async def repository_get(call: Call) -> RepositoryProfileShape:
    """A repository."""
    return repository_profile_shape(named_repository(call), call.base)


@routes.get("/user/{account_id}", access="account.read")
async def account_get_by_number(call: Call, account_id: int) -> ProfileShape:
    """The same as /users/{username}, by its number."""
    return _profile(call, _seen(await profile_queries.find_visible_by_id(call.database, actor_of(call), account_id)))


def _profile(call: Call, found: Account) -> ProfileShape:
    return profile_shape(found, call.base, whole=found.id == actor_of(call).user.id)


async def _visible(call: Call, login: str) -> Account:
    """Raises `NotFound` for those whom the caller does not see."""
    return _seen(await profile_queries.find_visible(call.database, actor_of(call), login))


def _seen(found: Account | None) -> Account:
    if found is None:
        raise NotFound()
    return found
