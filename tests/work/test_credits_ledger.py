"""The ledger from inside: what the scheduler grants, and what expires."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.world import World, make_world
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events.tables import events
from workhook.http.calls import Services
from workhook.identity import queries as identity
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.identity.tables import projects
from workhook.storage import Transaction
from workhook.storage.dialects import SQLITE
from workhook.storage.metadata import metadata
from workhook.work.money.credits import ledger
from workhook.work.money.credits.ledger import EntryDetails, lock_ledger
from workhook.work.money.credits.schemas import task_credits

BASE = "http://127.0.0.1:8080"


async def place(services: Services, world: World) -> Repository:
    found = await identity.find_repository(services.database, world.organization, world.repository)
    assert found is not None
    return found


async def give(tx: Transaction, repository: Repository, amount: int, expires_at: int | None = None) -> str:
    writer = await lock_ledger(Write(tx, None, BASE, moment=now_ms()), repository)
    if expires_at is None:
        return await writer.grant(amount, "Plan")
    position, _ = await writer.expire_due()
    return (await writer.append_grant(position, EntryDetails(), amount, expires_at)).id


async def entries(services: Services, repository: Repository) -> list[tuple[str, int, int]]:
    query = sa.select(task_credits).where(task_credits.c.repository_id == repository.id).order_by(task_credits.c.id)
    rows = await services.database.fetch_all(query)
    return [(row["kind"], row["amount_minor"], row["balance_after_minor"]) for row in rows]


async def announced(services: Services) -> list[tuple[str, Any]]:
    rows = await services.database.fetch_all(sa.select(events.c.action, events.c.payload).order_by(events.c.id))
    return [(row["action"], json.decode(row["payload"])) for row in rows]


async def test_a_grant_has_one_event(services: Services) -> None:
    repository = await place(services, await make_world(services))
    async with services.database.transaction() as tx:
        credit_id = await give(tx, repository, 1250)
    [(action, payload)] = await announced(services)
    record = payload["task_credit"]
    assert (action, payload["sender"], record["id"]) == ("granted", None, credit_id)
    assert (record["kind"], record["amount"], record["balance_after"]) == ("grant", 12.5, 12.5)
    assert (record["user"], record["notes"], record["reversed"]) == (None, "Plan", False)


async def test_grants_at_once_add_up(services: Services) -> None:
    repository = await place(services, await make_world(services))

    async def one() -> None:
        async with services.database.transaction() as tx:
            await give(tx, repository, 100)

    await asyncio.gather(*(one() for _ in range(20)))
    assert await entries(services, repository) == [("grant", 100, 100 * number) for number in range(1, 21)]


async def test_what_expired_goes_before_the_next_grant(services: Services) -> None:
    repository = await place(services, await make_world(services))
    async with services.database.transaction() as tx:
        await give(tx, repository, 500, expires_at=now_ms() - 1)
        await give(tx, repository, 300)
    assert await entries(services, repository) == [("grant", 500, 500), ("expire", -500, 0), ("grant", 300, 300)]
    assert [action for action, _ in await announced(services)] == ["granted", "expired", "granted"]


@pytest.mark.parametrize("statement", [ledger._next, ledger._overdue_ledgers])
def test_a_long_ledger_is_not_read(statement: sa.Select[Any]) -> None:
    """What is left is found through an index that holds only the grants of which something is left."""
    sql = str(statement.compile(dialect=SQLITE))
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection, tables=[task_credits, projects])
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?"))
        plan = [row[3] for row in rows]
    engine.dispose()
    looks = [each for each in plan if each.startswith(("SEARCH task_credits", "SCAN task_credits"))]
    whole = [each for each in looks if "ix_task_credits_open" not in each and "ix_task_credits_expiring" not in each]
    assert len(looks) > len(whole) <= 1  # the last entry alone comes from the index of all


async def test_a_position_is_the_end_of_the_ledger_and_what_is_left(services: Services) -> None:
    repository = await place(services, await make_world(services))
    async with services.database.transaction() as tx:
        await give(tx, repository, 500)
        await give(tx, repository, 300)
        found = await ledger.find_position(tx, repository.id, now_ms(), enough_minor=800)
    assert [each.remaining_minor for each in found.lots] == [500, 300]
    assert (found.balance_minor, found.last_id) == (800, found.lots[-1].id)
