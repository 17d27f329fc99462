"""What is asked with the tokens of apps: which repositories are reached, and which installations a user has."""

from __future__ import annotations

from workhook.core.errors import Forbidden, NotFound
from workhook.http.calls import Call
from workhook.http.endpoints import Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity.apps import access_tokens, queries
from workhook.identity.apps.app_schemas import (
    InstallationRepositories,
    UserInstallations,
    app_repository_shape,
    installation_shape,
)
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Account
from workhook.storage.pages import Page

routes = Routes(WEBHOOK_API, "apps")


@routes.get("/installation/repositories", access="installation")
async def installation_repositories_list(call: Call, page: Page) -> Paged[InstallationRepositories]:
    """List the repositories that an installation access token reaches."""
    actor = actor_of(call)
    assert actor.installation_id is not None, "the rule takes tokens of installations alone"
    assert actor.app_id is not None
    installation = await queries.find_own(call.database, actor.app_id, actor.installation_id)
    if installation is None:
        raise NotFound()
    [reach] = actor.reaches or ()  # which may be less than the installation's
    return await _repositories(call, installation.account, reach.repository_ids, page)


@routes.delete("/installation/token", access="installation")
async def installation_token_revoke(write: Write) -> None:
    """Revoke the token that is used for this call."""
    await access_tokens.give_up(write.tx, write.actor)


@routes.get("/user/installations", access="user.installations")
async def user_installations_list(call: Call, page: Page) -> Paged[UserInstallations]:
    """List the app's installations that the user has a part in."""
    actor = actor_of(call)
    found, total = await queries.list_of_user(
        call.database, actor.app_id or 0, actor.user.id, page, place_id=actor.narrowed_to
    )
    return Paged(UserInstallations(total, [installation_shape(each, call.base) for each in found]), total)


@routes.get("/user/installations/{installation_id}/repositories", access="user.installations")
async def user_installation_repositories_list(
    call: Call, installation_id: int, page: Page
) -> Paged[InstallationRepositories]:
    """List the repositories of an installation that the user sees."""
    actor = actor_of(call)
    installation = await queries.find_of_user(
        call.database, actor.app_id or 0, actor.user.id, installation_id, place_id=actor.narrowed_to
    )
    if installation is None:
        raise NotFound()
    if installation.suspended_at is not None:
        raise Forbidden("This installation has been suspended", code="suspended")
    ids = installation.repository_ids
    if actor.narrowed_to is not None:  # the token reaches only some of them
        ids = next((each.repository_ids for each in actor.reaches or ()), frozenset())
    return await _repositories(call, installation.account, ids, page)


async def _repositories(
    call: Call, account: Account, ids: frozenset[int] | None, page: Page
) -> Paged[InstallationRepositories]:
    found, total = await queries.list_repositories(call.database, account, ids, actor_of(call).user.id, page)
    shapes = [app_repository_shape(each, call.base) for each in found]
    return Paged(InstallationRepositories(total, "all" if ids is None else "selected", shapes), total)
