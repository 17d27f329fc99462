"""Queries for hooks: those of one owner (organization or repository) visible to a viewer, and those of OAuth apps."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.hooks.schemas import HOOK_COLUMNS, AppHook, Hook, HookOwner, hook_from_row
from workhook.hooks.tables import deliveries, hooks
from workhook.identity.queries import repository_columns, repository_of, role_columns
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import accounts, apps, projects
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import Page, numbered_list, read_page

_columns = [hooks.c[name] for name in HOOK_COLUMNS]
# `HookViewer.sees` for an organization's hooks.
_seen = sa.or_(
    sa.bindparam("sees_everything", type_=sa.Boolean()),
    hooks.c.app_id.is_not_distinct_from(bigint_param("viewer_app_id")),
)


class _Statements:
    """Statements for the hooks of one kind of owner. `seen`: visibility to the viewer."""

    def __init__(self, *belongs: sa.ColumnElement[bool], seen: sa.ColumnElement[bool] | None = None) -> None:
        found = sa.select(*_columns).where(*belongs, *([] if seen is None else [seen]))
        self.all = found.order_by(hooks.c.id)
        self.page = numbered_list(found, hooks.c.id, counts=False)
        self.one = found.where(hooks.c.id == bigint_param("hook_id"))
        self.locked = self.one.with_for_update()
        self.exists = sa.select(hooks.c.id).where(hooks.c.id == bigint_param("hook_id"), *belongs)


_of_repository = _Statements(hooks.c.repository_id == bigint_param("repository_id"))
_of_organization = _Statements(
    hooks.c.account_id == bigint_param("account_id"), hooks.c.repository_id.is_(None), seen=_seen
)
_some = sa.select(*_columns).where(any_of(hooks.c.id, "hook_ids"))
_first_hook = sa.select(hooks.c.id).limit(1)
# One index probe per hook, however many deliveries are kept.
_any_delivery = deliveries.alias("any_delivery")
_newest_id = sa.select(sa.func.max(_any_delivery.c.id)).where(_any_delivery.c.hook_id == hooks.c.id).correlate(hooks)
_newest = sa.select(deliveries.c.hook_id, deliveries.c.status, deliveries.c.status_code).where(
    deliveries.c.id.in_(
        sa.select(_newest_id.scalar_subquery()).select_from(hooks).where(any_of(hooks.c.id, "hook_ids"))
    ),
    deliveries.c.delivered_at >= bigint_param("since"),
)


def _statements(owner: HookOwner) -> _Statements:
    return _of_organization if owner.repository is None else _of_repository


def _params(owner: HookOwner) -> dict[str, object]:
    place = {"repository_id": owner.repository_id, "account_id": owner.account.id}
    return {**place, "sees_everything": owner.viewer.everything, "viewer_app_id": owner.viewer.app_id}


async def list_hooks(reader: Reader, owner: HookOwner, page: Page) -> tuple[list[Hook], int]:
    """Return a page of the hooks visible to the viewer, oldest first, and their total number."""
    rows, total = await read_page(reader, _statements(owner).page, _params(owner), page)
    return [hook_from_row(row) for row in rows], total


async def all_hooks(reader: Reader, owner: HookOwner) -> list[Hook]:
    return [hook_from_row(row) for row in await reader.fetch_all(_statements(owner).all, _params(owner))]


async def find_hook(
    reader: Reader, owner: HookOwner, hook_id: int, *, actor: Actor | None = None, for_update: bool = False
) -> Hook | None:
    """Return the hook, or None if it has another owner or the viewer does not see it. `actor`: the requesting actor."""
    statements, params = _statements(owner), {**_params(owner), "hook_id": hook_id}
    row = await reader.fetch_one(statements.locked if for_update else statements.one, params)
    # The audit log records requests for hooks that only an OAuth app sees.
    if row is None and actor is not None and await reader.fetch_one(statements.exists, params) is not None:
        actor.request.set_subject(owner.account.id, owner.repository_id, hidden=True)
    return hook_from_row(row) if row else None


async def hooks_by_id(reader: Reader, hook_ids: Sequence[int]) -> list[Hook]:
    return [hook_from_row(row) for row in await reader.fetch_all(_some, {"hook_ids": list(hook_ids)})]


async def has_any_hook(reader: Reader) -> bool:
    return await reader.fetch_one(_first_hook) is not None


async def newest_deliveries(reader: Reader, hook_ids: Sequence[int], since: int) -> dict[int, Row]:
    """Return status and code of each hook's newest delivery, unless older than `since` (milliseconds)."""
    rows = await reader.fetch_all(_newest, {"hook_ids": list(hook_ids), "since": since})
    return {row["hook_id"]: row for row in rows}


# --- webhooks of OAuth apps, for organization owners ------------------------------------------------------------------

_PREFIX = "project_"
_app_names = (apps.c.client_id.label("app_client_id"), apps.c.name.label("app_name"))
_app_hooks = (
    sa.select(*_columns, *_app_names, *repository_columns(_PREFIX), *role_columns)
    .join_from(hooks, apps, apps.c.id == hooks.c.app_id)
    .join(accounts, accounts.c.id == hooks.c.account_id)
    .outerjoin(projects, projects.c.repository_id == hooks.c.repository_id)
    .where(
        hooks.c.account_id == bigint_param("account_id"), hooks.c.app_id.is_not(None), projects.c.deleted_at.is_(None)
    )
)
_of_apps = numbered_list(_app_hooks, hooks.c.id)


async def list_app_hooks(reader: Reader, actor: Actor, organization: Account, page: Page) -> tuple[list[AppHook], int]:
    """Return a page of the hooks that OAuth apps created in an organization and its repositories, oldest first.

    Other lists show an organization's hook only to its app, but owners must be able to see and stop data leaving their
    organization. Hooks of deleted repositories send nothing, so they are omitted.
    """
    rows, total = await read_page(reader, _of_apps, {"account_id": organization.id, "user_id": actor.user.id}, page)
    found = []
    for row in rows:
        inside = row["repository_id"] is not None
        owner = HookOwner(organization, repository_of(row, actor.user.id, _PREFIX) if inside else None)
        found.append(AppHook(hook_from_row(row), owner, row["app_client_id"], row["app_name"]))
    return found, total
