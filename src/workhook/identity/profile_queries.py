"""What a caller sees of organizations, repositories and other people."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.identity.apps.app_queries import sees
from workhook.identity.queries import account_columns, key_of, repositories, repository_of
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.reach import reach_params, within_reach
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.storage.pages import Page, listed, read_page

_theirs = memberships.alias("theirs")
# The organizations that the caller and somebody are both in; the caller's own are those with itself.
_shared = listed(
    sa.select(*account_columns())
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .join(_theirs, _theirs.c.organization_id == memberships.c.organization_id)
    .where(
        memberships.c.user_id == big("user_id"),
        _theirs.c.user_id == big("other_id"),
        within_reach(memberships.c.organization_id, None),
    ),
    accounts.c.id,
)

# By what the user is in, so that it costs nothing how many others the server has.
_seen = repositories.where(
    sa.or_(
        projects.c.account_id == big("user_id"),
        projects.c.account_id.in_(
            sa.select(memberships.c.organization_id).where(memberships.c.user_id == big("user_id"))
        ),
        projects.c.repository_id.in_(
            sa.select(collaborators.c.repository_id).where(collaborators.c.user_id == big("user_id"))
        ),
    ),
    sa.or_(projects.c.account_id == big("user_id"), sees),
    within_reach(projects.c.account_id, projects.c.repository_id),
)
_repositories = listed(_seen, projects.c.repository_id)
_repositories_of = listed(_seen.where(projects.c.account_id == big("account_id")), projects.c.repository_id)

_in_it = (
    sa.select(memberships.c.role)
    .where(
        memberships.c.user_id == big("user_id"),
        memberships.c.organization_id == accounts.c.id,
        within_reach(memberships.c.organization_id, None),
    )
    .correlate(accounts)
    .exists()
)
_fellow = (
    sa.select(_theirs.c.role)
    .join_from(memberships, _theirs, _theirs.c.organization_id == memberships.c.organization_id)
    .where(
        memberships.c.user_id == big("user_id"),
        _theirs.c.user_id == accounts.c.id,
        within_reach(memberships.c.organization_id, None),
    )
    .correlate(accounts)
    .exists()
)
is_visible = sa.or_(accounts.c.id == big("user_id"), _in_it, _fellow)
"""The caller, an organization that the caller is in, or somebody who is in one of these; nobody else. `reach_params`
and `user_id` are its parameters."""
_visible = sa.select(*account_columns()).where(is_visible)
_visible_by_login = _visible.where(accounts.c.login_key == sa.bindparam("login_key"))
_visible_by_id = _visible.where(accounts.c.id == big("id"))


async def list_shared(reader: Reader, actor: Actor, user_id: int, page: Page) -> tuple[list[Account], int]:
    """The organizations that the caller and the user are in, as far as the token reaches, oldest first; and how many
    there are."""
    params = {"user_id": actor.user.id, "other_id": user_id, **reach_params(actor)}
    rows, number = await read_page(reader, _shared, params, page)
    return [account_of(row) for row in rows], number


async def list_own_repositories(reader: Reader, actor: Actor, page: Page) -> tuple[list[Repository], int]:
    """Those in which the caller has a place, as far as the token reaches, oldest first; and how many there are."""
    params = {"user_id": actor.user.id, **reach_params(actor)}
    rows, number = await read_page(reader, _repositories, params, page)
    return [repository_of(row, actor.user.id) for row in rows], number


async def list_repositories_of(
    reader: Reader, actor: Actor, account: Account, page: Page
) -> tuple[list[Repository], int]:
    """Those of them that the account owns, oldest first; and how many there are."""
    params = {"user_id": actor.user.id, "account_id": account.id, **reach_params(actor)}
    rows, number = await read_page(reader, _repositories_of, params, page)
    return [repository_of(row, actor.user.id) for row in rows], number


async def find_visible(reader: Reader, actor: Actor, login: str) -> Account | None:
    """None for those whom the caller does not see."""
    params = {"user_id": actor.user.id, "login_key": key_of(login), **reach_params(actor)}
    row = await reader.fetch_one(_visible_by_login, params)
    return account_of(row) if row else None


async def find_visible_by_id(reader: Reader, actor: Actor, account_id: int) -> Account | None:
    """None for those whom the caller does not see."""
    params = {"user_id": actor.user.id, "id": account_id, **reach_params(actor)}
    row = await reader.fetch_one(_visible_by_id, params)
    return account_of(row) if row else None
