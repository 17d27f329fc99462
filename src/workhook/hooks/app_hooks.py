"""Webhooks that OAuth apps made, for the owners of an organization. The webhook API shows them to the app alone
(Authentication 3 of the spec), but owners can see and end what leaves their organization."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.core.errors import NotFound
from workhook.hooks import actions
from workhook.hooks.records import HOOK_COLUMNS, OPERATOR, Hook, HookOwner, hook_of
from workhook.hooks.tables import hooks
from workhook.identity.queries import find_repository_by_id, repository_columns, repository_of, role_columns
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import accounts, apps, projects
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big

_PREFIX = "project_"
_made = (
    sa.select(
        *(hooks.c[name] for name in HOOK_COLUMNS),
        apps.c.client_id.label("app_client_id"),
        apps.c.name.label("app_name"),
        *repository_columns(_PREFIX),
        *role_columns,
    )
    .join_from(hooks, apps, apps.c.id == hooks.c.app_id)
    .join(accounts, accounts.c.id == hooks.c.account_id)
    .outerjoin(projects, projects.c.repository_id == hooks.c.repository_id)
    .where(hooks.c.account_id == big("account_id"), hooks.c.app_id.is_not(None), projects.c.deleted_at.is_(None))
)
_page = (
    _made.add_columns(sa.func.count().over().label("total"))
    .order_by(hooks.c.id)
    .limit(big("limit"))
    .offset(big("offset"))
)
_count = sa.select(sa.func.count().label("total")).select_from(_made.subquery())
_one = sa.select(hooks.c.repository_id).where(
    hooks.c.id == big("hook_id"), hooks.c.account_id == big("account_id"), hooks.c.app_id.is_not(None)
)


class AppHook(msgspec.Struct, frozen=True):
    """A webhook, where it is, and the app that made it."""

    hook: Hook
    owner: HookOwner
    client_id: str
    name: str


async def list_app_hooks(
    reader: Reader, actor: Actor, organization: Account, *, limit: int, offset: int
) -> tuple[list[AppHook], int]:
    """A page of the hooks in the organization and its repositories, oldest first, and the number of all of them. Hooks
    of a deleted repository are left out: they send nothing."""
    params = {"account_id": organization.id, "user_id": actor.user.id}
    rows = await reader.fetch_all(_page, {**params, "limit": limit, "offset": offset})
    total = rows[0]["total"] if rows else 0
    if not rows and offset:
        counted = await reader.fetch_one(_count, params)
        total = counted["total"] if counted else 0
    found = []
    for row in rows:
        inside = row["repository_id"] is not None
        repository = repository_of(row, actor.user.id, _PREFIX) if inside else None
        owner = HookOwner(organization, repository, OPERATOR)
        found.append(AppHook(hook_of(row), owner, row["app_client_id"], row["app_name"]))
    return found, total


async def delete_app_hook(tx: Transaction, actor: Actor, organization: Account, hook_id: int) -> None:
    """Raises `NotFound`, also for a webhook that no OAuth app made."""
    row = await tx.fetch_one(_one, {"hook_id": hook_id, "account_id": organization.id})
    if row is None:
        raise NotFound()
    repository = None
    if row["repository_id"] is not None:
        repository = await find_repository_by_id(tx, row["repository_id"], actor.user.id)
        if repository is None:
            raise NotFound()
    await actions.delete_hook(tx, actor, HookOwner(organization, repository, OPERATOR), hook_id)
