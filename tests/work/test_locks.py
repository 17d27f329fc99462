"""Who waits for whom: changes that meet are done one after the other, and none is told that the database is in trouble.

`docs/decisions/0013-the-order-of-locks.md` is the order. SQLite has one writer, so there these only have to end well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from tests.harness.world import World, make_world
from workhook.core.clock import now_ms
from workhook.core.errors import NotFound
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.identity.schemas import Actor
from workhook.storage import Transaction
from workhook.work.checkouts import actions as checkouts
from workhook.work.checkouts.schemas import Checkout, ServiceCheckoutCreate
from workhook.work.projects import actions as projects
from workhook.work.projects.schemas import ProjectEdit
from workhook.work.services import actions as offers
from workhook.work.services.schemas import ServiceCreate, ServicePriceParameters

BASE = "http://work.example.com"
Work = Callable[[Transaction], Awaitable[object]]


@pytest.fixture
async def world(services: Services) -> World:
    return await make_world(services)


@pytest.fixture
async def actor(services: Services, world: World) -> Actor:
    user = await find_account(services.database, world.owner)
    assert user is not None
    return Actor(user, token_id=0, token_kind="classic", scopes=frozenset())


async def do(services: Services, work: Work) -> object:
    async with services.database.transaction() as tx:
        return await work(tx)


class Beside:
    """Begins `work` in a transaction of its own while another is open."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.watcher: asyncpg.Connection | None = None

    async def begin(self, work: Work) -> asyncio.Task[object]:
        """Under way until it is over or, on PostgreSQL, waits for a lock."""
        task = asyncio.create_task(do(self._services, work))
        async with asyncio.timeout(20):
            while self.watcher is not None and not task.done() and not await self._somebody_waits():
                await asyncio.wait({task}, timeout=0.01)
        return task

    async def _somebody_waits(self) -> bool:
        assert self.watcher is not None
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return bool(await self.watcher.fetchval(waits))


@pytest.fixture
async def beside(services: Services) -> AsyncIterator[Beside]:
    found = Beside(services)
    if services.settings.database_url is not None:
        found.watcher = await asyncpg.connect(services.settings.database_url)
    yield found
    if found.watcher is not None:
        await found.watcher.close()


async def _choose(services: Services, world: World, actor: Actor) -> Checkout:
    """A checkout that waits to be completed, with an invoice and credits."""
    price = ServicePriceParameters(amount=120000, currency="EUR", interval="month", credits=1000)
    offer = ServiceCreate(title="Design retainer", service_prices=[price])
    now = now_ms()
    async with services.database.transaction() as tx:
        service = await offers.create_service(tx, actor, offer, now=now, base=BASE)
        create = ServiceCheckoutCreate(service_id=service.id)
        return await checkouts.create_checkout(tx, actor, world.project_id, create, now=now, base=BASE)


@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "renamed"])
async def test_a_period_begins_while_its_project_is(
    services: Services, world: World, actor: Actor, beside: Beside, deletes: bool
) -> None:
    chosen = await _choose(services, world, actor)

    async def complete(tx: Transaction) -> object:
        taken = await checkouts.take_checkout(tx, actor, chosen.id)
        return await checkouts.complete(tx, actor, taken, now=now_ms(), base=BASE)

    async with services.database.transaction() as tx:
        project = await projects.take_project(tx, actor, world.project_id)
        completing = await beside.begin(complete)
        if deletes:
            await projects.delete_project(tx, actor, project, base=BASE)
        else:
            await projects.edit_project(tx, actor, project, ProjectEdit(name="another"), base=BASE)
    if deletes:
        with pytest.raises(NotFound):
            await completing
    else:
        await completing
