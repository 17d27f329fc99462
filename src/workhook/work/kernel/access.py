"""The rights of a caller in projects and accounts.

Most resources of the work API belong to a project, so a resource is read together with its project and the caller's
role in it. `with_access` adds the columns that `to_access` needs to a SELECT, which saves a query.

    _one = with_access(sa.select(tasks).where(tasks.c.id == sa.bindparam("id")), tasks.c.repository_id)
    row, access = await find_with_access(reader, _one, actor, id=task_id)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType
from sqlalchemy.sql.expression import Executable

from workhook.core.errors import Conflict, Forbidden, Invalid, NotFound, require_found, say
from workhook.http.calls import Call, Place, RemainingRights
from workhook.identity.authenticator import actor_of
from workhook.identity.queries import (
    account_columns,
    by_membership,
    find_organization,
    key_of,
    repositories,
    repository_columns,
    repository_of,
    role_columns,
)
from workhook.identity.schemas import Account, Actor, Repository, account_of, name_of_role
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import check_reach, covers, may_reach, not_accessible
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import hot
from workhook.work.kernel.tables import clients

RANKS = {"client": 1, "read": 2, "write": 3, "admin": 4, "owner": 5}
"""The rank of each role in a project; 0 means no role.

A role includes all rights of the lower ones, except that a client must never receive a response that was made for the
same person as a member. Members and apps of an account have `write`.
"""

_PREFIX = "project_"


class Access(msgspec.Struct, frozen=True):
    """The access of one caller to one project. `reads_only` marks collaborators with the role `read`."""

    actor: Actor
    repository: Repository
    role: Literal["owner", "member", "client"]
    reads_only: bool = False

    @property
    def user(self) -> Account:
        return self.actor.user

    @property
    def is_client(self) -> bool:
        return self.role == "client"

    @property
    def is_admin(self) -> bool:
        """Whether the caller administers the project, as its owners do."""
        return self.repository.role == "admin"

    @property
    def may_write(self) -> bool:
        """Whether `require_writable` would pass. Pages use this to decide what to offer; the actions enforce it."""
        return not self.reads_only and not self.repository.archive

    def may_change(self, user_id: int) -> bool:
        """Return whether the caller may change something that this user created.

        For clients, the rule is that of `require_own`.
        """
        return self.may_write and (not self.is_client or user_id == self.user.id)

    def require_writable(self) -> None:
        """Raise `Forbidden` unless the caller may write, or `Conflict` if the project is archived."""
        if self.reads_only:
            message = say("You need the {} role in the project {}.", name_of_role("write"), self.repository.full_name)
            raise Forbidden(message, code="missing_role")
        require_not_archived(self.repository)

    def require_not_client(self) -> None:
        """Raise `NotFound` for a client. Guards everything clients never see, such as timesheets and rates."""
        if self.is_client:
            repository = self.repository
            self.actor.request.set_subject(repository.owner.id, repository.id, hidden=True, names=repository.names)
            raise NotFound()

    def require_member(self, doing: str) -> None:
        """Raise `Forbidden` for a client. `doing` completes the sentence "Clients cannot …"."""
        if self.is_client:
            raise Forbidden(say("Clients cannot {}.", doing), code="missing_role")

    def require_owner(self, doing: str) -> None:
        """Raise `Forbidden` unless the caller is an owner. `doing` completes the sentence "Only an owner can …"."""
        if self.role != "owner":
            raise Forbidden(say("Only an owner of {} can {}.", self.repository.owner.login, doing), code="missing_role")

    def require_same_project(self, other: Access) -> None:
        """Raise `NotFound` if a path combines a project with a resource of another project."""
        if other.repository.id != self.repository.id:
            raise NotFound()

    def require_visible(self, private: bool) -> None:
        """Raise `NotFound` for a client if the resource is private."""
        if private:
            self.require_not_client()

    def require_own(self, user_id: int, doing: str) -> None:
        """Raise `Forbidden` for a client who did not create the resource."""
        if self.is_client and user_id != self.user.id:
            raise Forbidden(say("Clients can only {} what they created themselves.", doing), code="missing_role")


def require_not_archived(repository: Repository) -> None:
    """Raise `Conflict` if the project is archived."""
    if repository.archive:
        raise Conflict("The project is archived; unarchive it (archive: false) to change it.", code="archived")


_client = clients.alias("looking")  # an alias, because a statement may also select from `clients`
is_client = sa.exists().where(
    _client.c.repository_id == projects.c.repository_id, _client.c.user_id == bigint_param("user_id")
)
"""Condition: the user in the parameter `user_id` is a client of the project."""


def role_in(table: sa.Table, project: sa.FromClause, user_id: sa.ColumnElement[Any], column: str = "role") -> Any:
    """Select `column` of the user's row for the project, or null.

    `table` is `memberships`, `collaborators` or `clients`.
    """
    row = table.alias(f"held_{table.name}")
    if table is memberships:
        place = row.c.organization_id == project.c.account_id
    else:
        place = row.c.repository_id == project.c.repository_id
    return sa.select(row.c[column]).where(place, row.c.user_id == user_id).correlate_except(row).scalar_subquery()


def is_insider(user_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that the user has a role in the project, as in `identity.queries`. Clients have none."""
    return sa.or_(
        projects.c.account_id == user_id,
        sa.exists().where(
            memberships.c.organization_id == projects.c.account_id, memberships.c.user_id == user_id, by_membership
        ),
        sa.exists().where(
            collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == user_id
        ),
    )


def with_access(statement: sa.Select[Any], repository_id: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Join the project `repository_id` and add the role of the user in the parameter `user_id`.

    Rows of deleted projects are excluded. The names of the added columns start with `project_` or `owner_`, or are
    `member_role`, `collaborator_role` and `is_client`.
    """
    return (
        statement.join(projects, projects.c.repository_id == repository_id)
        .join(accounts, accounts.c.id == projects.c.account_id)
        .where(projects.c.deleted_at.is_(None))
        .add_columns(*_access_columns)
    )


_access_columns = (*repository_columns(_PREFIX), *role_columns, is_client.label("is_client"))
_project = hot(
    sa.select(*_access_columns)
    .join_from(projects, accounts, accounts.c.id == projects.c.account_id)
    .where(projects.c.id == sa.bindparam("project_id"), projects.c.deleted_at.is_(None))
)


def to_access(row: Row, actor: Actor) -> Access:
    """Build the caller's access from a row of a `with_access` statement.

    Raises `NotFound` if the caller has no role in the project or the project is outside the token's reach, and
    `Forbidden` if the token lacks a permission.
    """
    repository = repository_of(row, actor.user.id, _PREFIX)
    hidden = repository.role is None and not row["is_client"]
    actor.request.set_subject(repository.owner.id, repository.id, hidden=hidden, names=repository.names)
    if hidden:
        raise NotFound()
    check_reach(actor, repository.owner.id, repository.id)
    rank = rank_in(row, repository, actor.user.id)
    actor.request.require_right(repository.owner.id, repository.id, rank)
    if repository.role is None:
        return Access(actor, repository, "client")
    owns = rank == RANKS["owner"]
    if owns:
        actor.request.show_as_owner(repository.owner.id)
    return Access(actor, repository, "owner" if owns else "member", reads_only=repository.role == "read")


def rank_in(row: Row, repository: Repository, user_id: int) -> int:
    """Return the user's rank in the repository, or 0. The row needs `role_columns` and `is_client`."""
    if repository.owner.id == user_id or row["member_role"] == "owner":
        return RANKS["owner"]
    return RANKS[repository.role or "client"] if repository.role or row["is_client"] else 0


async def find_with_access(reader: Reader, statement: Executable, actor: Actor, **params: object) -> tuple[Row, Access]:
    """Run a `with_access` statement and return its row and the access.

    Raises `NotFound` if there is no row, and the same errors as `to_access`.
    """
    row = require_found(await reader.fetch_one(statement, {**params, "user_id": actor.user.id}))
    return row, to_access(row, actor)


async def find_access(reader: Reader, actor: Actor, project_id: str) -> Access:
    """Return the caller's access to the project in a path such as `/projects/{id}/columns`.

    Raises the same errors as `find_with_access`.
    """
    return (await find_with_access(reader, _project, actor, project_id=project_id))[1]


# --- accounts --------------------------------------------------------------------------------------------------------

_organizations = (
    sa.select(*account_columns(), memberships.c.role)
    .join_from(accounts, memberships, memberships.c.organization_id == accounts.c.id)
    .where(memberships.c.user_id == bigint_param("user_id"))
    .order_by(accounts.c.id)
)


class Owner(msgspec.Struct, frozen=True):
    """An account and the caller's role in it: owner, member or app."""

    account: Account
    role: str

    def require_owner(self, doing: str) -> None:
        """Raise `Forbidden` unless the caller is an owner. `doing` completes "Only an owner of … can …"."""
        if self.role != "owner":
            raise Forbidden(say("Only an owner of {} can {}.", self.account.login, doing), code="missing_role")


async def get_owned_account(reader: Reader, actor: Actor, login: str, doing: str) -> Account:
    """Return the organization with this login, or the caller's own account.

    `doing` completes the sentence "Only an owner of … can …". Raises `NotFound` if the caller is not in the
    organization, and `Forbidden` if the caller is not an owner.
    """
    if key_of(login) == key_of(actor.user.login):
        check_reach(actor, actor.user.id)
        actor.request.require_right(actor.user.id, None, RANKS["owner"])
        return actor.user
    found = require_found(await find_organization(reader, login, actor.user.id))
    actor.request.set_subject(found.account.id, hidden=found.role is None)
    if found.role is None:
        raise NotFound()
    check_reach(actor, found.account.id)
    Owner(found.account, found.role).require_owner(doing)
    actor.request.require_right(found.account.id, None, RANKS["owner"])
    return found.account


async def choose_owner(reader: Reader, actor: Actor, login: str | UnsetType) -> Owner:
    """Choose the account for a new resource.

    This is the named organization, or else the caller's only organization, or else the caller's own account. Accounts
    outside the token's reach are ignored. Raises `Invalid` if the choice is ambiguous or unknown, and `Forbidden` if no
    account remains.
    """
    rows = await reader.fetch_all(_organizations, {"user_id": actor.user.id})
    organizations = [Owner(account_of(row), row["role"]) for row in rows if covers(actor, row["id"])]
    own = [Owner(actor.user, "owner")] if covers(actor, actor.user.id) else []
    every = [*organizations, *own]
    if not every:
        raise not_accessible(actor)
    if isinstance(login, UnsetType):
        if len(organizations) > 1:
            logins = ", ".join(each.account.login for each in organizations)
            message = f"organization is required, since you are in several: {logins}"
            raise Invalid.at("organization", message, code="missing")
        owner: Owner | None = every[0]
    else:
        owner = next((each for each in every if key_of(each.account.login) == key_of(login)), None)
    if owner is None:
        raise Invalid.at("organization", f'You are not a member of the organization "{login}".')
    actor.request.require_right(owner.account.id, None, _rank_in_account(owner.role))
    return owner


def _rank_in_account(role: str) -> int:
    return RANKS["owner" if role == "owner" else "write"]


# --- the rights of an earlier request --------------------------------------------------------------------------------

_repositories = repositories.add_columns(is_client.label("is_client")).where(
    any_of(projects.c.repository_id, "repository_ids")
)
_memberships = sa.select(memberships.c.organization_id, memberships.c.role).where(
    memberships.c.user_id == bigint_param("user_id"), any_of(memberships.c.organization_id, "account_ids")
)


async def compare_rights(call: Call, rights: Mapping[Place, int]) -> RemainingRights:
    """Compare the caller's current rights with those that an earlier request relied on (`http.calls.RequestRecord`).

    Runs before a response stored under an `Idempotency-Key` is repeated. `rights` maps each place to the rank the
    caller had then.
    """
    actor = actor_of(call)
    found = await _ranks(call.database, actor, rights)
    now = {place: found.get(place, 0) if may_reach(actor, actor.need, *place) else 0 for place in rights}
    if all(now[place] >= max(rank, RANKS["client"]) for place, rank in rights.items()):
        return "whole"
    seen = all(now[place] >= min(rank, RANKS["read"]) for place, rank in rights.items())
    return "less" if seen else "gone"


async def _ranks(reader: Reader, actor: Actor, places: Mapping[Place, int]) -> dict[Place, int]:
    """Return the caller's rank in each place, omitting places without a role."""
    repository_ids = [repository_id for _, repository_id in places if repository_id is not None]
    account_ids = [account_id for account_id, repository_id in places if repository_id is None]
    user_id = actor.user.id
    found: dict[Place, int] = {(each, None): RANKS["owner"] for each in account_ids if each == user_id}
    if repository_ids:
        rows = await reader.fetch_all(_repositories, {"repository_ids": repository_ids, "user_id": user_id})
        for row in rows:
            repository = repository_of(row, user_id)
            found[repository.owner.id, repository.id] = rank_in(row, repository, user_id)
    if account_ids:
        rows = await reader.fetch_all(_memberships, {"account_ids": account_ids, "user_id": user_id})
        found |= {(row["organization_id"], None): _rank_in_account(row["role"]) for row in rows}
    return found
