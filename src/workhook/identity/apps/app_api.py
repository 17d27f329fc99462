"""What an app asks for itself, with the JWT that its key signs."""

from __future__ import annotations

from workhook.core.clock import to_seconds_text
from workhook.core.errors import Forbidden, NotFound
from workhook.http.calls import NOT_KEPT, Call
from workhook.http.endpoints import Created, Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import audit
from workhook.identity import queries as account_queries
from workhook.identity.apps import access_tokens, installing, queries
from workhook.identity.apps import app_schemas as s
from workhook.identity.apps.schemas import Installation
from workhook.identity.authenticator import actor_of, app_of
from workhook.identity.context import Write
from workhook.identity.schemas import Account
from workhook.identity.tokens.issue import revoke
from workhook.storage import Reader
from workhook.storage.pages import Page

_ONE = "/app/installations/{installation_id}"

routes = Routes(WEBHOOK_API, "apps", read="app", write="app")


async def _own(call: Call, reader: Reader, number: int) -> Installation:
    return _existing(await queries.find_own(reader, app_of(call).id, number))


def _existing(installation: Installation | None) -> Installation:
    if installation is None:
        raise NotFound()
    return installation


@routes.get("/app")
async def app_get(call: Call) -> s.IntegrationShape:
    """The app itself."""
    app = app_of(call)
    owner = await account_queries.find_account_by_id(call.database, app.account_id)
    assert owner is not None, "an app belongs to an organization"
    return s.integration_shape(app, owner, await queries.count_installations_of(call.database, app.id), call.base)


@routes.get("/app/installations")
async def app_installations_list(call: Call, page: Page) -> Paged[list[s.InstallationShape]]:
    """List the app's installations."""
    found, total = await queries.list_installations_of(call.database, app_of(call).id, page)
    return Paged([s.installation_shape(each, call.base) for each in found], total)


@routes.get(_ONE)
async def app_installations_get(call: Call, installation_id: int) -> s.InstallationShape:
    """Get an installation of the app."""
    return s.installation_shape(await _own(call, call.database, installation_id), call.base)


@routes.delete(_ONE)
async def app_installations_delete(write: Write, installation_id: int) -> None:
    """Uninstall the app from an organization."""
    await installing.uninstall(write.tx, None, await _own(write.call, write.tx, installation_id))


@routes.post(f"{_ONE}/access_tokens", body=s.AccessTokenBody | None, etag=False)
async def app_access_tokens_create(call: Call, installation_id: int) -> Created[s.InstallationTokenShape]:
    """Create an installation access token."""
    wanted = access_tokens.parse(await call.json_object(null=True), s.AccessTokenBody)
    app = app_of(call)
    made = await call.database.in_transaction(lambda tx: access_tokens.create(tx, app, installation_id, wanted))
    assert made.issued.expires_at is not None, "tokens of installations have an end"
    shape = s.InstallationTokenShape(
        token=made.issued.token,
        expires_at=to_seconds_text(made.issued.expires_at),
        permissions=s.levels(made.permissions),
        repository_selection=s.selection_of(made.repository_ids),
    )
    if made.named is not None:
        shape.repositories = [s.app_repository_shape(each, call.base) for each in made.named]
    # Where the token itself, as the credential, finds what it is: it is deleted there.
    return Created(shape, f"{call.base}/installation/token", NOT_KEPT)


@routes.put(f"{_ONE}/suspended")
async def app_installations_suspend(write: Write, installation_id: int) -> None:
    """Suspend an installation."""
    await installing.suspend(write.tx, None, await _own(write.call, write.tx, installation_id), by="app")


@routes.delete(f"{_ONE}/suspended")
async def app_installations_unsuspend(write: Write, installation_id: int) -> None:
    """Take up a suspended installation again.

    One that the app itself has suspended: what an owner has, an owner takes back.
    """
    await installing.unsuspend(write.tx, None, await _own(write.call, write.tx, installation_id), by="app")


@routes.get("/orgs/{org}/installation")
async def app_installation_of_organization(call: Call, org: str) -> s.InstallationShape:
    """Get the app's installation on an organization."""
    found = _existing(await queries.find_on(call.database, app_of(call), org))
    if found.account.kind != "organization":
        raise NotFound()
    return s.installation_shape(found, call.base)


@routes.get("/repos/{owner}/{repo}/installation")
async def app_installation_of_repository(call: Call, owner: str, repo: str) -> s.InstallationShape:
    """Get the app's installation that reaches a repository."""
    found = await queries.find_reaching(call.database, app_of(call), owner, repo)
    return s.installation_shape(_existing(found), call.base)


@routes.get("/repositories/{repository_id}/installation")
async def app_installation_of_repository_by_number(call: Call, repository_id: int) -> s.InstallationShape:
    """The same, by the repository's number."""
    found = await queries.find_reaching_by_id(call.database, app_of(call), repository_id)
    return s.installation_shape(_existing(found), call.base)


@routes.get("/app/installation-requests")
async def app_installation_requests(call: Call) -> list[s.InstallationRequest]:
    """Who has asked for the app to be installed: nobody, since owners install it themselves."""
    return []


@routes.get("/users/{username}/installation")
async def app_installation_of_user(call: Call, username: str) -> s.InstallationShape:
    """Get the app's installation on an account."""
    found = await queries.find_on(call.database, app_of(call), username)
    return s.installation_shape(_existing(found), call.base)


@routes.get("/installation/repositories", access="installation")
async def installation_repositories_list(call: Call, page: Page) -> Paged[s.InstallationRepositories]:
    """List the repositories that an installation access token reaches."""
    actor = actor_of(call)
    assert actor.installation_id is not None, "the rule takes tokens of installations alone"
    assert actor.app_id is not None
    installation = await queries.find_own(call.database, actor.app_id, actor.installation_id)
    if installation is None:
        raise NotFound()
    [reach] = actor.grants or ()  # which may be less than the installation's
    return await _repositories(call, installation.account, reach.repository_ids, page)


@routes.delete("/installation/token", access="installation")
async def installation_token_revoke(write: Write) -> None:
    """Revoke the token that is used for this call."""
    actor = write.actor
    [grant] = actor.grants or ()
    await revoke(write.tx, [actor.token_id])
    detail = {"token_id": actor.token_id}
    target = f"installation/{actor.installation_id}"
    await audit.record(write.tx, actor, "installation.revoke_token", target, account_id=grant.account_id, detail=detail)


@routes.get("/user/installations", access="user.installations")
async def user_installations_list(call: Call, page: Page) -> Paged[s.UserInstallations]:
    """List the app's installations that the user has a part in."""
    actor = actor_of(call)
    found, total = await queries.list_of_user(
        call.database, actor.app_id or 0, actor.user.id, page, place_id=actor.narrowed_to
    )
    return Paged(s.UserInstallations(total, [s.installation_shape(each, call.base) for each in found]), total)


@routes.get("/user/installations/{installation_id}/repositories", access="user.installations")
async def user_installation_repositories_list(
    call: Call, installation_id: int, page: Page
) -> Paged[s.InstallationRepositories]:
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
        ids = next((each.repository_ids for each in actor.grants or ()), frozenset())
    return await _repositories(call, installation.account, ids, page)


async def _repositories(
    call: Call, account: Account, ids: frozenset[int] | None, page: Page
) -> Paged[s.InstallationRepositories]:
    found, total = await queries.list_repositories(call.database, account, ids, actor_of(call).user.id, page)
    shapes = [s.app_repository_shape(each, call.base) for each in found]
    return Paged(s.InstallationRepositories(total, "all" if ids is None else "selected", shapes), total)
