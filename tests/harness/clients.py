"""Clients of projects, who have accepted an invitation."""

from __future__ import annotations

import uuid

import sqlalchemy as sa

from tests.harness.world import must
from workhook.core.ids import slug
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity.context import Write
from workhook.identity.queries import account_columns, find_repository_by_id
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, projects
from workhook.storage import Transaction
from workhook.work.kernel.tables import Client
from workhook.work.people.clients import add_client

_by_address = (
    sa.select(*account_columns())
    .where(sa.func.lower(accounts.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text)))
    .order_by(accounts.c.id)
)
_repository = sa.select(projects.c.repository_id).where(projects.c.id == sa.bindparam("project_id"))


async def become_client(services: Services, project_id: str, email: str) -> Client:
    """Make the person with this address a client of the project, as if they had accepted. Creates an account if
    necessary."""
    async with services.database.transaction() as tx:
        return await accept_as_client(tx, project_id, email, services.base)


async def accept_as_client(tx: Transaction, project_id: str, email: str, base: str) -> Client:
    row = must(await tx.fetch_one(_repository, {"project_id": project_id}))
    repository = must(await find_repository_by_id(tx, row["repository_id"]))
    user = await _account_with(tx, email)
    actor = Actor(user, 0, "classic", frozenset())
    return must(await add_client(Write(tx, actor, base), repository, user, email))


async def _account_with(tx: Transaction, email: str) -> Account:
    found = await tx.fetch_all(_by_address, {"email": email})
    if found:
        return account_of(found[0])
    login = f"{slug(email.partition('@')[0], 30, otherwise='client')}-{uuid.uuid4().hex[:6]}"
    return await actions.create_account(tx, "user", login, name=None, email=email)
