"""Queries for accounts, roles and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog

from workhook.core import json
from workhook.core.clock import MINUTE_MS
from workhook.core.errors import Problem
from workhook.core.money import DEFAULT_CURRENCY
from workhook.identity.schemas import Account, Organization, Repository, account_of
from workhook.identity.tables import (
    accounts,
    app_secrets,
    collaborators,
    installation_repositories,
    installations,
    memberships,
    projects,
    tokens,
)
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.dialects import any_of, arrays, json_row, json_rows, required
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import selected
from workhook.storage.statements import PerDialect, hot

log = structlog.get_logger(__name__)


def account_columns(prefix: str = "") -> list[sa.Label[Any]]:
    return selected(Account, accounts, prefix)


_note_use = {
    table: sa.update(table).where(table.c.id == bigint_param("id")).values(last_used_at=bigint_param("now"))
    for table in (tokens, app_secrets)
}
_account = sa.select(*account_columns()).where(accounts.c.login_key == sa.bindparam("login_key"))
_account_by_id = sa.select(*account_columns()).where(accounts.c.id == bigint_param("id"))
_disabled = sa.select(accounts.c.disabled_at).where(accounts.c.id == bigint_param("id"))
_lock = sa.select(accounts.c.id).where(accounts.c.id == bigint_param("id")).with_for_update(key_share=True)
_member_role = sa.select(memberships.c.role).where(
    memberships.c.organization_id == bigint_param("organization_id"), memberships.c.user_id == bigint_param("user_id")
)


_role_in_organization = (
    sa.select(memberships.c.role)
    .where(memberships.c.organization_id == accounts.c.id, memberships.c.user_id == bigint_param("user_id"))
    .scalar_subquery()
)
_organizations = sa.select(*account_columns(), _role_in_organization.label("role")).where(
    accounts.c.kind == "organization"
)
_organization = hot(_organizations.where(accounts.c.login_key == sa.bindparam("login_key")))
_organization_by_id = hot(_organizations.where(accounts.c.id == bigint_param("id")))


def repository_columns(prefix: str = "") -> list[sa.Label[Any]]:
    """Return the columns that `repository_of` reads: those of the owner start with `owner_`, others with `prefix`."""
    names = ("repository_id", "id", "name", "title", "private", "archive", "created_at", "updated_at", "currency")
    return [*(projects.c[name].label(prefix + name) for name in names), *account_columns("owner_")]


def _roles_of(user_id: sa.ColumnElement[Any]) -> tuple[sa.Label[Any], sa.Label[Any]]:
    as_collaborator = sa.select(collaborators.c.role).where(
        collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == user_id
    )
    as_member = sa.select(memberships.c.role).where(
        memberships.c.organization_id == projects.c.account_id, memberships.c.user_id == user_id
    )
    return as_collaborator.label("collaborator_role"), as_member.label("member_role")


def by_membership_in(place: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that the joined membership grants a role in `place`, a project of its organization."""
    return sa.or_(memberships.c.role == "owner", memberships.c.role == "app", place.c.private.is_(sa.false()))


by_membership = by_membership_in(projects)
role_columns = _roles_of(bigint_param("user_id"))


def facts_of(user_id: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return everything that `repository_of` reads, encoded as a single text."""
    return json_row(*(each.element for each in (*repository_columns(), *_roles_of(user_id))))


repositories = (
    sa.select(*repository_columns(), *role_columns)
    .join_from(projects, accounts, accounts.c.id == projects.c.account_id)
    .where(projects.c.deleted_at.is_(None))
)
_named = (accounts.c.login_key == sa.bindparam("owner_key"), projects.c.name_key == sa.bindparam("name_key"))
_repository = hot(repositories.where(*_named))
_repository_by_id = hot(repositories.where(projects.c.repository_id == bigint_param("repository_id")))
_repository_and_facts = repositories.add_columns(facts_of(bigint_param("user_id")).label("facts")).where(*_named)
_repository_by_project = repositories.where(projects.c.id == sa.bindparam("project_id"))


chosen_ids = (
    sa.select(json_rows(installation_repositories.c.repository_id))
    .where(installation_repositories.c.installation_id == installations.c.id)
    .correlate(installations)
    .scalar_subquery()
)
"""The repositories of an installation, as JSON rows."""
_repositories_by_name_or_id = repositories.where(
    projects.c.account_id == bigint_param("account_id"),
    sa.or_(any_of(projects.c.name_key, "name_keys"), any_of(projects.c.repository_id, "repository_ids")),
).order_by(projects.c.repository_id)


def key_of(name: str) -> str:
    """Return the key for comparing logins and repository names, which are ASCII and ignore case."""
    return name.lower() if name.isascii() else name


async def find_account(reader: Reader, login: str) -> Account | None:
    row = await reader.fetch_one(_account, {"login_key": key_of(login)})
    return account_of(row) if row else None


async def find_account_by_id(reader: Reader, account_id: int) -> Account | None:
    row = await reader.fetch_one(_account_by_id, {"id": account_id})
    return account_of(row) if row else None


async def lock_account(tx: Transaction, account_id: int) -> None:
    await tx.fetch_one(_lock, {"id": account_id})


async def disabled_at(reader: Reader, user_id: int) -> int | None:
    """Return when the user was disabled, in milliseconds since the epoch."""
    row = await reader.fetch_one(_disabled, {"id": user_id})
    return row["disabled_at"] if row else None


async def find_organization(reader: Reader, named: str | int, user_id: int) -> Organization | None:
    """Return an organization by login or ID, with the user's role in it (None for non-members)."""
    if isinstance(named, int):
        row = await reader.fetch_one(_organization_by_id, {"id": named, "user_id": user_id})
    else:
        row = await reader.fetch_one(_organization, {"login_key": key_of(named), "user_id": user_id})
    return Organization(account_of(row), row["role"]) if row else None


async def find_member_role(reader: Reader, organization_id: int, user_id: int) -> str | None:
    row = await reader.fetch_one(_member_role, {"organization_id": organization_id, "user_id": user_id})
    return row["role"] if row else None


async def find_repository(reader: Reader, owner: str, name: str, user_id: int = 0) -> Repository | None:
    params = {"owner_key": key_of(owner), "name_key": key_of(name), "user_id": user_id}
    row = await reader.fetch_one(_repository, params)
    return repository_of(row, user_id) if row else None


class Premise(msgspec.Struct, frozen=True):
    """A repository and a user's role in it as they were read (`facts`). `premises_hold` fails if they have changed."""

    repository_id: int
    user_id: int
    facts: str


async def find_premise(reader: Reader, owner: str, name: str, user_id: int) -> tuple[Repository, Premise] | None:
    """Return the result of `find_repository` with the premise for statements that rely on it."""
    params = {"owner_key": key_of(owner), "name_key": key_of(name), "user_id": user_id}
    row = await reader.fetch_one(_repository_and_facts, params)
    if row is None:
        return None
    repository = repository_of(row, user_id)
    return repository, Premise(repository.id, user_id, row["facts"])


def premises_hold(dialect: str) -> sa.ColumnElement[bool]:
    """Return the condition that the premises still hold, for the parameters from `premise_params`.

    It is `required`: if it fails, the statement fails too, with `storage.database.ConditionFailed`.
    """
    if dialect == "sqlite":
        known = sa.func.json_each(sa.bindparam("premises", type_=sa.Text())).table_valued("value", name="known")
        of_each: list[sa.ColumnElement[Any]] = [sa.func.json_extract(known.c.value, f"$[{at}]") for at in range(3)]
    else:
        columns: Mapping[str, sa.types.TypeEngine[Any]] = {
            "repository_id": sa.BigInteger(), "user_id": sa.BigInteger(), "facts": sa.Text()
        }  # fmt: skip
        known = arrays("known", columns)
        of_each = [known.c[name] for name in columns]
    repository_id, user_id, facts = of_each
    same = sa.and_(projects.c.repository_id == repository_id, projects.c.deleted_at.is_(None))
    # Joined one after the other, because SQLite would materialize all projects for a nested join.
    joined = known.outerjoin(projects, same).outerjoin(accounts, accounts.c.id == projects.c.account_id)
    changed: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(joined)
    return required(~changed.where(facts_of(user_id).is_distinct_from(facts)).exists())


_check_premises = PerDialect.made_by(lambda dialect: sa.select(premises_hold(dialect)))


async def check_premise(tx: Transaction, premise: Premise) -> None:
    """Raise `ConditionFailed` unless the premise holds. If so, it holds until the next statement has read its data."""
    await tx.fetch_one(_check_premises, premise_params([premise]))


def premise_params(premises: Iterable[Premise]) -> dict[str, object]:
    rows = [(each.repository_id, each.user_id, each.facts) for each in dict.fromkeys(premises)]
    ids, users, facts = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    arrays = {"known_repository_id": ids, "known_user_id": users, "known_facts": facts}
    return {"premises": json.encode_text(rows), **arrays}


async def find_repository_by_id(reader: Reader, repository_id: int, user_id: int = 0) -> Repository | None:
    row = await reader.fetch_one(_repository_by_id, {"repository_id": repository_id, "user_id": user_id})
    return repository_of(row, user_id) if row else None


async def find_repositories(
    reader: Reader, account: Account, *, names: Iterable[str] = (), ids: Iterable[int] = (), user_id: int = 0
) -> list[Repository]:
    """Return the account's repositories with any of the names or IDs, oldest first, with the user's role in each."""
    params = {"account_id": account.id, "name_keys": list({key_of(name) for name in names}), "repository_ids": [*ids]}
    rows = await reader.fetch_all(_repositories_by_name_or_id, {**params, "user_id": user_id})
    return [repository_of(row, user_id) for row in rows]


async def find_project(reader: Reader, project_id: str, user_id: int) -> Repository | None:
    row = await reader.fetch_one(_repository_by_project, {"project_id": project_id, "user_id": user_id})
    return repository_of(row, user_id) if row else None


def repository_of(row: Row, user_id: int, prefix: str = "") -> Repository:
    """Read a row of `repository_columns(prefix)` and `role_columns`."""
    owner = account_of(row, "owner_")
    private = bool(row[prefix + "private"])
    return Repository(
        id=row[prefix + "repository_id"],
        project_id=row[prefix + "id"],
        owner=owner,
        name=row[prefix + "name"],
        title=row[prefix + "title"],
        private=private,
        archive=bool(row[prefix + "archive"]),
        created_at=row[prefix + "created_at"],
        updated_at=row[prefix + "updated_at"],
        currency=row[prefix + "currency"] or DEFAULT_CURRENCY,
        role=_effective_role(owner, private, user_id, row["member_role"], row["collaborator_role"]),
    )


def _effective_role(
    owner: Account, private: bool, user_id: int, member_role: str | None, collaborator_role: str | None
) -> str | None:
    """Return the strongest role by ownership, membership or collaboration. Members do not see private projects."""
    if owner.id == user_id or member_role == "owner":
        return "admin"
    # An installation's tokens reach only its repositories, including private ones (`tokens.lookup`).
    member = "write" if member_role == "app" or (member_role == "member" and not private) else None
    order = [None, "read", "write", "admin"]
    return max(member, collaborator_role, key=order.index)


USE_NOTED_MS = 10 * MINUTE_MS
"""The resolution of `last_used_at`. Writing it on every call would cost more than the call."""


async def record_use(database: Database, table: sa.Table, number: int, now: int) -> None:
    """Store when a token or client secret was last used, unless the database is unavailable."""
    try:
        await database.in_transaction(lambda tx: tx.execute(_note_use[table], {"id": number, "now": now}))
    except Problem as problem:
        log.warning("last_use_not_recorded", table=table.name, id=number, error=problem.message)
