"""The SQL of members. Each query is confined to one project or one organization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.identity.invitations import shares_organization
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, Repository, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big
from workhook.work.access import access_of, with_access
from workhook.work.clients.tables import clients
from workhook.work.members.schemas import Candidate
from workhook.work.people import membership_of, person_columns

# --- a project -------------------------------------------------------------------------------------------------------

_in_organization = (
    sa.select(memberships.c.user_id)
    .join(projects, projects.c.account_id == memberships.c.organization_id)
    .where(
        projects.c.repository_id == big("repository_id"),
        sa.or_(memberships.c.role == "owner", projects.c.private.is_(sa.false())),
    )
)
_owning = sa.select(projects.c.account_id).where(projects.c.repository_id == big("repository_id"))
_added = sa.select(collaborators.c.user_id).where(collaborators.c.repository_id == big("repository_id"))


def _first_of(statement: sa.Select[Any], user_id: sa.ColumnElement[int]) -> sa.Select[Any]:
    """No more than a page of them can be on it: each part is read by its own index, in order."""
    some = statement.where(user_id > big("after")).order_by(user_id).limit(big("limit")).subquery()
    return sa.select(some.c[0].label("user_id"))


_candidates = sa.union(
    _first_of(_in_organization, memberships.c.user_id),
    _first_of(_owning, projects.c.account_id),
    _first_of(_added, collaborators.c.user_id),
).subquery("candidates")
_members = (
    sa.select(*person_columns(membership_of(big("repository_id"))))
    .join_from(_candidates, accounts, accounts.c.id == _candidates.c.user_id)
    .where(accounts.c.kind == "user")
    .order_by(accounts.c.id)
    .limit(big("limit"))
)

_place = projects.alias("place")
_person = accounts.alias("person")
_role = (
    sa.select(collaborators.c.role)
    .where(collaborators.c.repository_id == _place.c.repository_id, collaborators.c.user_id == _person.c.id)
    .scalar_subquery()
)
_organization_role = (
    sa.select(memberships.c.role)
    .where(memberships.c.organization_id == _place.c.account_id, memberships.c.user_id == _person.c.id)
    .scalar_subquery()
)
_looks = sa.exists().where(clients.c.repository_id == _place.c.repository_id, clients.c.user_id == _person.c.id)
_candidate = with_access(
    sa.select(
        *(_person.c[name].label(f"person_{name}") for name in Account.__struct_fields__),
        _role.label("person_role"),
        _organization_role.label("person_organization_role"),
        _looks.label("person_is_client"),
        shares_organization(_person.c.id).label("person_shares"),
    )
    .select_from(
        _place.outerjoin(_person, sa.and_(_person.c.login_key == sa.bindparam("login_key"), _person.c.kind == "user"))
    )
    .where(_place.c.id == sa.bindparam("project_id")),
    _place.c.repository_id,
)
_add = (
    upsert(collaborators)
    .values({name: sa.bindparam(name) for name in ("repository_id", "user_id", "role", "created_at")})
    .on_conflict_do_nothing()
)
_collaborator = sa.select(collaborators.c.role).where(
    collaborators.c.repository_id == big("repository_id"), collaborators.c.user_id == big("user_id")
)


async def is_collaborator(reader: Reader, repository: Repository, user: Account) -> bool:
    params = {"repository_id": repository.id, "user_id": user.id}
    return await reader.fetch_one(_collaborator, params) is not None


async def list_members(reader: Reader, repository_id: int, *, after: int, limit: int) -> Sequence[Row]:
    """Who is in a project, each once, by id: owners of its organization, members of it unless the project is private,
    and who was added. Rows of `people.person_columns`."""
    return await reader.fetch_all(_members, {"repository_id": repository_id, "after": after, "limit": limit})


async def find_candidate(reader: Reader, actor: Actor, project_id: str, username: str) -> Candidate:
    """`account` None: there is nobody of this name. Raises `NotFound` for the project."""
    params = {"project_id": project_id, "login_key": key_of(username), "user_id": actor.user.id}
    row = await reader.fetch_one(_candidate, params)
    access = access_of(row, actor)
    assert row is not None, "access_of raises for no row"
    account = account_of(row, "person_") if row["person_id"] is not None else None
    repository = access.repository
    in_organization = row["person_organization_role"]
    owns = account is not None and (account.id == repository.owner.id or in_organization == "owner")
    return Candidate(
        access=access,
        account=account,
        role=row["person_role"],
        owns=owns,
        has_place=owns or (in_organization is not None and not repository.private),
        is_client=bool(row["person_is_client"]),
        is_near=owns or in_organization is not None or bool(row["person_shares"]),
        organization_id=repository.owner.id if in_organization is not None else None,
    )


async def add_member(tx: Transaction, repository: Repository, user: Account) -> bool:
    """With the role write. Answers whether that changed anything."""
    params = {"repository_id": repository.id, "user_id": user.id, "role": "write", "created_at": now_ms()}
    return await tx.execute(_add, params) > 0


# --- an organization -------------------------------------------------------------------------------------------------

_organization = accounts.alias("organization")
_caller_in = memberships.alias("caller_in")
# The organization first, if the caller is in it: then its members come by their index, in order.
_place_id = (
    sa.select(_organization.c.id)
    .join_from(_organization, _caller_in, _caller_in.c.organization_id == _organization.c.id)
    .where(
        _organization.c.login_key == sa.bindparam("login_key"),
        _organization.c.kind == "organization",
        _caller_in.c.user_id == big("user_id"),
    )
    .scalar_subquery()
)
_people: sa.Select[Any] = (
    sa.select(*person_columns(memberships.c.organization_id))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .where(memberships.c.organization_id == _place_id, accounts.c.kind == "user")
)
_people_page = _people.where(memberships.c.user_id > big("after")).order_by(memberships.c.user_id).limit(big("limit"))
_is_in = (
    sa.select(_caller_in.c.organization_id, _caller_in.c.role)
    .join_from(
        _caller_in,
        _organization,
        sa.and_(
            _organization.c.id == _caller_in.c.organization_id, _organization.c.login_key == sa.bindparam("login_key")
        ),
    )
    .where(_caller_in.c.user_id == big("user_id"))
)


async def list_people(reader: Reader, login: str, user_id: int, *, after: int, limit: int) -> Sequence[Row]:
    """Who is in an organization, by id. None at all for somebody who is not, and for an organization that is not."""
    params = {"login_key": key_of(login), "user_id": user_id, "after": after, "limit": limit}
    return await reader.fetch_all(_people_page, params)


async def organization_of(reader: Reader, login: str, user_id: int) -> tuple[int, str] | None:
    """The id of the organization and the user's role there, if the user is in it."""
    row = await reader.fetch_one(_is_in, {"login_key": key_of(login), "user_id": user_id})
    return (row["organization_id"], row["role"]) if row else None
