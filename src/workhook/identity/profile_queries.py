"""What a caller sees of organizations, repositories and other people."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.identity.apps.app_queries import sees
from workhook.identity.apps.queries import total
from workhook.identity.queries import (
    account_columns,
    find_member_role,
    repositories,
    repository_of,
)
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.reach import in_reach, reach_params, within_reach
from workhook.storage import Reader
from workhook.storage.metadata import big

_organizations = (
    sa.select(*account_columns())
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .where(memberships.c.user_id == big("user_id"), within_reach(memberships.c.organization_id, None))
)
_organizations_count = sa.select(sa.func.count().label("total")).select_from(_organizations.subquery())
_organizations_page = _organizations.order_by(accounts.c.id).limit(big("limit")).offset(big("offset"))

# By what the user is in, so that it costs nothing how many others the server has.
_repositories = repositories.where(
    sa.or_(
        projects.c.account_id.in_(
            sa.select(memberships.c.organization_id).where(memberships.c.user_id == big("user_id"))
        ),
        projects.c.repository_id.in_(
            sa.select(collaborators.c.repository_id).where(collaborators.c.user_id == big("user_id"))
        ),
    ),
    sees,
    within_reach(projects.c.account_id, projects.c.repository_id),
)
_repositories_count = sa.select(sa.func.count().label("total")).select_from(_repositories.subquery())
_repositories_page = _repositories.order_by(projects.c.repository_id).limit(big("limit")).offset(big("offset"))

_theirs = memberships.alias("theirs")
_fellow = (
    sa.select(_theirs.c.role)
    .join_from(memberships, _theirs, _theirs.c.organization_id == memberships.c.organization_id)
    .where(
        memberships.c.user_id == big("user_id"),
        _theirs.c.user_id == big("other_id"),
        within_reach(memberships.c.organization_id, None),
    )
    .limit(sa.literal(1, sa.BigInteger))
)


async def list_organizations(reader: Reader, actor: Actor, *, limit: int, offset: int) -> tuple[list[Account], int]:
    """Those that the caller is in, as far as the token reaches, oldest first; and how many there are."""
    params = {"user_id": actor.user.id, **reach_params(actor)}
    rows = await reader.fetch_all(_organizations_page, {**params, "limit": limit, "offset": offset})
    return [account_of(row) for row in rows], await total(reader, _organizations_count, params)


async def list_own_repositories(
    reader: Reader, actor: Actor, *, limit: int, offset: int
) -> tuple[list[Repository], int]:
    """Those in which the caller has a place, as far as the token reaches, oldest first; and how many there are."""
    params = {"user_id": actor.user.id, **reach_params(actor)}
    rows = await reader.fetch_all(_repositories_page, {**params, "limit": limit, "offset": offset})
    found = [repository_of(row, actor.user.id) for row in rows]
    return found, await total(reader, _repositories_count, params)


async def if_visible(reader: Reader, actor: Actor, account: Account | None) -> Account | None:
    """The caller, an organization that the caller is in, or somebody who is in one of these; nobody else."""
    if account is None or account.id == actor.user.id:
        return account
    if account.kind == "organization":
        seen = in_reach(actor, account.id) and await find_member_role(reader, account.id, actor.user.id) is not None
    else:
        params = {"user_id": actor.user.id, "other_id": account.id, **reach_params(actor)}
        seen = await reader.fetch_one(_fellow, params) is not None
    return account if seen else None
