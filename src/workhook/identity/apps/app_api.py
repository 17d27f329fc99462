"""Operations of apps, authenticated by a JWT signed with their key, and of installation and user tokens.

Apps create installation access tokens, which act on one organization for an hour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from workhook.core.clock import HOUR_MS, now_ms, to_seconds_text
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, require_found
from workhook.http import parameters
from workhook.http.calls import NO_STORE, Call
from workhook.http.endpoints import Created, Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import audit
from workhook.identity import queries as account_queries
from workhook.identity.apps import app_schemas as s
from workhook.identity.apps import installer, queries
from workhook.identity.apps.app_schemas import AccessTokenBody
from workhook.identity.apps.schemas import App, Installation, selection_of
from workhook.identity.authenticator import actor_of, app_of
from workhook.identity.context import Write
from workhook.identity.queries import find_repositories
from workhook.identity.schemas import Account, Repository
from workhook.identity.tokens.issue import INSTALLATION, IssuedToken, issue, revoke
from workhook.identity.tokens.lookup import weaker
from workhook.storage.database import Reader, Transaction
from workhook.storage.pages import Page

LIFETIME_MS = HOUR_MS
Body = TypeVar("Body", bound=AccessTokenBody)
_RESOURCE = "Installation"
# GitHub's messages.
_NOT_GRANTED = "The permissions requested are not granted to this installation."
_NOT_REACHED = "There is at least one repository that does not exist or is not accessible to the parent installation."


class AccessToken(HiddenRepr, msgspec.Struct, frozen=True):
    issued: IssuedToken
    permissions: Mapping[str, str]
    repository_ids: Collection[int] | None  # None: all repositories of the organization
    named: list[Repository] | None  # those that the request narrowed it to, if any


def parse_narrowing(body: Mapping[str, Any], shape: type[Body], resource: str = _RESOURCE) -> Body:
    """Parse a request body. Ignores unknown keys, as clients expect. Raises `Invalid` with all faults."""
    known = {name: value for name, value in body.items() if name in shape.__struct_fields__}
    if isinstance(ids := known.get("repository_ids"), list):  # JSON has only one number type: 2.0 is the integer 2
        known["repository_ids"] = [int(one) if isinstance(one, float) and one.is_integer() else one for one in ids]
    return parameters.gather(shape, {}, known, resource=resource)


async def create_access_token(tx: Transaction, app: App, installation_id: int, wanted: AccessTokenBody) -> AccessToken:
    """Issue a token for the bot.

    Raises `NotFound` for another app's installation, `Forbidden` for a suspended one, and `Invalid` if more is
    requested than was granted.
    """
    is_there = await queries.lock_app(tx, app.id)
    installation = await queries.find_installation(tx, installation_id, for_update=True) if is_there else None
    if installation is None or installation.app.id != app.id:
        raise NotFound()
    if installation.suspended_at is not None:
        raise Forbidden("This installation has been suspended", code="suspended")
    permissions, faults = granted_permissions(installation, wanted)
    named, unknown = await chosen_repositories(tx, installation, wanted)
    refuse_what_is_beyond(faults, unknown)
    chosen = None if named is None else sorted(each.id for each in named)
    assert app.bot_id is not None, "an app that is installed has a bot"
    issued = await issue(
        tx,
        INSTALLATION,
        app.bot_id,
        permissions=permissions,  # stored even if complete, because a later grant must not widen the token
        repository_ids=chosen,
        app_id=app.id,
        installation_id=installation.id,
        expires_at=now_ms() + LIFETIME_MS,
    )
    detail = {"app": app.slug, "token_id": issued.id, "permissions": permissions}
    detail["repositories"] = "all" if chosen is None else chosen
    target, account_id = f"installation/{installation.id}", installation.account.id
    await audit.record(tx, None, "installation.create_token", target, account_id=account_id, detail=detail)
    return AccessToken(issued, permissions, installation.repository_ids if named is None else chosen, named)


def refuse_what_is_beyond(not_granted: Sequence[Fault], not_reached: Sequence[Fault]) -> None:
    if not_granted or not_reached:
        messages = [_NOT_GRANTED] * bool(not_granted) + [_NOT_REACHED] * bool(not_reached)
        raise Invalid(" ".join(messages), faults=[*not_granted, *not_reached])


def granted_permissions(installation: Installation, wanted: AccessTokenBody) -> tuple[dict[str, str], list[Fault]]:
    """Return the permissions of the token, and faults for those that were not granted."""
    most = weaker(installation.permissions, installation.app.permissions)
    asked: dict[str, str] = dict(wanted.permissions or {})
    if not asked:
        return most, []
    allowed = weaker(asked, most)
    return allowed, [
        Fault("permissions", "invalid", f"{name}: {level} is not granted", resource=_RESOURCE)
        for name, level in sorted(asked.items())
        if allowed.get(name) != level
    ]


async def chosen_repositories(
    reader: Reader, installation: Installation, wanted: AccessTokenBody, *, user_id: int | None = None
) -> tuple[list[Repository] | None, list[Fault]]:
    """Return the repositories the token is limited to (None: no limit), and faults for named ones out of reach.

    With `user_id`, repositories that the user cannot see are out of reach.
    """
    names, ids = wanted.repositories or [], wanted.repository_ids or []
    if not names and not ids:
        return None, []
    viewer_id = installation.app.bot_id or 0 if user_id is None else user_id
    found = [
        each
        for each in await find_repositories(reader, installation.account, names=names, ids=ids, user_id=viewer_id)
        if each.role is not None and (installation.repository_ids is None or each.id in installation.repository_ids)
    ]
    known_names, known_ids = {each.name.lower() for each in found}, {each.id for each in found}
    faults = [_unreached("repositories", name) for name in names if name.lower() not in known_names]
    faults += [_unreached("repository_ids", one) for one in ids if one not in known_ids]
    return found, faults


def _unreached(field: str, value: object) -> Fault:
    return Fault(field, "invalid", f"{value} is not a repository of this installation", resource=_RESOURCE)


_ONE = "/app/installations/{installation_id}"

routes = Routes(WEBHOOK_API, "apps", read="app", write="app")


async def _get_own_installation(reader: Reader, app_id: int, number: int) -> Installation:
    """Return an installation of the app. Raises `NotFound` if it does not exist or belongs to another app."""
    found = require_found(await queries.find_installation(reader, number))
    return require_found(found if found.app.id == app_id else None)


@routes.get("/app")
async def app_get(call: Call) -> s.IntegrationShape:
    """Get the authenticated app."""
    return await show_app(call, app_of(call))


async def show_app(call: Call, app: App) -> s.IntegrationShape:
    owner = await account_queries.find_account_by_id(call.database, app.account_id)
    assert owner is not None, "an app belongs to an organization"
    return s.integration_to_response(app, owner, await queries.count_installations_of(call.database, app.id), call.base)


@routes.get("/app/installations")
async def app_installations_list(call: Call, page: Page) -> Paged[list[s.InstallationShape]]:
    """List the installations of the app."""
    found, total = await queries.list_installations_of(call.database, app_of(call).id, page)
    return Paged([s.installation_to_response(each, call.base) for each in found], total)


@routes.get(_ONE)
async def app_installations_get(call: Call, installation_id: int) -> s.InstallationShape:
    """Get an installation of the app."""
    found = await _get_own_installation(call.database, app_of(call).id, installation_id)
    return s.installation_to_response(found, call.base)


@routes.delete(_ONE)
async def app_installations_delete(write: Write, installation_id: int) -> None:
    """Uninstall the app from an organization."""
    found = await _get_own_installation(write.tx, app_of(write.call).id, installation_id)
    await installer.uninstall(write.tx, None, found)


@routes.post(f"{_ONE}/access_tokens", body=s.AccessTokenBody | None, etag=False, action="installation.create_token")
async def app_access_tokens_create(call: Call, installation_id: int) -> Created[s.InstallationTokenShape]:
    """Create an installation access token."""
    wanted = parse_narrowing(await call.json_object(null=True), s.AccessTokenBody)
    app = app_of(call)
    made = await call.database.in_transaction(lambda tx: create_access_token(tx, app, installation_id, wanted))
    assert made.issued.expires_at is not None, "tokens of installations have an end"
    shape = s.InstallationTokenShape(
        token=made.issued.token,
        expires_at=to_seconds_text(made.issued.expires_at),
        permissions=s.levels(made.permissions),
        repository_selection=selection_of(made.repository_ids),
    )
    if made.named is not None:
        shape.repositories = [s.app_repository_to_response(each, call.base) for each in made.named]
    # The token can be revoked at this URL, using itself as the credential.
    return Created(shape, f"{call.base}/installation/token", NO_STORE)


@routes.put(f"{_ONE}/suspended")
async def app_installations_suspend(write: Write, installation_id: int) -> None:
    """Suspend an installation."""
    found = await _get_own_installation(write.tx, app_of(write.call).id, installation_id)
    await installer.suspend(write.tx, None, found, by="app")


@routes.delete(f"{_ONE}/suspended")
async def app_installations_unsuspend(write: Write, installation_id: int) -> None:
    """Unsuspend an installation.

    An app can only lift its own suspension. An owner's suspension must be lifted by an owner.
    """
    found = await _get_own_installation(write.tx, app_of(write.call).id, installation_id)
    await installer.unsuspend(write.tx, None, found, by="app")


@routes.get("/orgs/{org}/installation", action="installation.get")
async def app_installation_of_organization(call: Call, org: str) -> s.InstallationShape:
    """Get the app's installation on an organization."""
    found = require_found(await queries.find_on(call.database, app_of(call), org))
    if found.account.kind != "organization":
        raise NotFound()
    return s.installation_to_response(found, call.base)


@routes.get("/repos/{owner}/{repo}/installation", action="installation.get")
async def app_installation_of_repository(call: Call, owner: str, repo: str) -> s.InstallationShape:
    """Get the app's installation that covers a repository."""
    found = await queries.find_reaching(call.database, app_of(call), named=(owner, repo))
    return s.installation_to_response(require_found(found), call.base)


@routes.get("/repositories/{repository_id}/installation", action="installation.get")
async def app_installation_of_repository_by_number(call: Call, repository_id: int) -> s.InstallationShape:
    """Get the app's installation that covers a repository, by the repository's ID."""
    found = await queries.find_reaching(call.database, app_of(call), repository_id=repository_id)
    return s.installation_to_response(require_found(found), call.base)


@routes.get("/app/installation-requests", action="installation.list_requests")
async def app_installation_requests(call: Call) -> list[s.InstallationRequest]:
    """List requests to install the app. Always empty, because owners install apps themselves."""
    return []


@routes.get("/users/{username}/installation", action="installation.get")
async def app_installation_of_user(call: Call, username: str) -> s.InstallationShape:
    """Get the app's installation on an account."""
    found = await queries.find_on(call.database, app_of(call), username)
    return s.installation_to_response(require_found(found), call.base)


@routes.get("/installation/repositories", access="installation", action="installation.list_repositories")
async def installation_repositories_list(call: Call, page: Page) -> Paged[s.InstallationRepositories]:
    """List the repositories that an installation access token covers."""
    actor = actor_of(call)
    assert actor.installation_id is not None, "the rule takes tokens of installations alone"
    assert actor.app_id is not None
    installation = await _get_own_installation(call.database, actor.app_id, actor.installation_id)
    [reach] = actor.grants or ()  # which may be less than the installation's
    return await _repositories(call, installation.account, reach.repository_ids, page)


@routes.delete("/installation/token", access="installation", action="installation.revoke_token")
async def installation_token_revoke(write: Write) -> None:
    """Revoke the installation access token that is used for this request."""
    actor = write.actor
    [grant] = actor.grants or ()
    await revoke(write.tx, [actor.token_id])
    target, detail = f"installation/{actor.installation_id}", {"token_id": actor.token_id}
    await audit.record(write.tx, actor, "installation.revoke_token", target, account_id=grant.account_id, detail=detail)


@routes.get("/user/installations", access="user.installations")
async def user_installations_list(call: Call, page: Page) -> Paged[s.UserInstallations]:
    """List the app's installations that the user has access to."""
    actor = actor_of(call)
    found, total = await queries.list_of_user(
        call.database, actor.app_id or 0, actor.user.id, page, place_id=actor.narrowed_to
    )
    return Paged(s.UserInstallations(total, [s.installation_to_response(each, call.base) for each in found]), total)


@routes.get(
    "/user/installations/{installation_id}/repositories",
    access="user.installations",
    action="installation.list_repositories",
)
async def user_installation_repositories_list(
    call: Call, installation_id: int, page: Page
) -> Paged[s.InstallationRepositories]:
    """List the repositories of an installation that the user can see."""
    actor = actor_of(call)
    found = await queries.find_of_user(
        call.database, actor.app_id or 0, actor.user.id, installation_id, place_id=actor.narrowed_to
    )
    installation = require_found(found)
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
    shapes = [s.app_repository_to_response(each, call.base) for each in found]
    return Paged(s.InstallationRepositories(total, selection_of(ids), shapes), total)
