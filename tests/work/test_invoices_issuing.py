"""Invoices that Workhook draws up by itself: one event, and numbers without a gap."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
import sqlalchemy as sa

from tests.harness.world import World, make_world
from tests.work.paper import as_shown
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events.tables import events
from workhook.http.calls import Services
from workhook.identity import queries as identity
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Transaction
from workhook.work.money.invoices.actions import issue
from workhook.work.money.invoices.rules import Item
from workhook.work.money.invoices.schemas import invoices

BASE = "http://127.0.0.1:8080"
ITEMS = [Item("Design", Decimal("1.5"), 10000), Item("Hosting", Decimal(1), 999)]
CHECKOUT = "sco_00000000000000000000000000"


async def place(services: Services, world: World) -> Repository:
    found = await identity.find_repository(services.database, world.organization, world.repository)
    assert found is not None
    return found


async def bill(tx: Transaction, repository: Repository) -> str:
    return await issue(
        Write(tx, None, BASE, moment=now_ms()), repository, service_checkout_id=CHECKOUT, items=ITEMS, currency="EUR"
    )


async def numbers(services: Services, repository: Repository) -> list[str]:
    query = sa.select(invoices.c.invoice_number).where(invoices.c.account_id == repository.owner.id)
    rows = await services.database.fetch_all(query.order_by(invoices.c.invoice_number))
    return [row["invoice_number"] for row in rows]


async def test_a_sent_invoice_with_one_event(services: Services) -> None:
    repository = await place(services, await make_world(services))
    async with services.database.transaction() as tx:
        invoice_id = await bill(tx, repository)
    [row] = await services.database.fetch_all(sa.select(events.c.name, events.c.action, events.c.payload))
    assert (row["name"], row["action"]) == ("invoice", "created")
    payload = json.decode(row["payload"])
    record = payload["invoice"]
    assert payload["sender"] is None
    assert record["id"] == invoice_id
    assert (record["invoice_number"], record["name"]) == ("INV-00001", "Invoice INV-00001")
    assert (record["status"], record["user"], record["invoice_items"]) == ("sent", None, [])
    lines = [
        {"description": "Design", "qty": 1.5, "unit_price": 100},
        {"description": "Hosting", "qty": 1, "unit_price": 9.99},
    ]
    assert record["recurring_invoice_items"] == as_shown(lines, kind="service")
    assert (record["amount"], record["tax"], record["total"], record["currency"]) == (159.99, None, 159.99, "EUR")
    assert record["issued"] == record["created_at"]


async def test_numbers_have_no_gap_when_many_come_at_once_and_some_are_rolled_back(services: Services) -> None:
    repository = await place(services, await make_world(services))

    async def one(index: int) -> None:
        async with services.database.transaction() as tx:
            await bill(tx, repository)
            if index % 3 == 0:
                raise ArithmeticError

    outcomes = await asyncio.gather(*(one(index) for index in range(20)), return_exceptions=True)
    assert sum(isinstance(each, ArithmeticError) for each in outcomes) == 7
    assert await numbers(services, repository) == [f"INV-{number:05d}" for number in range(1, 14)]


async def test_each_account_has_a_sequence_of_its_own(services: Services) -> None:
    first = await place(services, await make_world(services))
    second = await place(services, await make_world(services))
    async with services.database.transaction() as tx:
        await bill(tx, first)
        await bill(tx, second)
    assert await numbers(services, first) == await numbers(services, second) == ["INV-00001"]


@pytest.mark.parametrize("count", [3])
async def test_a_number_that_a_caller_chose_is_skipped(services: Services, count: int) -> None:
    repository = await place(services, await make_world(services))
    async with services.database.transaction() as tx:
        first = await bill(tx, repository)
        await tx.execute(sa.update(invoices).where(invoices.c.id == first).values(invoice_number="INV-00002"))
        for _ in range(count):
            await bill(tx, repository)
    assert await numbers(services, repository) == ["INV-00002", "INV-00003", "INV-00004", "INV-00005"]
