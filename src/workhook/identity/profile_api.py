"""Who the caller is and what it is in, who others are, and an organization's and a repository's own page.

Who is in these: `identity.member_api`.
"""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_B, Operation
from workhook.http.paging import PAGING, page_link, page_of
from workhook.identity import profile_queries
from workhook.identity.apps.app_queries import list_repositories
from workhook.identity.guard import actor_of, caller_of
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
from workhook.identity.schemas import Account


async def user(call: Call) -> Answer:
    return Answer(profile_shape(actor_of(call).user, call.base, whole=True))


async def emails(call: Call) -> Answer:
    address = actor_of(call).user.email
    return Answer([Email(address, primary=True, verified=True, visibility="private")] if address else [])


async def organizations(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await profile_queries.list_shared(
        call.database, actor_of(call), actor_of(call).user.id, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [organization_profile_shape(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def repositories(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await profile_queries.list_own_repositories(
        call.database, actor_of(call), limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [repository_profile_shape(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def teams(call: Call) -> Answer:
    return Answer([])


async def account(call: Call) -> Answer:
    return _profile(call, await _visible(call))


async def account_organizations(call: Call) -> Answer:
    found, (page, per_page) = await _visible(call), page_of(call)
    shared, total = await profile_queries.list_shared(
        call.database, actor_of(call), found.id, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [organization_profile_shape(each, call.base) for each in shared]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def account_repositories(call: Call) -> Answer:
    found, (page, per_page) = await _visible(call), page_of(call)
    owned, total = await profile_queries.list_repositories_of(
        call.database, actor_of(call), found, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [repository_profile_shape(each, call.base) for each in owned]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def keys(call: Call) -> Answer:
    """Who reads a user reads these along: Terraform's `github_user` has no answer at all without them."""
    await _visible(call)
    return Answer([])


async def account_by_number(call: Call) -> Answer:
    number = call.path_integer("account_id")
    return _profile(call, _seen(await profile_queries.find_visible_by_id(call.database, actor_of(call), number)))


def _profile(call: Call, found: Account) -> Answer:
    return Answer(profile_shape(found, call.base, whole=found.id == actor_of(call).user.id))


async def _visible(call: Call) -> Account:
    """Whom the path names. Raises `NotFound` for those whom the caller does not see."""
    return _seen(await profile_queries.find_visible(call.database, actor_of(call), call.path("username")))


def _seen(found: Account | None) -> Account:
    if found is None:
        raise NotFound()
    return found


async def organization(call: Call) -> Answer:
    return Answer(organization_profile_shape(_organization(call), call.base))


async def organization_repositories(call: Call) -> Answer:
    actor, place = actor_of(call), _organization(call)
    page, per_page = page_of(call)
    reached = next((each for each in actor.reaches or () if each.account_id == place.id), None)
    found, total = await list_repositories(
        call.database,
        place,
        None if reached is None else reached.repository_ids,
        actor.user.id,
        limit=per_page,
        offset=(page - 1) * per_page,
    )
    shapes = [repository_profile_shape(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def repository(call: Call) -> Answer:
    found = caller_of(call).repository
    assert found is not None, "the operation's rule names a repository"
    return Answer(repository_profile_shape(found, call.base))


def _organization(call: Call) -> Account:
    found = caller_of(call).organization
    assert found is not None, "the operation's rule names an organization"
    return found.account


def _op(path: str, name: str, summary: str, access: str, handler: object, answer: object, **more: object) -> Operation:
    return Operation(
        AREA_B, "GET", path, handler, name, summary, access, "support",  # type: ignore[arg-type]  # passed through
        **{"answers": {200: answer}, **more},  # type: ignore[arg-type]  # likewise
    )  # fmt: skip


def _list(path: str, name: str, summary: str, access: str, handler: object, item: object) -> Operation:
    return _op(path, name, summary, access, handler, item, query=PAGING, problems=(422,))


_ORG = "organization.read"

OPERATIONS = (
    _op("/user", "user_get", "The caller", "user", user, ProfileShape),
    _op("/user/emails", "user_emails", "The caller's e-mail address", "user", emails, list[Email]),
    _list("/user/orgs", "user_organizations", "The organizations that the caller is in", "user", organizations,
          list[OrganizationProfileShape]),
    _list("/user/repos", "user_repositories", "The repositories in which the caller has a place", "user", repositories,
          list[RepositoryProfileShape]),
    _op("/user/teams", "user_teams", "The caller's teams: there are none", "user", teams, list[Team]),
    _op("/users/{username}", "account_get", "The caller, an organization, or somebody of the same one", "account.read",
        account, ProfileShape),
    _op("/users/{username}/keys", "account_keys", "SSH keys of somebody: there are none", "account.read", keys,
        list[Key]),
    _op("/users/{username}/gpg_keys", "account_gpg_keys", "GPG keys of somebody: there are none", "account.read", keys,
        list[Key]),
    _list("/users/{username}/orgs", "account_organizations", "The organizations that the caller is in with somebody",
          "account.read", account_organizations, list[OrganizationProfileShape]),
    _list("/users/{username}/repos", "account_repositories", "The repositories of somebody that the caller sees",
          "account.read", account_repositories, list[RepositoryProfileShape]),
    _op("/orgs/{org}", "organization_get", "An organization", _ORG, organization, OrganizationProfileShape),
    _list("/orgs/{org}/repos", "organization_repositories", "The repositories of an organization", _ORG,
          organization_repositories, list[RepositoryProfileShape]),
    _op("/repos/{owner}/{repo}", "repository_get", "A repository", "repository.read", repository,
        RepositoryProfileShape),
    _op("/user/{account_id}", "account_get_by_number", "The same as /users/{username}, by its number", "account.read",
        account_by_number, ProfileShape, path_types={"account_id": "integer"}),
    _op("/organizations/{organization_id}", "organization_get_by_number", "An organization, by its number", _ORG,
        organization, OrganizationProfileShape, path_types={"organization_id": "integer"}),
    _op("/repositories/{repository_id}", "repository_get_by_number", "A repository, by its number", "repository.read",
        repository, RepositoryProfileShape, path_types={"repository_id": "integer"}),
)  # fmt: skip
