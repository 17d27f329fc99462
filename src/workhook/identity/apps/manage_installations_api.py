"""How owners put apps on their organization and take them off, and what everybody may know of an app."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, shown
from workhook.http.calls import Answer, Call, concerns
from workhook.http.paging import page_link, page_of
from workhook.identity import queries as account_queries
from workhook.identity.apps import actions, queries
from workhook.identity.apps import manage_schemas as s
from workhook.identity.apps.app_schemas import installation_shape, integration_shape
from workhook.identity.apps.manage_api import change, organization_of, read_body
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.guard import actor_of, caller_of
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens.reach import in_reach
from workhook.storage import Reader, Transaction

_RESOURCE = "Installation"


def _shape(installation: Installation, base: str) -> s.OwnInstallationShape:
    common = msgspec.structs.asdict(installation_shape(installation, base))
    chosen = installation.repository_ids
    return s.OwnInstallationShape(
        **common,
        repository_ids=None if chosen is None else sorted(chosen),
        app_permissions={name: s.level_of(level) for name, level in sorted(installation.app.permissions.items())},
    )


async def _installation_of(call: Call, reader: Reader) -> Installation:
    """Raises `NotFound` for one on another organization."""
    found = await queries.find_installation(reader, call.path_integer("installation_id"))
    if found is None:
        raise NotFound()
    if found.account.id != organization_of(call).id:
        concerns(found.account.id, hidden=True)
        raise NotFound()
    return found


async def list_installations(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await queries.list_installations_on(
        call.database, organization_of(call).id, limit=per_page, offset=(page - 1) * per_page
    )
    body = s.OwnInstallations(total, [_shape(each, call.base) for each in found])
    return Answer(body, headers=page_link(call, page=page, per_page=per_page, total=total))


async def install(call: Call) -> Answer:
    body = await read_body(call, s.InstallationCreate, _RESOURCE)
    organization = organization_of(call)

    async def step(tx: Transaction) -> Installation:
        chosen, faults = await _chosen(tx, organization, body.repository_selection, body.repositories)
        return await actions.install(
            tx,
            actor_of(call),
            await _app_named(tx, body.app, faults),
            organization,
            permissions=None if body.permissions is UNSET else body.permissions,
            repository_ids=None if chosen is UNSET else chosen,
            known=faults,
        )

    installation = await change(call, step)
    location = f"{call.base}/orgs/{organization.login}/installations/{installation.id}"
    return Answer(_shape(installation, call.base), status=201, headers={"Location": location})


async def get_installation(call: Call) -> Answer:
    return Answer(_shape(await _installation_of(call, call.database), call.base))


async def edit_installation(call: Call) -> Answer:
    body = await read_body(call, s.InstallationEdit, _RESOURCE)

    async def step(tx: Transaction) -> Installation:
        installation = await _installation_of(call, tx)
        selection = body.repository_selection
        if selection == "selected" and body.repositories is UNSET and installation.repository_ids is not None:
            selection = UNSET  # as it is
        chosen, faults = await _chosen(tx, installation.account, selection, body.repositories)
        return await actions.edit_installation(
            tx, actor_of(call), installation, permissions=body.permissions, repository_ids=chosen, known=faults
        )

    changed = await call.database.in_transaction(step)
    return Answer(_shape(changed, call.base))


async def uninstall(call: Call) -> Answer:
    remove = call.query_text("remove_webhooks") or "false"
    if remove not in ("true", "false"):
        message = "remove_webhooks must be true or false"
        raise Invalid(faults=[Fault("remove_webhooks", "invalid", message, resource=_RESOURCE)])

    async def step(tx: Transaction) -> None:
        found = await _installation_of(call, tx)
        await actions.uninstall(tx, actor_of(call), found, remove_webhooks=remove == "true")

    await call.database.in_transaction(step)
    return Answer(status=204)


async def suspend(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await actions.suspend(tx, actor_of(call), await _installation_of(call, tx))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def unsuspend(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await actions.unsuspend(tx, actor_of(call), await _installation_of(call, tx))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def add_repository(call: Call) -> Answer:
    """To an installation on chosen ones; on all of them it is there."""

    async def step(tx: Transaction) -> None:
        installation, repository_id = await _named(tx, call)
        if installation.repository_ids is not None:
            ids = installation.repository_ids | {repository_id}
            await actions.edit_installation(tx, actor_of(call), installation, repository_ids=ids)

    await call.database.in_transaction(step)
    return Answer(status=204)


async def remove_repository(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        installation, repository_id = await _named(tx, call)
        chosen = installation.repository_ids
        if chosen is None:
            raise _not_removed("the app is installed on all repositories: choose some instead")
        if repository_id not in chosen:
            raise NotFound()
        if len(chosen) == 1:
            raise _not_removed("it is the last one: uninstall the app instead")
        await actions.edit_installation(tx, actor_of(call), installation, repository_ids=chosen - {repository_id})

    await call.database.in_transaction(step)
    return Answer(status=204)


async def _named(tx: Transaction, call: Call) -> tuple[Installation, int]:
    """What the path names: an installation on an organization that the caller owns, which nobody changes until the
    transaction ends, and a repository of that. Raises `NotFound` and `Forbidden`."""
    number, repository_id = call.path_integer("installation_id"), call.path_integer("repository_id")
    found = await queries.find_installation(tx, number)
    if found is None:
        raise NotFound()
    role = await account_queries.find_member_role(tx, found.account.id, actor_of(call).user.id)
    concerns(found.account.id, hidden=role is None)
    if role is None:
        raise NotFound()
    if role != "owner":
        raise Forbidden("You must be an organization owner.", code="missing_role")
    await queries.find_app(tx, found.app.id, for_update=True)  # before the installation, as everybody
    found = await queries.find_installation(tx, number, for_update=True)
    if found is None or not await queries.own_repository_ids(tx, found.account.id, [repository_id]):
        raise NotFound()
    return found, repository_id


def _not_removed(why: str) -> Invalid:
    return Invalid(faults=[Fault("repository_id", "invalid", f"repository_id: {why}", resource=_RESOURCE)])


async def get_app(call: Call) -> Answer:
    """Of a private app only those know who are in its organization."""
    app = await queries.find_slug(call.database, call.path("slug"))
    if app is None or app.is_oauth or not (app.public or await _is_insider(call, caller_of(call).actor, app)):
        raise NotFound()
    owner = await account_queries.find_account_by_id(call.database, app.account_id)
    assert owner is not None, "an app goes with its organization"
    count = await queries.count_installations_of(call.database, app.id)
    return Answer(integration_shape(app, owner, count, call.base))


async def _is_insider(call: Call, actor: Actor | None, app: App) -> bool:
    if actor is None:
        return caller_of(call).app == app
    if not in_reach(actor, app.account_id):
        return False
    return await account_queries.find_member_role(call.database, app.account_id, actor.user.id) is not None


async def _app_named(reader: Reader, name: str, known: list[Fault]) -> App:
    # In this order: a slug, made of whatever name, can be somebody else's client id in lower case.
    app = await queries.find_client(reader, name) or await queries.find_slug(reader, name)
    if app is None:
        raise Invalid(faults=[*known, actions.no_such_app()])
    return app


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
