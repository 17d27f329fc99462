"""Two projects that invite the same new address at the same moment: one account has it, or nobody could sign in with
it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.harness.beside import Beside
from tests.harness.world import World, make_world
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts
from workhook.storage import Transaction
from workhook.work.clients import api as clients
from workhook.work.clients.api import ClientCreate
from workhook.work.clients.schemas import Client

BASE = "http://work.example.com"


async def _owner(services: Services, world: World) -> Actor:
    user = await find_account(services.database, world.owner)
    assert user is not None
    return Actor(user, token_id=0, token_kind="classic", scopes=frozenset())


@pytest.mark.parametrize(
    ("first", "second"),
    [("jo@customer.example", "jo@customer.example"), ("Jo@Customer.example", "jO@customer.Example")],
)
async def test_one_address_becomes_one_account(services: Services, beside: Beside, first: str, second: str) -> None:
    """Also if both wish for another name, and write the address in another case."""
    here, there = await make_world(services), await make_world(services)
    by_here, by_there = await _owner(services, here), await _owner(services, there)

    async def invite(tx: Transaction) -> Client:
        create = ClientCreate(email=second, username=f"second-{by_there.user.id}")
        return await clients.invite_client(Write(tx, by_there, BASE), there.project_id, create)

    async with services.database.transaction() as tx:
        create = ClientCreate(email=first, username=f"first-{by_here.user.id}")
        made = await clients.invite_client(Write(tx, by_here, BASE), here.project_id, create)
        inviting = await beside.begin(invite)
    linked = await inviting
    assert isinstance(linked, Client)
    found = sa.select(accounts.c.login).where(sa.func.lower(accounts.c.email) == sa.func.lower(sa.literal(first)))
    assert [row["login"] for row in await services.database.fetch_all(found)] == [made.username]
    assert linked.username == made.username


async def test_another_address_does_not_wait(services: Services, beside: Beside) -> None:
    here, there = await make_world(services), await make_world(services)
    by_here, by_there = await _owner(services, here), await _owner(services, there)

    async def invite(tx: Transaction, email: str, by: Actor, world: World) -> Client:
        return await clients.invite_client(Write(tx, by, BASE), world.project_id, ClientCreate(email=email))

    async with services.database.transaction() as tx:
        await invite(tx, "ed@customer.example", by_here, here)
        inviting = await beside.begin(lambda other: invite(other, "al@customer.example", by_there, there))
        at_once = inviting.done()
    await inviting
    assert at_once or beside.watcher is None, "SQLite has one writer"
