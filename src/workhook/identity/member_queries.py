"""Who is in an organization or a repository, and what they are there."""

from __future__ import annotations

from typing import Literal, NamedTuple

import sqlalchemy as sa

from workhook.identity.profile_queries import is_visible
from workhook.identity.profile_schemas import Role
from workhook.identity.queries import account_columns, key_of
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships
from workhook.identity.tokens.reach import reach_params, within_reach
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.storage.pages import Listed, Page, listed, read_page

MemberRole = Literal["all", "admin", "member"]
Affiliation = Literal["all", "direct", "outside"]
_ROLES: tuple[Role, ...] = ("none", "read", "write", "admin")


class InOrganization(NamedTuple):
    """Somebody in an organization, or an organization that somebody is in; `role`: owner or member."""

    account: Account
    role: str


class InRepository(NamedTuple):
    """Somebody, and what they may do in a repository."""

    account: Account
    role: Role


# The bots of apps are no members.
_people = (
    sa.select(*account_columns(), memberships.c.role.label("role"))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .where(memberships.c.organization_id == big("organization_id"), accounts.c.kind == "user")
)
_one = _people.where(accounts.c.login_key == sa.bindparam("login_key"))
_members: dict[MemberRole, Listed] = {
    "all": listed(_people, accounts.c.id),
    "admin": listed(_people.where(memberships.c.role == "owner"), accounts.c.id),
    "member": listed(_people.where(memberships.c.role == "member"), accounts.c.id),
}
_of_caller = (
    sa.select(*account_columns(), memberships.c.role.label("role"))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.organization_id)
    .where(memberships.c.user_id == big("user_id"), within_reach(memberships.c.organization_id, None))
)
_own = listed(_of_caller, accounts.c.id)
_own_one = _of_caller.where(accounts.c.login_key == sa.bindparam("login_key"))

# As `repository_of` tells the caller's own role: the stronger of what the place and being added give.
_member, _addition = memberships.alias("member"), collaborators.alias("addition")
_by_place = sa.case(
    (sa.or_(accounts.c.id == big("owner_id"), _member.c.role == "owner"), 3),
    (sa.and_(_member.c.role == "member", sa.not_(sa.bindparam("private", type_=sa.Boolean()))), 2),
    else_=0,
)
_by_hand = sa.case((_addition.c.role == "admin", 3), (_addition.c.role == "write", 2),
                   (_addition.c.role == "read", 1), else_=0)  # fmt: skip
_rank = sa.case((_by_place > _by_hand, _by_place), else_=_by_hand)
_in_organization = sa.and_(_member.c.organization_id == big("owner_id"), _member.c.user_id == accounts.c.id)
_added = sa.and_(_addition.c.repository_id == big("repository_id"), _addition.c.user_id == accounts.c.id)
_anybody = (
    sa.select(*account_columns(), _rank.label("rank"))
    .select_from(accounts.outerjoin(_member, _in_organization).outerjoin(_addition, _added))
    .where(accounts.c.kind == "user")
)
_owner = accounts.alias("owner")
_least = big("least")
_in_it_by_place, _in_it_by_hand = memberships.alias("in_it_by_place"), collaborators.alias("in_it_by_hand")
# By who can be in it, so that it costs nothing how many others the server has; and of these by who can do so much.
_candidates = sa.union(
    sa.select(_in_it_by_place.c.user_id).where(
        _in_it_by_place.c.organization_id == big("owner_id"), sa.or_(_least < 3, _in_it_by_place.c.role == "owner")
    ),
    sa.select(_in_it_by_hand.c.user_id).where(
        _in_it_by_hand.c.repository_id == big("repository_id"),
        sa.or_(_least < 3, _in_it_by_hand.c.role == "admin"),
    ),
    sa.select(_owner.c.id).where(_owner.c.id == big("owner_id")),
)
_everybody = _anybody.where(accounts.c.id.in_(_candidates), _rank >= _least)
_direct = _everybody.where(_addition.c.role.is_not(None))
_outside = _direct.where(_member.c.role.is_(None), accounts.c.id != big("owner_id"))
_in_repository: dict[Affiliation, Listed] = {
    "all": listed(_everybody, accounts.c.id),
    "direct": listed(_direct, accounts.c.id),
    "outside": listed(_outside, accounts.c.id),
}
_somebody = _anybody.where(accounts.c.login_key == sa.bindparam("login_key"), sa.or_(_rank > 0, is_visible))


async def list_members(reader: Reader, organization_id: int, role: MemberRole, page: Page) -> tuple[list[Account], int]:
    """Oldest first, and how many there are. `role` admin: the owners; member: the others."""
    rows, number = await read_page(reader, _members[role], {"organization_id": organization_id}, page)
    return [account_of(row) for row in rows], number


async def find_member(reader: Reader, organization_id: int, login: str) -> InOrganization | None:
    row = await reader.fetch_one(_one, {"organization_id": organization_id, "login_key": key_of(login)})
    return InOrganization(account_of(row), row["role"]) if row else None


async def list_own(reader: Reader, actor: Actor, page: Page) -> tuple[list[InOrganization], int]:
    """The organizations that the caller is in, as far as the token reaches, oldest first; and how many there are."""
    params = {"user_id": actor.user.id, **reach_params(actor)}
    rows, number = await read_page(reader, _own, params, page)
    return [InOrganization(account_of(row), row["role"]) for row in rows], number


async def find_own(reader: Reader, actor: Actor, login: str) -> InOrganization | None:
    """What the caller is in the organization, as far as the token reaches."""
    params = {"user_id": actor.user.id, "login_key": key_of(login), **reach_params(actor)}
    row = await reader.fetch_one(_own_one, params)
    return InOrganization(account_of(row), row["role"]) if row else None


async def list_collaborators(
    reader: Reader, repository: Repository, affiliation: Affiliation, least: Role, page: Page
) -> tuple[list[InRepository], int]:
    """Who may do at least that, oldest first, and how many there are. `affiliation` direct: only who was added;
    outside: of these, who is not in the organization."""
    params = {**_place(repository), "least": _ROLES.index(least)}
    rows, number = await read_page(reader, _in_repository[affiliation], params, page)
    return [_in_it(row) for row in rows], number


async def find_somebody(reader: Reader, actor: Actor, repository: Repository, login: str) -> InRepository | None:
    """Who is in the repository, and anybody else whom the caller sees, with the role none."""
    params = {**_place(repository), "login_key": key_of(login), "user_id": actor.user.id, **reach_params(actor)}
    row = await reader.fetch_one(_somebody, params)
    return _in_it(row) if row else None


def _place(repository: Repository) -> dict[str, object]:
    return {"owner_id": repository.owner.id, "repository_id": repository.id, "private": repository.private}


def _in_it(row: Row) -> InRepository:
    return InRepository(account_of(row), _ROLES[row["rank"]])
