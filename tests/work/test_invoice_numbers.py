"""Numbers of invoices that Workhook issues automatically."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import sqlalchemy as sa

from tests.harness.world import make_world, must
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.identity import queries as identity
from workhook.identity.context import Write
from workhook.work.money.invoices.actions import issue
from workhook.work.money.invoices.rules import Item
from workhook.work.money.invoices.schemas import invoices


async def test_concurrent_invoices_and_rollbacks_leave_no_gap_in_the_numbers(services: Services) -> None:
    """A rollback releases its number (decision 32)."""
    world = await make_world(services)
    repository = must(await identity.find_repository(services.database, world.organization, world.repository))

    async def draw_up(index: int) -> None:
        async with services.database.transaction() as tx:
            write = Write(tx, None, "http://127.0.0.1:8080", moment=now_ms())
            items = [Item("Design", Decimal("1.5"), 10000)]
            await issue(write, repository, service_checkout_id=f"sco_{index:026}", items=items, currency="EUR")
            if index % 3 == 0:
                raise ArithmeticError

    outcomes = await asyncio.gather(*(draw_up(index) for index in range(20)), return_exceptions=True)
    assert sum(isinstance(each, ArithmeticError) for each in outcomes) == 7
    rows = await services.database.fetch_all(sa.select(invoices.c.invoice_number).order_by(invoices.c.invoice_number))
    assert [row["invoice_number"] for row in rows] == [f"INV-{number:05d}" for number in range(1, 14)]
