"""How owners put apps on their organization and take them off, and what everybody may know of an app."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, shown
from workhook.http.calls import Call
from workhook.http.endpoints import Created, Paged, Retry, Routes
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import queries as account_queries
from workhook.identity.apps import installing, queries
from workhook.identity.apps import manage_schemas as s
from workhook.identity.apps.app_schemas import IntegrationShape, installation_shape, integration_shape, levels
from workhook.identity.apps.manage_api import OWNERS, TAG
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.authenticator import caller_of, named_organization
from workhook.identity.context import Write
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens.lookup import covers
from workhook.storage import Reader, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page

_RESOURCE = "Installation"
_ONE = "/orgs/{org}/installations/{installation_id}"
_REPOSITORY = "/user/installations/{installation_id}/repositories/{repository_id}"

routes = Routes(WEBHOOK_API, TAG, read=OWNERS, write=OWNERS, resource=_RESOURCE)


def _shape(installation: Installation, base: str) -> s.OwnInstallationShape:
    chosen = installation.repository_ids
    return s.OwnInstallationShape(
        **msgspec.structs.asdict(installation_shape(installation, base)),
        repository_ids=None if chosen is None else sorted(chosen),
        app_permissions=levels(installation.app.permissions),
    )


async def find_named_installation(call: Call, reader: Reader, number: int) -> Installation:
    """An installation on the organization of the path. Raises `NotFound`, also for one on another organization."""
    found = await queries.find_installation(reader, number)
    if found is None:
        raise NotFound()
    if found.account.id != named_organization(call).account.id:
        call.record.touches(found.account.id, hidden=True)
        raise NotFound()
    return found


@routes.get("/orgs/{org}/installations")
async def installations_list(call: Call, page: Page) -> Paged[s.OwnInstallations]:
    """List the installations on the organization."""
    found, total = await queries.list_installations_on(call.database, named_organization(call).account.id, page)
    return Paged(s.OwnInstallations(total, [_shape(each, call.base) for each in found]), total)


@routes.post("/orgs/{org}/installations", retry=Retry(UniqueViolation))
async def installations_create(write: Write, create: s.InstallationCreate) -> Created[s.OwnInstallationShape]:
    """Install an app on the organization."""
    organization, base = named_organization(write.call).account, write.call.base
    chosen, faults = await _chosen(write.tx, organization, create.repository_selection, create.repositories)
    # In this order: a slug, made of whatever name, can be somebody else's client id in lower case.
    app = await queries.find_client(write.tx, create.app) or await queries.find_slug(write.tx, create.app)
    if app is None:
        raise Invalid(faults=[*faults, installing.no_such_app()])
    installation = await installing.install(
        write.tx,
        write.actor,
        app,
        organization,
        permissions=None if create.permissions is UNSET else create.permissions,
        repository_ids=None if chosen is UNSET else chosen,
        known=faults,
    )
    return Created(_shape(installation, base), f"{base}/orgs/{organization.login}/installations/{installation.id}")


@routes.get(_ONE)
async def installations_get(call: Call, installation_id: int) -> s.OwnInstallationShape:
    """Get an installation."""
    return _shape(await find_named_installation(call, call.database, installation_id), call.base)


@routes.patch(_ONE)
async def installations_update(write: Write, installation_id: int, edit: s.InstallationEdit) -> s.OwnInstallationShape:
    """Change an installation.

    New permissions that the app asks for take effect once they are granted here.
    """
    installation = await find_named_installation(write.call, write.tx, installation_id)
    selection = edit.repository_selection
    if selection == "selected" and edit.repositories is UNSET and installation.repository_ids is not None:
        selection = UNSET  # as it is
    chosen, faults = await _chosen(write.tx, installation.account, selection, edit.repositories)
    changed = await installing.edit_installation(
        write.tx, write.actor, installation, permissions=edit.permissions, repository_ids=chosen, known=faults
    )
    return _shape(changed, write.call.base)


@routes.delete(
    _ONE,
    query=(
        Query(
            "remove_webhooks",
            "Whether to remove the webhooks that it made, too.",
            {"type": "boolean", "default": False},
        ),
    ),
)
async def installations_delete(write: Write, installation_id: int) -> None:
    """Uninstall an app.

    Its tokens end. Webhooks that it made belong to the organization: they stay and go on, unless you remove them with
    it. The audit log says how many.
    """
    remove = write.call.query_text("remove_webhooks") or "false"
    if remove not in ("true", "false"):
        message = "remove_webhooks must be true or false"
        raise Invalid(faults=[Fault("remove_webhooks", "invalid", message, resource=_RESOURCE)])
    found = await find_named_installation(write.call, write.tx, installation_id)
    await installing.uninstall(write.tx, write.actor, found, remove_webhooks=remove == "true")


@routes.put(f"{_ONE}/suspended")
async def installations_suspend(write: Write, installation_id: int) -> None:
    """Suspend an installation.

    Its tokens do nothing until the suspension is lifted.
    """
    await installing.suspend(
        write.tx, write.actor, await find_named_installation(write.call, write.tx, installation_id)
    )


@routes.delete(f"{_ONE}/suspended")
async def installations_unsuspend(write: Write, installation_id: int) -> None:
    """Lift a suspension."""
    await installing.unsuspend(
        write.tx, write.actor, await find_named_installation(write.call, write.tx, installation_id)
    )


@routes.put(_REPOSITORY, access="installations.write", problems=(422,), action="installation.update")
async def user_installation_repositories_add(write: Write, installation_id: int, repository_id: int) -> None:
    """Add a repository to an installation.

    For owners of the organization on which the app is installed.
    """
    installation = await _owned(write, installation_id, repository_id)
    if installation.repository_ids is not None:  # on all of them it is there
        ids = installation.repository_ids | {repository_id}
        await installing.edit_installation(write.tx, write.actor, installation, repository_ids=ids)


@routes.delete(_REPOSITORY, access="installations.write", problems=(422,), action="installation.update")
async def user_installation_repositories_remove(write: Write, installation_id: int, repository_id: int) -> None:
    """Remove a repository from an installation.

    For owners of the organization on which the app is installed. 422: the installation covers all repositories, or this
    is the last one.
    """
    installation = await _owned(write, installation_id, repository_id)
    chosen = installation.repository_ids
    if chosen is None:
        raise _not_removable("the app is installed on all repositories: choose some instead")
    if repository_id not in chosen:
        raise NotFound()
    if len(chosen) == 1:
        raise _not_removable("it is the last one: uninstall the app instead")
    await installing.edit_installation(write.tx, write.actor, installation, repository_ids=chosen - {repository_id})


def _not_removable(why: str) -> Invalid:
    return Invalid(faults=[Fault("repository_id", "invalid", f"repository_id: {why}", resource=_RESOURCE)])


async def _owned(write: Write, number: int, repository_id: int) -> Installation:
    """An installation on an organization that the caller owns, and that has the repository. Nobody changes it until the
    transaction ends. Raises `NotFound` and `Forbidden`."""
    tx = write.tx
    found = await queries.find_installation(tx, number)
    if found is None:
        raise NotFound()
    role = await account_queries.find_member_role(tx, found.account.id, write.actor.user.id)
    write.actor.request.touches(found.account.id, hidden=role is None)
    if role is None:
        raise NotFound()
    if role != "owner":
        raise Forbidden("You must be an organization owner.", code="missing_role")
    await queries.find_app(tx, found.app.id, for_update=True)  # before the installation, as everybody
    found = await queries.find_installation(tx, number, for_update=True)
    if found is None or not await queries.own_repository_ids(tx, found.account.id, [repository_id]):
        raise NotFound()
    return found


@routes.get("/apps/{slug}", access=None)
async def apps_get_public(call: Call, slug: str) -> IntegrationShape:
    """Get the public facts about an app.

    A private app is visible only to members of its organization.
    """
    app = await queries.find_slug(call.database, slug)
    if app is None or app.is_oauth or not (app.public or await _is_insider(call, caller_of(call).actor, app)):
        raise NotFound()
    owner = await account_queries.find_account_by_id(call.database, app.account_id)
    assert owner is not None, "an app goes with its organization"
    count = await queries.count_installations_of(call.database, app.id)
    return integration_shape(app, owner, count, call.base)


async def _is_insider(call: Call, actor: Actor | None, app: App) -> bool:
    if actor is None:
        return caller_of(call).app == app
    if not covers(actor, app.account_id):
        return False
    return await account_queries.find_member_role(call.database, app.account_id, actor.user.id) is not None


async def _chosen(
    tx: Transaction, account: Account, selection: str | UnsetType, names: list[str] | UnsetType
) -> tuple[list[int] | UnsetType | None, list[Fault]]:
    """The ids of the repositories that are named, None for all, UNSET where nothing is said; and what is wrong."""
    if names is UNSET:
        if selection == "selected":
            message = "repositories must name the chosen ones where repository_selection is selected"
            return UNSET, [_fault("missing_field", message)]
        return UNSET if selection is UNSET else None, []
    if selection == "all":
        return UNSET, [_fault("custom", "repositories cannot be chosen where repository_selection is all")]
    known = await queries.own_repository_names(tx, account.id, [key_of(each) for each in names])
    unknown = [each for each in dict.fromkeys(names) if key_of(each) not in known]
    if unknown:
        return UNSET, [_fault("invalid", f"{account.login} has no repository {shown(each)}") for each in unknown]
    return list(known.values()), []


def _fault(code: str, message: str) -> Fault:
    return Fault("repositories", code, message, resource=_RESOURCE)
