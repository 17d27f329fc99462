"""What an app and its users ask of installations: which there are, and the repositories of one."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from workhook.identity.apps.queries import installation_of, installed
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.apps.tables import installation_repositories, installations
from workhook.identity.queries import account_columns, key_of, repositories, repository_of, role_columns
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.pages import Page, listed, read_page

_of_app = installed.where(installations.c.app_id == big("app_id"))
_one = _of_app.where(installations.c.id == big("installation_id"))
_on_account = _of_app.where(accounts.c.login_key == sa.bindparam("login_key"))
_beside_repository = (
    _of_app.join(projects, projects.c.account_id == accounts.c.id)
    .where(projects.c.deleted_at.is_(None))
    .add_columns(projects.c.repository_id.label("repository_id"))
)
_on_repository = _beside_repository.where(
    accounts.c.login_key == sa.bindparam("login_key"), projects.c.name_key == sa.bindparam("name_key")
)
_on_repository_by_id = _beside_repository.where(projects.c.repository_id == big("repository_id"))
_member = (
    sa.select(memberships.c.user_id)
    .where(memberships.c.organization_id == installations.c.account_id, memberships.c.user_id == big("user_id"))
    .exists()
)
_is_chosen = (
    sa.select(installation_repositories.c.repository_id)
    .where(
        installation_repositories.c.installation_id == installations.c.id,
        installation_repositories.c.repository_id == projects.c.repository_id,
    )
    .correlate(installations, projects)
    .exists()
)
# Somebody from outside has a part in it by a repository that the installation reaches.
_collaborator = (
    sa.select(collaborators.c.user_id)
    .join_from(collaborators, projects, projects.c.repository_id == collaborators.c.repository_id)
    .where(
        collaborators.c.user_id == big("user_id"),
        projects.c.account_id == installations.c.account_id,
        projects.c.deleted_at.is_(None),
        sa.or_(installations.c.repository_selection == "all", _is_chosen),
    )
    .correlate(installations)
    .exists()
)
# By the places of the user, so that it costs nothing on how many others the app is.
_mine, _added, _inside = memberships.alias("mine"), collaborators.alias("added"), projects.alias("inside")
_places = sa.union(
    sa.select(_mine.c.organization_id).where(_mine.c.user_id == big("user_id")),
    sa.select(_inside.c.account_id)
    .join_from(_added, _inside, _inside.c.repository_id == _added.c.repository_id)
    .where(_added.c.user_id == big("user_id")),
)
_of_user = _of_app.where(
    installations.c.account_id.in_(_places),
    sa.or_(_member, _collaborator),
    sa.or_(big("place_id") == 0, installations.c.account_id == big("place_id")),
)
_one_of_user = _of_user.where(installations.c.id == big("installation_id"))
_list_of_user = listed(_of_user, installations.c.id, counts=False)

_here = sa.and_(installations.c.account_id == accounts.c.id, installations.c.app_id == big("app_id"))
_owned = (
    sa.select(*account_columns(), installations.c.id.label("installation_id"))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .outerjoin(installations, _here)
    .where(memberships.c.user_id == big("user_id"), memberships.c.role == "owner")
    .order_by(accounts.c.id)
)

_in_account = repositories.where(projects.c.account_id == big("account_id"))
_reached = _in_account.where(
    sa.or_(sa.bindparam("all", type_=sa.Boolean()), any_of(projects.c.repository_id, "repository_ids"))
)
_as_collaborator, _as_member = (each.element for each in role_columns)
sees = sa.or_(
    _as_collaborator.is_not(None),
    _as_member == "owner",
    _as_member == "app",
    sa.and_(_as_member == "member", projects.c.private.is_(sa.false())),
)
"""Whether `repository_of` finds a role in it for the parameter `user_id`, so that a page is as long as it says."""
_seen = _reached.where(sees)
_seen_list = listed(_seen, projects.c.repository_id, counts=False)
_named = _reached.where(
    sa.or_(any_of(projects.c.name_key, "name_keys"), any_of(projects.c.repository_id, "named_ids"))
).order_by(projects.c.repository_id)


class Owned(NamedTuple):
    """An organization, and whether the app in question is on it."""

    account: Account
    installed: bool


async def list_owned(reader: Reader, user_id: int, app: App) -> list[Owned]:
    """Organizations of which the user is an owner and on which the app can be, or is, oldest first."""
    rows = await reader.fetch_all(_owned, {"user_id": user_id, "app_id": app.id})
    found = [Owned(account_of(row), row["installation_id"] is not None) for row in rows]
    return [each for each in found if app.public or each.account.id == app.account_id]


async def find_own(reader: Reader, app_id: int, installation_id: int) -> Installation | None:
    """None for another app's."""
    row = await reader.fetch_one(_one, {"app_id": app_id, "installation_id": installation_id})
    return installation_of(row) if row else None


async def find_on(reader: Reader, app: App, login: str) -> Installation | None:
    """Of the app, on the account with the login."""
    row = await reader.fetch_one(_on_account, {"app_id": app.id, "login_key": key_of(login)})
    return installation_of(row) if row else None


async def find_reaching(reader: Reader, app: App, owner: str, name: str) -> Installation | None:
    """Of the app, where it reaches the repository."""
    params = {"app_id": app.id, "login_key": key_of(owner), "name_key": key_of(name)}
    return _if_reached(await reader.fetch_one(_on_repository, params))


async def find_reaching_by_id(reader: Reader, app: App, repository_id: int) -> Installation | None:
    """Of the app, where it reaches the repository with this number."""
    return _if_reached(await reader.fetch_one(_on_repository_by_id, {"app_id": app.id, "repository_id": repository_id}))


def _if_reached(row: Row | None) -> Installation | None:
    if row is None:
        return None
    ids = installation_of(row).repository_ids
    return installation_of(row) if ids is None or row["repository_id"] in ids else None


async def find_of_user(
    reader: Reader, app_id: int, user_id: int, installation_id: int, *, place_id: int | None = None
) -> Installation | None:
    """None where the user has no part in it. `place_id`: nor where it is on another account."""
    params = {"app_id": app_id, "user_id": user_id, "installation_id": installation_id, "place_id": place_id or 0}
    row = await reader.fetch_one(_one_of_user, params)
    return installation_of(row) if row else None


async def list_of_user(
    reader: Reader, app_id: int, user_id: int, page: Page, *, place_id: int | None = None
) -> tuple[list[Installation], int]:
    """The app's installations that the user has a part in, as a member of the organization or by a repository that it
    reaches; oldest first. And how many there are. `place_id`: only on this account."""
    params = {"app_id": app_id, "user_id": user_id, "place_id": place_id or 0}
    rows, total = await read_page(reader, _list_of_user, params, page)
    return [installation_of(row) for row in rows], total


async def list_repositories(
    reader: Reader, account: Account, repository_ids: Collection[int] | None, user_id: int, page: Page
) -> tuple[list[Repository], int]:
    """The account's repositories that the user sees, oldest first, and how many there are. `repository_ids`: only
    among these; None: all."""
    params = {**_reach(account, repository_ids), "user_id": user_id}
    rows, total = await read_page(reader, _seen_list, params, page)
    return [repository_of(row, user_id) for row in rows], total


async def named_repositories(
    reader: Reader,
    installation: Installation,
    *,
    names: Collection[str],
    ids: Collection[int],
    user_id: int | None = None,
) -> list[Repository]:
    """Those of the installation that have one of the names or ids. `user_id`: and that the user sees; None: its bot."""
    user_id = installation.app.bot_id or 0 if user_id is None else user_id
    given = {"name_keys": [key_of(name) for name in names], "named_ids": list(ids), "user_id": user_id}
    rows = await reader.fetch_all(_named, {**_reach(installation.account, installation.repository_ids), **given})
    found = [repository_of(row, user_id) for row in rows]
    return [each for each in found if each.role is not None]


def _reach(account: Account, repository_ids: Collection[int] | None) -> dict[str, object]:
    return {"account_id": account.id, "all": repository_ids is None, "repository_ids": sorted(repository_ids or ())}
