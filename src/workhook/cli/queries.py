"""Queries for administrators. Unlike those of other areas, they span organizations."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.hooks.tables import deliveries, dispatches
from workhook.identity.policy import SCOPES
from workhook.identity.queries import account_columns
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, memberships, projects, tokens
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import bigint_param, key_check

_literal_one = sa.literal(1, sa.BigInteger)
_accounts = sa.select(*account_columns()).order_by(accounts.c.id)
_users = _accounts.add_columns(accounts.c.disabled_at).where(accounts.c.kind == "user")
_owning = _accounts.where(
    sa.or_(accounts.c.kind == "organization", accounts.c.id.in_(sa.select(projects.c.account_id)))
)
_organizations = _accounts.where(accounts.c.kind == "organization")
_any_account = sa.select(accounts.c.id).limit(_literal_one)
_lock_first_start = sa.select(key_check.c.id).with_for_update()  # a row that exists in every database
_owners = (
    _accounts.join_from(accounts, memberships, memberships.c.user_id == accounts.c.id)
    .where(
        memberships.c.organization_id == bigint_param("organization_id"),
        memberships.c.role == "owner",
        accounts.c.disabled_at.is_(None),
    )
    .limit(_literal_one)
)
_noted = (
    sa.select(tokens.c.id)
    .where(tokens.c.user_id == bigint_param("user_id"), tokens.c.note == sa.bindparam("note"))
    .limit(_literal_one)
)
_project_titled = (
    sa.select(projects.c.repository_id)
    .where(
        projects.c.account_id == bigint_param("account_id"),
        projects.c.deleted_at.is_(None),
        sa.or_(projects.c.title == sa.bindparam("title"), projects.c.name_key == sa.bindparam("name_key")),
    )
    .order_by(projects.c.repository_id)
    .limit(_literal_one)
)
_hook_of_delivery = sa.select(deliveries.c.hook_id).where(deliveries.c.id == bigint_param("delivery_id"))
_waiting = sa.select(sa.func.count().label("number"), sa.func.min(dispatches.c.next_attempt_at).label("oldest")).where(
    dispatches.c.next_attempt_at.is_not(None)
)


async def owning(reader: Reader) -> list[Account]:
    """List organizations and other accounts with projects, oldest first."""
    return [account_of(row) for row in await reader.fetch_all(_owning)]


async def organizations(reader: Reader) -> list[Account]:
    return [account_of(row) for row in await reader.fetch_all(_organizations)]


async def users(reader: Reader) -> list[tuple[Account, int | None]]:
    """List users, oldest first, with the time (ms) they were disabled."""
    return [(account_of(row), row["disabled_at"]) for row in await reader.fetch_all(_users)]


async def is_empty(reader: Reader) -> bool:
    return await reader.fetch_one(_any_account) is None


async def lock_first_start(tx: Transaction) -> None:
    """Wait for other processes creating the first accounts of this database. SQLite serializes transactions anyway."""
    await tx.fetch_all(_lock_first_start)


async def an_owner(reader: Reader, account: Account) -> Account | None:
    """Return the user, or the first owner of the organization who is not disabled."""
    if account.kind == "user":
        return account
    row = await reader.fetch_one(_owners, {"organization_id": account.id})
    return account_of(row) if row else None


async def has_token_noted(reader: Reader, user: Account, note: str) -> bool:
    """Return whether the user ever had a token with this note, even if revoked."""
    return await reader.fetch_one(_noted, {"user_id": user.id, "note": note}) is not None


async def project_titled(reader: Reader, account: Account, title: str, name: str) -> int | None:
    """Return the repository ID of the oldest project with this title or name."""
    params = {"account_id": account.id, "title": title, "name_key": name}
    row = await reader.fetch_one(_project_titled, params)
    return row["repository_id"] if row else None


async def hook_of_delivery(reader: Reader, delivery_id: int) -> int | None:
    row = await reader.fetch_one(_hook_of_delivery, {"delivery_id": delivery_id})
    return row["hook_id"] if row else None


async def waiting(reader: Reader) -> tuple[int, int | None]:
    """Return the number of dispatches waiting for an attempt, and the earliest due time (ms)."""
    row = await reader.fetch_one(_waiting)
    return (row["number"], row["oldest"]) if row else (0, None)


def acting(user: Account) -> Actor:
    """Return the user as the actor of a command, without a token and with every scope."""
    return Actor(user, token_id=0, token_kind="command", scopes=frozenset(SCOPES))  # noqa: S106  # not a secret
