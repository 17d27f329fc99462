"""Queries for apps and their installations."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from workhook.core import json
from workhook.identity.apps.schemas import App, AppKey, AppSecret, Installation
from workhook.identity.queries import account_columns, chosen_ids, key_of, repositories, repository_of, role_columns
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import (
    accounts,
    app_keys,
    app_secrets,
    apps,
    collaborators,
    installation_repositories,
    installations,
    memberships,
    projects,
)
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import ALL_ROWS, NumberedList, Page, count, numbered_list, read_page
from workhook.storage.record_rows import row_reader, selected

R = TypeVar("R")

APP_COLUMNS = App.__struct_fields__
app_columns = [apps.c[name] for name in APP_COLUMNS]
_apps = sa.select(*app_columns)
_by_id = _apps.where(apps.c.id == bigint_param("id"))
_by_id_locked = _by_id.with_for_update()
_by_id_kept = _by_id.with_for_update(read=True, key_share=True)
_by_client_id = _apps.where(apps.c.client_id == sa.bindparam("client_id"))
_by_slug = _apps.where(apps.c.slug == sa.bindparam("slug"))
_of_account = _apps.where(
    apps.c.account_id == bigint_param("account_id"), apps.c.kind == sa.bindparam("kind", type_=sa.Text())
)
_list_of_account = numbered_list(_of_account, apps.c.id, counts=False)
_keys = (
    sa.select(*selected(AppKey, app_keys)).where(app_keys.c.app_id == bigint_param("app_id")).order_by(app_keys.c.id)
)
_secret_list = sa.select(*selected(AppSecret, app_secrets)).where(app_secrets.c.app_id == bigint_param("app_id"))
_secret_list = _secret_list.order_by(app_secrets.c.id)
_key_of, _secret_of = row_reader(AppKey), row_reader(AppSecret)


_NAMES = ("id", "permissions", "repository_selection", "suspended_at", "suspended_by", "created_at", "updated_at")
installed = (
    sa.select(
        *(installations.c[name].label("installation_" + name) for name in _NAMES),
        chosen_ids.label("repositories"),
        *(each.label("app_" + each.name) for each in app_columns),
        *account_columns("account_"),
    )
    .join_from(installations, apps, apps.c.id == installations.c.app_id)
    .join(accounts, accounts.c.id == installations.c.account_id)
)
"""Selects all installations, for `installation_of`."""
_installation = installed.where(installations.c.id == bigint_param("id"))
_installation_locked = _installation.with_for_update(of=installations)
_of_app = installed.where(installations.c.app_id == bigint_param("app_id"))
_installation_of_both = _of_app.where(installations.c.account_id == bigint_param("account_id"))
_list_of_app = numbered_list(_of_app, installations.c.id, counts=False)
_on_this_account = installed.where(installations.c.account_id == bigint_param("account_id"))
_list_on_account = numbered_list(_on_this_account, installations.c.id, counts=False)


def app_of(row: Row, prefix: str = "") -> App:
    """Read an app from a row of `app_columns` with this prefix."""
    values = {name: row[prefix + name] for name in APP_COLUMNS}
    values["callback_urls"] = tuple(json.decode(values["callback_urls"]))
    values["permissions"] = json.decode(values["permissions"])
    values["device_flow"], values["public"] = bool(values["device_flow"]), bool(values["public"])
    return App(**values)


def installation_of(row: Row) -> Installation:
    """Read a row of `installed`."""
    chosen = frozenset(one for (one,) in json.decode(row["repositories"]))
    return Installation(
        id=row["installation_id"],
        app=app_of(row, "app_"),
        account=account_of(row, "account_"),
        permissions=json.decode(row["installation_permissions"]),
        repository_ids=None if row["installation_repository_selection"] == "all" else chosen,
        suspended_at=row["installation_suspended_at"],
        suspended_by=row["installation_suspended_by"],
        created_at=row["installation_created_at"],
        updated_at=row["installation_updated_at"],
    )


async def _find(reader: Reader, read: Callable[[Row], R], statement: sa.Select[Any], **params: object) -> R | None:
    row = await reader.fetch_one(statement, params)
    return read(row) if row else None


async def find_app(reader: Reader, app_id: int, *, for_update: bool = False) -> App | None:
    return await _find(reader, app_of, _by_id_locked if for_update else _by_id, id=app_id)


async def lock_app(tx: Transaction, app_id: int) -> bool:
    """Lock the app against a revocation of all its tokens.

    Returns whether the app exists. Take this lock before any other when issuing a token
    (docs/contributors/decisions/0025-one-actor.md).
    """
    return await tx.fetch_one(_by_id_kept, {"id": app_id}) is not None


async def find_client(reader: Reader, client_id: str) -> App | None:
    return await _find(reader, app_of, _by_client_id, client_id=client_id)


async def find_slug(reader: Reader, slug: str) -> App | None:
    return await _find(reader, app_of, _by_slug, slug=slug.lower())


async def list_apps(reader: Reader, account_id: int, kind: str, page: Page = ALL_ROWS) -> tuple[list[App], int]:
    rows, total = await read_page(reader, _list_of_account, {"account_id": account_id, "kind": kind}, page)
    return [app_of(row) for row in rows], total


async def list_keys(reader: Reader, app_id: int) -> list[AppKey]:
    return [_key_of(row) for row in await reader.fetch_all(_keys, {"app_id": app_id})]


async def list_secrets(reader: Reader, app_id: int) -> list[AppSecret]:
    return [_secret_of(row) for row in await reader.fetch_all(_secret_list, {"app_id": app_id})]


async def _page(
    reader: Reader, statement: NumberedList, page: Page, **params: object
) -> tuple[list[Installation], int]:
    rows, total = await read_page(reader, statement, params, page)
    return [installation_of(row) for row in rows], total


async def find_installation(reader: Reader, installation_id: int, *, for_update: bool = False) -> Installation | None:
    statement = _installation_locked if for_update else _installation
    return await _find(reader, installation_of, statement, id=installation_id)


async def find_installation_on(reader: Reader, app_id: int, account_id: int) -> Installation | None:
    return await _find(reader, installation_of, _installation_of_both, app_id=app_id, account_id=account_id)


async def list_installations_on(
    reader: Reader, account_id: int, page: Page = ALL_ROWS
) -> tuple[list[Installation], int]:
    """Return all installations on the account, oldest first, and their number."""
    return await _page(reader, _list_on_account, page, account_id=account_id)


async def list_installations_of(reader: Reader, app_id: int, page: Page = ALL_ROWS) -> tuple[list[Installation], int]:
    return await _page(reader, _list_of_app, page, app_id=app_id)


async def count_installations_of(reader: Reader, app_id: int) -> int:
    return await count(reader, _list_of_app, {"app_id": app_id})


_on_login = _of_app.where(accounts.c.login_key == sa.bindparam("login_key"))
_beside_repository = (
    _of_app.join(projects, projects.c.account_id == accounts.c.id)
    .where(projects.c.deleted_at.is_(None))
    .add_columns(projects.c.repository_id.label("repository_id"))
)
_on_repository = _beside_repository.where(
    accounts.c.login_key == sa.bindparam("login_key"), projects.c.name_key == sa.bindparam("name_key")
)
_on_repository_by_id = _beside_repository.where(projects.c.repository_id == bigint_param("repository_id"))
_user_id = bigint_param("user_id")
_member = sa.select(memberships.c.user_id)
_member = _member.where(memberships.c.organization_id == installations.c.account_id, memberships.c.user_id == _user_id)
_chosen = installation_repositories.c
_is_chosen = (
    sa.select(_chosen.repository_id)
    .where(_chosen.installation_id == installations.c.id, _chosen.repository_id == projects.c.repository_id)
    .correlate(installations, projects)
    .exists()
)
# Outside collaborators have access through a repository that the installation reaches.
_collaborator = (
    sa.select(collaborators.c.user_id)
    .join_from(collaborators, projects, projects.c.repository_id == collaborators.c.repository_id)
    .where(
        collaborators.c.user_id == bigint_param("user_id"),
        projects.c.account_id == installations.c.account_id,
        projects.c.deleted_at.is_(None),
        sa.or_(installations.c.repository_selection == "all", _is_chosen),
    )
    .correlate(installations)
    .exists()
)
# Starts from the user's roles, so that the number of other installations does not matter.
_own_membership, _added, _inside = memberships.alias("mine"), collaborators.alias("added"), projects.alias("inside")
_places = sa.union(
    sa.select(_own_membership.c.organization_id).where(_own_membership.c.user_id == bigint_param("user_id")),
    sa.select(_inside.c.account_id)
    .join_from(_added, _inside, _inside.c.repository_id == _added.c.repository_id)
    .where(_added.c.user_id == bigint_param("user_id")),
)
_of_user = _of_app.where(
    installations.c.account_id.in_(_places),
    sa.or_(_member.exists(), _collaborator),
    sa.or_(bigint_param("place_id") == 0, installations.c.account_id == bigint_param("place_id")),
)
_one_of_user = _of_user.where(installations.c.id == bigint_param("installation_id"))
_list_of_user = numbered_list(_of_user, installations.c.id, counts=False)

_on_account = sa.and_(installations.c.account_id == accounts.c.id, installations.c.app_id == bigint_param("app_id"))
_owned = (
    sa.select(*account_columns(), installations.c.id.label("installation_id"))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .outerjoin(installations, _on_account)
    .where(memberships.c.user_id == bigint_param("user_id"), memberships.c.role == "owner")
    .order_by(accounts.c.id)
)

_as_collaborator, _as_member = (each.element for each in role_columns)
sees = sa.or_(
    _as_collaborator.is_not(None),
    _as_member == "owner",
    _as_member == "app",
    sa.and_(_as_member == "member", projects.c.private.is_(sa.false())),
)
"""Condition: the user in the parameter `user_id` has a role in the project, by the rule of `repository_of`."""
_seen = repositories.where(
    projects.c.account_id == bigint_param("account_id"),
    sa.or_(sa.bindparam("all", type_=sa.Boolean()), any_of(projects.c.repository_id, "repository_ids")),
    sees,
)
_seen_list = numbered_list(_seen, projects.c.repository_id, counts=False)


class OwnedOrganization(NamedTuple):
    account: Account
    installed: bool


async def list_owned(reader: Reader, user_id: int, app: App) -> list[OwnedOrganization]:
    """Return the organizations that the user owns and on which the app is or can be installed."""
    rows = await reader.fetch_all(_owned, {"user_id": user_id, "app_id": app.id})
    found = [OwnedOrganization(account_of(row), row["installation_id"] is not None) for row in rows]
    return [each for each in found if app.public or each.account.id == app.account_id]


async def find_on(reader: Reader, app: App, login: str) -> Installation | None:
    return await _find(reader, installation_of, _on_login, app_id=app.id, login_key=key_of(login))


async def find_reaching(
    reader: Reader, app: App, *, named: tuple[str, str] | None = None, repository_id: int = 0
) -> Installation | None:
    """Return the app's installation that covers the repository, by owner and name or else by ID."""
    login_key, name_key = map(key_of, named or ("", ""))
    params = {"app_id": app.id, "repository_id": repository_id, "login_key": login_key, "name_key": name_key}
    row = await reader.fetch_one(_on_repository if named else _on_repository_by_id, params)
    found = installation_of(row) if row else None
    if row is None or found is None or found.repository_ids is None or row["repository_id"] in found.repository_ids:
        return found
    return None


async def find_of_user(
    reader: Reader, app_id: int, user_id: int, installation_id: int, *, place_id: int | None = None
) -> Installation | None:
    """Return an installation that the user has access to. `place_id` limits the search to one account."""
    params = {"app_id": app_id, "user_id": user_id, "installation_id": installation_id, "place_id": place_id or 0}
    return await _find(reader, installation_of, _one_of_user, **params)


async def list_of_user(
    reader: Reader, app_id: int, user_id: int, page: Page, *, place_id: int | None = None
) -> tuple[list[Installation], int]:
    """Return the installations that the user has access to, oldest first, and their number.

    Access is through membership or a repository. `place_id` limits the result to one account.
    """
    return await _page(reader, _list_of_user, page, app_id=app_id, user_id=user_id, place_id=place_id or 0)


async def list_repositories(
    reader: Reader, account: Account, repository_ids: Collection[int] | None, user_id: int, page: Page
) -> tuple[list[Repository], int]:
    """Return the repositories (or those of `repository_ids`) that the user can see, oldest first, and their number."""
    chosen = {"all": repository_ids is None, "repository_ids": sorted(repository_ids or ())}
    params = {"account_id": account.id, "user_id": user_id, **chosen}
    rows, total = await read_page(reader, _seen_list, params, page)
    return [repository_of(row, user_id) for row in rows], total
