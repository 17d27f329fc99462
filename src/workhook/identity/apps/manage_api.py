"""Operations for owners on their organization's OAuth apps, apps and installations, and an app's public information."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, require_found, say, shown
from workhook.http.calls import NO_STORE, Call
from workhook.http.endpoints import Created, Paged, Retry, Routes, RoutesPerKind
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import queries as account_queries
from workhook.identity.apps import actions, installer, queries
from workhook.identity.apps import app_schemas as s
from workhook.identity.apps.app_api import show_app
from workhook.identity.apps.app_schemas import IntegrationShape, installation_to_response, levels
from workhook.identity.apps.schemas import App, AppKey, AppSecret, Installation
from workhook.identity.authenticator import actor_of, caller_of, named_organization
from workhook.identity.context import Write
from workhook.identity.queries import find_repositories, key_of
from workhook.identity.schemas import Account, shape_of
from workhook.identity.tokens.lookup import covers
from workhook.storage import Reader, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page

H = TypeVar("H", AppSecret, AppKey)

TAG, OWNERS = "app management", "organization.admin"
oauth_apps = Routes(WEBHOOK_API, TAG, read=OWNERS, write=OWNERS, resource="OauthApp")
apps = Routes(WEBHOOK_API, TAG, read=OWNERS, write=OWNERS, resource="App")
both = RoutesPerKind(
    (oauth_apps, "/orgs/{org}/oauth-apps/{client_id}", "oauth_apps", "OAuth app"),
    (apps, "/orgs/{org}/apps/{slug}", "apps", "app"),
)


async def _with_secrets(call: Call, reader: Reader, app: App) -> s.OauthAppShape:
    shape = s.app_to_response(app, named_organization(call).account, call.base)
    shape.secrets = [shape_of(s.SecretShape, each) for each in await queries.list_secrets(reader, app.id)]
    return shape


async def _with_keys(call: Call, reader: Reader, app: App) -> s.AppShape:
    shape = await _with_secrets(call, reader, app)
    assert isinstance(shape, s.AppShape), "this is an OAuth app"
    shape.keys = [shape_of(s.AppKeyShape, each) for each in await queries.list_keys(reader, app.id)]
    return shape


def _with_id(found: Sequence[H], number: int) -> H:
    return require_found(next((each for each in found if each.id == number), None))


def _listed(call: Call, found: tuple[list[App], int]) -> Paged[list[Any]]:
    organization = named_organization(call).account
    return Paged([s.app_to_response(each, organization, call.base) for each in found[0]], found[1])


@oauth_apps.get("/orgs/{org}/oauth-apps")
async def oauth_apps_list(call: Call, page: Page) -> Paged[list[s.OauthAppShape]]:
    """List the OAuth apps of an organization."""
    place = named_organization(call).account
    return _listed(call, await queries.list_apps(call.database, place.id, "oauth", page))


@apps.get("/orgs/{org}/apps")
async def apps_list(call: Call, page: Page) -> Paged[list[s.AppShape]]:
    """List the apps of an organization."""
    return _listed(call, await queries.list_apps(call.database, named_organization(call).account.id, "app", page))


@oauth_apps.post("/orgs/{org}/oauth-apps", retry=Retry(UniqueViolation))
async def oauth_apps_create(write: Write, create: s.OauthAppCreate) -> Created[s.OauthAppShape]:
    """Register an OAuth app."""
    organization = named_organization(write.call).account
    app, secret, _ = await actions.create_app(write.tx, write.actor, organization, create)
    shape = await _with_secrets(write.call, write.tx, app)
    shape.client_secret = secret
    return Created(shape, shape.url, NO_STORE)


@apps.post("/orgs/{org}/apps")
async def apps_create(call: Call, create: s.AppCreate) -> Created[s.AppShape]:
    """Register an app."""
    key = await actions.create_key(create.public_key)

    async def register(tx: Transaction) -> s.AppShape:
        organization = named_organization(call).account
        app, secret, pem = await actions.create_app(tx, actor_of(call), organization, create, key=key)
        shape = await _with_keys(call, tx, app)
        shape.client_secret, shape.pem = secret, pem or UNSET
        return shape

    shape = await Retry(UniqueViolation).of(lambda: call.database.in_transaction(register))
    return Created(shape, shape.url, NO_STORE)


@oauth_apps.get("/orgs/{org}/oauth-apps/{client_id}")
async def oauth_apps_get(call: Call) -> s.OauthAppShape:
    """Get an OAuth app."""
    return await _with_secrets(call, call.database, await actions.find_named_app(call, call.database))


@apps.get("/orgs/{org}/apps/{slug}")
async def apps_get(call: Call) -> s.AppShape:
    """Get an app."""
    return await _with_keys(call, call.database, await actions.find_named_app(call, call.database))


async def _edited(write: Write, edit: s.OauthAppEdit) -> App:
    return await actions.edit_app(write.tx, write.actor, await actions.find_named_app(write.call, write.tx), edit)


@oauth_apps.patch("/orgs/{org}/oauth-apps/{client_id}", retry=Retry(UniqueViolation))
async def oauth_apps_update(write: Write, edit: s.OauthAppEdit) -> s.OauthAppShape:
    """Update an OAuth app."""
    return await _with_secrets(write.call, write.tx, await _edited(write, edit))


@apps.patch("/orgs/{org}/apps/{slug}", retry=Retry(UniqueViolation))
async def apps_update(write: Write, edit: s.AppEdit) -> s.AppShape:
    """Update an app."""
    return await _with_keys(write.call, write.tx, await _edited(write, edit))


@oauth_apps.delete(
    "/orgs/{org}/oauth-apps/{client_id}",
    name="oauth_apps_delete",
    summary="Delete an OAuth app",
    description="Also deletes its tokens, its users' grants, and the webhooks that only it can see.",
)
@apps.delete("/orgs/{org}/apps/{slug}")
async def apps_delete(write: Write) -> None:
    """Delete an app.

    Also deletes its installations, its tokens and its users' grants.
    """
    await actions.delete_app(write.tx, write.actor, await actions.find_named_app(write.call, write.tx))


@both.post("/secrets", problems=(422,))
async def create_secret(write: Write) -> Created[s.SecretShape]:
    """Create a client secret.

    An app can have two secrets, so that you can rotate them without downtime.
    """
    app = await actions.find_named_app(write.call, write.tx)
    made, secret = await actions.add_secret(write.tx, write.actor, app)
    shape = shape_of(s.SecretShape, made)
    shape.client_secret = secret
    return Created(shape, f"{_url(write.call, app)}/secrets/{made.id}", NO_STORE)


@both.get("/secrets/{secret_id}")
async def get_secret(call: Call, secret_id: int) -> s.SecretShape:
    """Get the metadata of a client secret."""
    app = await actions.find_named_app(call, call.database)
    return shape_of(s.SecretShape, _with_id(await queries.list_secrets(call.database, app.id), secret_id))


@both.delete("/secrets/{secret_id}")
async def delete_secret(write: Write, secret_id: int) -> None:
    """Delete a client secret."""
    await actions.remove_secret(write.tx, write.actor, await actions.find_named_app(write.call, write.tx), secret_id)


@both.delete("/tokens")
async def revoke_tokens(write: Write) -> None:
    """Revoke all tokens of an {called}.

    Users must authorize it again.
    """
    await actions.revoke_tokens(write.tx, write.actor, await actions.find_named_app(write.call, write.tx))


@apps.get("/orgs/{org}/apps/{slug}/keys")
async def apps_list_keys(call: Call) -> list[s.AppKeyShape]:
    """List the keys of an app."""
    app = await actions.find_named_app(call, call.database)
    return [shape_of(s.AppKeyShape, each) for each in await queries.list_keys(call.database, app.id)]


@apps.post("/orgs/{org}/apps/{slug}/keys")
async def apps_create_key(call: Call, create: s.AppKeyCreate) -> Created[s.AppKeyShape]:
    """Add a key to an app."""
    app = await actions.find_named_app(call, call.database)  # before a key is generated
    key = await actions.create_key(create.public_key)
    made = await call.database.in_transaction(lambda tx: actions.add_key(tx, actor_of(call), app, key))
    shape = shape_of(s.AppKeyShape, made)
    shape.pem = key.private_key or UNSET
    return Created(shape, f"{_url(call, app)}/keys/{shape.id}", NO_STORE)


@apps.get("/orgs/{org}/apps/{slug}/keys/{key_id}")
async def apps_get_key(call: Call, key_id: int) -> s.AppKeyShape:
    """Get a key of an app."""
    app = await actions.find_named_app(call, call.database)
    return shape_of(s.AppKeyShape, _with_id(await queries.list_keys(call.database, app.id), key_id))


@apps.delete("/orgs/{org}/apps/{slug}/keys/{key_id}", problems=(422,))
async def apps_delete_key(write: Write, key_id: int) -> None:
    """Delete a key of an app.

    The last key cannot be deleted, because the app needs one to authenticate.
    """
    await actions.remove_key(write.tx, write.actor, await actions.find_named_app(write.call, write.tx), key_id)


def _url(call: Call, app: App) -> str:
    return f"{call.base}{s.app_path(app, named_organization(call).account)}"


# --- installations ----------------------------------------------------------------------------------------------------

_RESOURCE = "Installation"
_BOOLEAN = {"type": "boolean", "default": False}
_ONE = "/orgs/{org}/installations/{installation_id}"
_REPOSITORY = "/user/installations/{installation_id}/repositories/{repository_id}"

installations = Routes(WEBHOOK_API, TAG, read=OWNERS, write=OWNERS, resource=_RESOURCE)


def _shape(installation: Installation, base: str) -> s.OwnInstallationShape:
    chosen = installation.repository_ids
    return s.OwnInstallationShape(
        **msgspec.structs.asdict(installation_to_response(installation, base)),
        repository_ids=None if chosen is None else sorted(chosen),
        app_permissions=levels(installation.app.permissions),
    )


@installations.get("/orgs/{org}/installations")
async def installations_list(call: Call, page: Page) -> Paged[s.OwnInstallations]:
    """List the installations on an organization."""
    found, total = await queries.list_installations_on(call.database, named_organization(call).account.id, page)
    return Paged(s.OwnInstallations(total, [_shape(each, call.base) for each in found]), total)


@installations.post("/orgs/{org}/installations", retry=Retry(UniqueViolation))
async def installations_create(write: Write, create: s.InstallationCreate) -> Created[s.OwnInstallationShape]:
    """Install an app on an organization."""
    organization, base = named_organization(write.call).account, write.call.base
    chosen, faults = await _chosen(write.tx, organization, create.repository_selection, create.repositories)
    # In this order, because a slug may equal another app's client ID in lower case.
    app = await queries.find_client(write.tx, create.app) or await queries.find_slug(write.tx, create.app)
    if app is None:
        raise Invalid(faults=[*faults, installer.no_such_app()])
    installation = await installer.install(
        write.tx,
        write.actor,
        app,
        organization,
        permissions=None if create.permissions is UNSET else create.permissions,
        repository_ids=None if chosen is UNSET else chosen,
        known=faults,
    )
    return Created(_shape(installation, base), f"{base}/orgs/{organization.login}/installations/{installation.id}")


@installations.get(_ONE)
async def installations_get(call: Call, installation_id: int) -> s.OwnInstallationShape:
    """Get an installation."""
    return _shape(await actions.find_named_installation(call, call.database, installation_id), call.base)


@installations.patch(_ONE)
async def installations_update(write: Write, installation_id: int, edit: s.InstallationEdit) -> s.OwnInstallationShape:
    """Update an installation.

    Additional permissions that the app requests take effect once they are granted here.
    """
    installation = await actions.find_named_installation(write.call, write.tx, installation_id)
    selection = edit.repository_selection
    if selection == "selected" and edit.repositories is UNSET and installation.repository_ids is not None:
        selection = UNSET  # unchanged
    chosen, faults = await _chosen(write.tx, installation.account, selection, edit.repositories)
    changed = await installer.edit_installation(
        write.tx, write.actor, installation, permissions=edit.permissions, repository_ids=chosen, known=faults
    )
    return _shape(changed, write.call.base)


@installations.delete(
    _ONE,
    query=(Query("remove_webhooks", "Whether to also delete the webhooks it created.", _BOOLEAN),),
)
async def installations_delete(write: Write, installation_id: int) -> None:
    """Uninstall an app.

    Its tokens are revoked. Webhooks that it created belong to the organization and remain active, unless you remove
    them as well. The audit log records how many there are.
    """
    remove = write.call.query_text("remove_webhooks") or "false"
    if remove not in ("true", "false"):
        message = "remove_webhooks must be true or false"
        raise Invalid(faults=[Fault("remove_webhooks", "invalid", message, resource=_RESOURCE)])
    found = await actions.find_named_installation(write.call, write.tx, installation_id)
    await installer.uninstall(write.tx, write.actor, found, remove_webhooks=remove == "true")


@installations.put(f"{_ONE}/suspended")
async def installations_suspend(write: Write, installation_id: int) -> None:
    """Suspend an installation.

    Its tokens cannot be used until the suspension is lifted.
    """
    found = await actions.find_named_installation(write.call, write.tx, installation_id)
    await installer.suspend(write.tx, write.actor, found)


@installations.delete(f"{_ONE}/suspended")
async def installations_unsuspend(write: Write, installation_id: int) -> None:
    """Unsuspend an installation."""
    found = await actions.find_named_installation(write.call, write.tx, installation_id)
    await installer.unsuspend(write.tx, write.actor, found)


@installations.put(_REPOSITORY, access="installations.write", problems=(422,), action="installation.update")
async def user_installation_repositories_add(write: Write, installation_id: int, repository_id: int) -> None:
    """Add a repository to an installation.

    Only owners of the organization on which the app is installed can call this.
    """
    installation = await _owned(write, installation_id, repository_id)
    if installation.repository_ids is not None:  # otherwise it covers all
        ids = installation.repository_ids | {repository_id}
        await installer.edit_installation(write.tx, write.actor, installation, repository_ids=ids)


@installations.delete(_REPOSITORY, access="installations.write", problems=(422,), action="installation.update")
async def user_installation_repositories_remove(write: Write, installation_id: int, repository_id: int) -> None:
    """Remove a repository from an installation.

    Only owners of the organization on which the app is installed can call this. Returns 422 if the installation covers
    all repositories, or this is the last one.
    """
    installation = await _owned(write, installation_id, repository_id)
    chosen = installation.repository_ids
    if chosen is None:
        raise _not_removable("the app is installed on all repositories; select repositories first")
    if repository_id not in chosen:
        raise NotFound()
    if len(chosen) == 1:
        raise _not_removable("this is the last repository; uninstall the app instead")
    await installer.edit_installation(write.tx, write.actor, installation, repository_ids=chosen - {repository_id})


def _not_removable(why: str) -> Invalid:
    return Invalid(faults=[Fault("repository_id", "invalid", f"repository_id: {why}", resource=_RESOURCE)])


async def _owned(write: Write, number: int, repository_id: int) -> Installation:
    """Lock an installation on the caller's organization. Raises `Forbidden` or `NotFound` (also for the repository)."""
    tx = write.tx
    found = require_found(await queries.find_installation(tx, number))
    role = await account_queries.find_member_role(tx, found.account.id, write.actor.user.id)
    write.actor.request.set_subject(found.account.id, hidden=role is None)
    if role is None:
        raise NotFound()
    if role != "owner":
        raise Forbidden("You must be an organization owner.", code="missing_role")
    await queries.find_app(tx, found.app.id, for_update=True)  # always before the installation
    found = require_found(await queries.find_installation(tx, number, for_update=True))
    if not await find_repositories(tx, found.account, ids=[repository_id]):
        raise NotFound()
    return found


@installations.get("/apps/{slug}", access=None)
async def apps_get_public(call: Call, slug: str) -> IntegrationShape:
    """Get an app.

    Returns public information. A private app is visible only to members of its organization.
    """
    app = await queries.find_slug(call.database, slug)
    if app is None or app.is_oauth or not (app.public or await _is_insider(call, app)):
        raise NotFound()
    return await show_app(call, app)


async def _is_insider(call: Call, app: App) -> bool:
    actor = caller_of(call).actor
    if actor is None:
        return caller_of(call).app == app
    if not covers(actor, app.account_id):
        return False
    return await account_queries.find_member_role(call.database, app.account_id, actor.user.id) is not None


async def _chosen(
    tx: Transaction, account: Account, selection: str | UnsetType, names: list[str] | UnsetType
) -> tuple[list[int] | UnsetType | None, list[Fault]]:
    """Return the IDs of the named repositories (None: all; UNSET: unspecified) and faults."""
    if names is UNSET:
        if selection == "selected":
            message = "repositories is required if repository_selection is selected"
            return UNSET, [_fault("missing_field", message)]
        return UNSET if selection is UNSET else None, []
    if selection == "all":
        return UNSET, [_fault("custom", "repositories must be omitted if repository_selection is all")]
    known = {key_of(each.name): each.id for each in await find_repositories(tx, account, names=names)}
    unknown = [each for each in dict.fromkeys(names) if key_of(each) not in known]
    faults = [_fault("invalid", say("{} has no repository {}", account.login, shown(each))) for each in unknown]
    return UNSET if faults else list(known.values()), faults


def _fault(code: str, message: str) -> Fault:
    return Fault("repositories", code, message, resource=_RESOURCE)
