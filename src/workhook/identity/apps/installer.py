"""Installations: an app on an organization, with selected repositories and permissions.

An installation is also a membership: the app's bot is in the organization, with the role `app`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import sqlalchemy as sa
from msgspec import UNSET, UnsetType

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Forbidden, Invalid, require_found, say
from workhook.identity import audit, removal
from workhook.identity.actions import add_membership, remove_membership
from workhook.identity.apps import queries, schemas
from workhook.identity.apps.schemas import App, Installation, selection_of
from workhook.identity.queries import find_repositories
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import installation_repositories, installations
from workhook.identity.tokens.issue import forget_after_commit, revoke_of
from workhook.identity.tokens.lookup import weaker
from workhook.storage import Transaction
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned

REPOSITORIES_MAX = 500
_RESOURCE = "Installation"

_of_id = installations.c.id == bigint_param("installation_id")
_edit = sa.update(installations).where(_of_id).values(assigned(("repository_selection", "permissions", "updated_at")))
_suspend = sa.update(installations).where(_of_id).values(assigned(("suspended_at", "suspended_by", "updated_at")))
_delete = sa.delete(installations).where(_of_id)
_add_repository = insert_into(installation_repositories, "installation_id", "repository_id")
_drop_repositories = sa.delete(installation_repositories).where(
    installation_repositories.c.installation_id == bigint_param("installation_id")
)

By = Literal["app", "organization"]


async def install(
    tx: Transaction,
    actor: Actor | None,
    app: App,
    organization: Account,
    *,
    permissions: Mapping[str, str] | None = None,
    repository_ids: Collection[int] | None = None,
    known: Sequence[Fault] = (),
) -> Installation:
    """Install an app. Raises `Invalid` with its own faults and the `known` ones.

    `permissions` None grants all that it requests. `repository_ids` None selects all repositories and future ones.
    """
    fresh = await queries.find_app(tx, app.id, for_update=True)
    if fresh is None or fresh.bot_id is None or not (fresh.public or fresh.account_id == organization.id):
        raise _invalid([*known, no_such_app()])
    granted = dict(fresh.permissions if permissions is None else permissions)
    faults = [*known, *schemas.permission_faults(granted, most=fresh.permissions)]
    faults += await _repository_faults(tx, organization, repository_ids)
    if await queries.find_installation_on(tx, fresh.id, organization.id) is not None:
        message = say("{} is already installed on this organization", fresh.slug)
        faults.append(Fault(field="app", code="already_exists", message=message))
    if faults:
        raise _invalid(faults)
    now = now_ms()
    values = {"app_id": fresh.id, "account_id": organization.id, **_stored(granted, repository_ids)}
    number = await tx.insert(installations, {**values, "created_at": now, "updated_at": now})
    await _choose(tx, number, repository_ids)
    member = {"organization_id": organization.id, "user_id": fresh.bot_id, "role": "app", "created_at": now}
    await tx.execute(add_membership, member)
    installation = await _lock(tx, number)
    await _audit(tx, actor, installation, "installation.create", **_settings(installation))
    forget_after_commit(tx)  # tokens of the app's users now reach further
    return installation


async def uninstall(
    tx: Transaction, actor: Actor | None, installation: Installation, *, remove_webhooks: bool = False
) -> list[str]:
    """End the installation and its tokens, and return the paths of its webhooks.

    The webhooks remain, as on GitHub, unless the owner removes them. Raises `NotFound`.
    """
    await _lock(tx, installation.id)  # issuing a token takes the same lock, so none is missed
    await revoke_of(tx, installation_id=installation.id)
    await tx.execute(_delete, {"installation_id": installation.id})
    if installation.app.bot_id is not None:
        member = {"organization_id": installation.account.id, "user_id": installation.app.bot_id}
        await tx.execute(remove_membership, member)
    await _weakened(tx, actor, installation)
    gone = [await each(tx, installation.id, installation.account.id, remove_webhooks) for each in removal.installations]
    webhooks = [address for each in gone for address in each]
    detail = {"webhooks_removed" if remove_webhooks else "webhooks_left": len(webhooks)} if webhooks else {}
    await _audit(tx, actor, installation, "installation.delete", **detail)
    forget_after_commit(tx)
    return webhooks


async def edit_installation(
    tx: Transaction,
    actor: Actor | None,
    installation: Installation,
    *,
    permissions: Mapping[str, str] | UnsetType = UNSET,
    repository_ids: Collection[int] | UnsetType | None = UNSET,
    known: Sequence[Fault] = (),
) -> Installation:
    """Change the permissions, within those that the app requests, or the repositories (None: all).

    Raises `Invalid` with its own faults and the `known` ones, and `NotFound`.
    """
    app = require_found(await queries.find_app(tx, installation.app.id, for_update=True))
    old = await _lock(tx, installation.id)
    granted = old.permissions if permissions is UNSET else dict(permissions)
    chosen = old.repository_ids if repository_ids is UNSET else repository_ids
    faults = [*known, *schemas.permission_faults(granted, most=app.permissions)]
    if repository_ids is not UNSET:
        faults += await _repository_faults(tx, old.account, chosen, kept=old.repository_ids or ())
    if faults:
        raise _invalid(faults)
    same_repositories = (chosen if chosen is None else frozenset(chosen)) == old.repository_ids
    if dict(granted) == dict(old.permissions) and same_repositories:
        return old
    await tx.execute(_edit, {**_stored(granted, chosen), "updated_at": now_ms(), "installation_id": old.id})
    if repository_ids is not UNSET:
        await tx.execute(_drop_repositories, {"installation_id": old.id})
        await _choose(tx, old.id, chosen)
    changed = await _lock(tx, old.id)
    await _weakened(tx, actor, changed)
    await _audit(tx, actor, changed, "installation.update", **_settings(changed))
    forget_after_commit(tx)
    return changed


async def _weakened(tx: Transaction, actor: Actor | None, installation: Installation) -> None:
    await removal.rights_lost(tx, installation.account.id, user_id=installation.app.bot_id, actor=actor)


async def suspend(tx: Transaction, actor: Actor | None, installation: Installation, *, by: By = "organization") -> None:
    """Suspend the installation's tokens, and those of its users on this organization.

    An owner's suspension replaces the app's own, and the app cannot lift it.
    """
    current = await _lock(tx, installation.id)
    if current.suspended_at is None or (current.suspended_by, by) == ("app", "organization"):
        await _set_suspended(tx, actor, current, now_ms(), by)


async def unsuspend(
    tx: Transaction, actor: Actor | None, installation: Installation, *, by: By = "organization"
) -> None:
    """Lift a suspension. Raises `Forbidden` if an app tries to lift an owner's."""
    current = await _lock(tx, installation.id)
    if current.suspended_at is None:
        return
    if by == "app" and current.suspended_by != "app":
        raise Forbidden(say("An owner of {} has suspended this installation.", current.account.login), code="suspended")
    await _set_suspended(tx, actor, current, None, None)


async def reduce_permissions(tx: Transaction, actor: Actor | None, app: App) -> None:
    """Reduce the permissions of all installations to those that the app requests now."""
    for installation in (await queries.list_installations_of(tx, app.id))[0]:
        kept = weaker(app.permissions, installation.permissions)
        if kept == dict(installation.permissions):
            continue
        values = _stored(kept, installation.repository_ids)
        await tx.execute(_edit, {**values, "updated_at": now_ms(), "installation_id": installation.id})
        await _weakened(tx, actor, installation)
        await _audit(tx, actor, installation, "installation.update", permissions=kept)
    forget_after_commit(tx)


async def _set_suspended(
    tx: Transaction, actor: Actor | None, installation: Installation, at: int | None, by: By | None
) -> None:
    values = {"suspended_at": at, "suspended_by": by, "updated_at": now_ms()}
    await tx.execute(_suspend, {**values, "installation_id": installation.id})
    if at is not None:
        await _weakened(tx, actor, installation)
    await _audit(tx, actor, installation, "installation.unsuspend" if at is None else "installation.suspend")
    forget_after_commit(tx)


async def _lock(tx: Transaction, installation_id: int) -> Installation:
    return require_found(await queries.find_installation(tx, installation_id, for_update=True))


async def _repository_faults(
    tx: Transaction, account: Account, ids: Collection[int] | None, *, kept: Collection[int] = ()
) -> list[Fault]:
    """Return the faults of the repository IDs. `kept` were selected before, and may be in the trash."""
    if ids is None:
        return []
    if not 1 <= len(ids) <= REPOSITORIES_MAX:
        message = say("repositories must list 1 to {} repositories", REPOSITORIES_MAX)
        return [Fault(field="repositories", code="custom", message=message)]
    added = set(ids).difference(kept)
    strange = added.difference(each.id for each in await find_repositories(tx, account, ids=sorted(added)))
    messages = [say("{} has no repository with the ID {}", account.login, each) for each in sorted(strange)]
    return [Fault(field="repositories", code="invalid", message=each) for each in messages]


def _stored(permissions: Mapping[str, str], repository_ids: Collection[int] | None) -> dict[str, object]:
    selection = selection_of(repository_ids)
    return {"permissions": json.encode_text(dict(permissions)), "repository_selection": selection}


async def _choose(tx: Transaction, installation_id: int, ids: Collection[int] | None) -> None:
    for one in sorted(set(ids or ())):
        await tx.execute(_add_repository, {"installation_id": installation_id, "repository_id": one})


def _settings(installation: Installation) -> dict[str, object]:
    chosen = installation.repository_ids
    return {"permissions": dict(installation.permissions), "repositories": "all" if chosen is None else sorted(chosen)}


async def _audit(
    tx: Transaction, actor: Actor | None, installation: Installation, action: str, **detail: object
) -> None:
    target, account_id = f"installation/{installation.id}", installation.account.id
    detail = {"app": installation.app.slug, **detail}
    await audit.record(tx, actor, action, target, account_id=account_id, detail=detail)


def no_such_app() -> Fault:
    """Return the same fault for an unknown app and for another organization's private one."""
    message = "app must be the slug or client ID of an app that is public or the organization's own"
    return Fault("app", "invalid", message, resource=_RESOURCE)


def _invalid(faults: list[Fault]) -> Invalid:
    return Invalid(faults=[Fault(each.field, each.code, each.message, resource=_RESOURCE) for each in faults])
