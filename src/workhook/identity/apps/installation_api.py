"""What is asked with the tokens of apps: which repositories are reached, and which installations a user has."""

from __future__ import annotations

from workhook.core.errors import Forbidden, NotFound
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_B, Operation
from workhook.http.paging import PAGING, page_link, page_of
from workhook.identity.apps import access_tokens, app_queries
from workhook.identity.apps.app_schemas import (
    InstallationRepositories,
    UserInstallations,
    app_repository_shape,
    installation_shape,
)
from workhook.identity.guard import actor_of
from workhook.identity.schemas import Account, Actor


async def installation_repositories(call: Call) -> Answer:
    """Those that the token reaches, which may be fewer than the installation does."""
    actor = actor_of(call)
    assert actor.installation_id is not None, "the rule takes tokens of installations alone"
    assert actor.app_id is not None
    installation = await app_queries.find_own(call.database, actor.app_id, actor.installation_id)
    if installation is None:
        raise NotFound()
    [reach] = actor.reaches or ()
    return await _repositories(call, actor, installation.account, reach.repository_ids)


async def revoke_installation_token(call: Call) -> Answer:
    await call.database.in_transaction(lambda tx: access_tokens.give_up(tx, actor_of(call)))
    return Answer(status=204)


async def user_installations(call: Call) -> Answer:
    actor = actor_of(call)
    page, per_page = page_of(call)
    found, total = await app_queries.list_of_user(
        call.database,
        actor.app_id or 0,
        actor.user.id,
        limit=per_page,
        offset=(page - 1) * per_page,
        place_id=actor.narrowed_to,
    )
    body = UserInstallations(total, [installation_shape(each, call.base) for each in found])
    return Answer(body, headers=page_link(call, page=page, per_page=per_page, total=total))


async def user_installation_repositories(call: Call) -> Answer:
    """Those of the installation that the user sees, too; with a token that was narrowed to some, of these."""
    actor = actor_of(call)
    installation = await app_queries.find_of_user(
        call.database,
        actor.app_id or 0,
        actor.user.id,
        call.path_integer("installation_id"),
        place_id=actor.narrowed_to,
    )
    if installation is None:
        raise NotFound()
    if installation.suspended_at is not None:
        raise Forbidden("This installation has been suspended", code="suspended")
    ids = installation.repository_ids
    if actor.narrowed_to is not None:
        ids = next((each.repository_ids for each in actor.reaches or ()), frozenset())
    return await _repositories(call, actor, installation.account, ids)


async def _repositories(call: Call, actor: Actor, account: Account, repository_ids: frozenset[int] | None) -> Answer:
    page, per_page = page_of(call)
    found, total = await app_queries.list_repositories(
        call.database, account, repository_ids, actor.user.id, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [app_repository_shape(each, call.base) for each in found]
    body = InstallationRepositories(total, "all" if repository_ids is None else "selected", shapes)
    return Answer(body, headers=page_link(call, page=page, per_page=per_page, total=total))


def _op(method: str, path: str, name: str, summary: str, access: str, handler: object, **more: object) -> Operation:
    return Operation(
        AREA_B, method, path, handler, name, summary, access, "apps",  # type: ignore[arg-type]  # passed through
        path_types={"installation_id": "integer"}, **more,  # type: ignore[arg-type]  # likewise
    )  # fmt: skip


OPERATIONS = (
    _op("GET", "/installation/repositories", "installation_repositories_list",
        "List the repositories that an installation access token reaches", "installation", installation_repositories,
        query=PAGING, answers={200: InstallationRepositories}, problems=(422,)),
    _op("DELETE", "/installation/token", "installation_token_revoke", "Revoke the token that is used for this call",
        "installation", revoke_installation_token, answers={204: None}),
    _op("GET", "/user/installations", "user_installations_list",
        "List the app's installations that the user has a part in", "user.installations", user_installations,
        query=PAGING, answers={200: UserInstallations}, problems=(422,)),
    _op("GET", "/user/installations/{installation_id}/repositories", "user_installation_repositories_list",
        "List the repositories of an installation that the user sees", "user.installations",
        user_installation_repositories, query=PAGING, answers={200: InstallationRepositories}, problems=(422,)),
)  # fmt: skip
