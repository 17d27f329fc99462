"""Many events in one transaction: equivalent to appending them one by one, but with few statements."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tests.harness.world import make_world
from workhook.core import json
from workhook.events import order, outbox
from workhook.events.outbox import Draft
from workhook.events.tables import events
from workhook.hooks.fan_out import send_now
from workhook.http.calls import Services
from workhook.identity.queries import find_project
from workhook.storage import Transaction

_stored = sa.select(events.c.id, events.c.repository_id, events.c.payload, events.c.size).order_by(events.c.id)


def _drafts(places: Sequence[int | None], first: int = 0) -> list[Draft]:
    return [Draft(1, place, "task", "created", {"number": number}) for number, place in enumerate(places, first)]


async def _one(tx: Transaction, number: int) -> int:
    return await outbox.append(tx, outbox.Draft(1, 1, "task", "created", {"number": number}))


async def _sent(tx: Transaction) -> list[int]:
    """Return the IDs of the events fanned out in this transaction."""
    return [row["event_id"] for row in await send_now(tx)]


async def test_added_events_are_numbered_in_order_among_others(services: Services) -> None:
    places = [None if number % 3 == 2 else number % 3 + 1 for number in range(1203)]
    async with services.database.transaction() as tx:
        before = await _one(tx, 0)
        outbox.add(tx, _drafts(places, 1))
        after = await _one(tx, len(places) + 1)
        outbox.add(tx, [])
        sent = await _sent(tx)
    async with services.database.transaction() as tx:
        outbox.add(tx, _drafts([1, 2], len(places) + 2))
        last = await _sent(tx)
    rows = await services.database.fetch_all(_stored)
    assert [row["id"] for row in rows] == [before, *sent, after, *last], "in their order"
    assert [json.decode(row["payload"])["number"] for row in rows] == list(range(len(places) + 4))
    assert [row["repository_id"] for row in rows] == [1, *places, 1, 1, 2]
    assert all(row["size"] == len(row["payload"]) for row in rows)


async def test_added_events_are_numbered_at_the_point_of_addition(services: Services) -> None:
    async with services.database.transaction() as tx:
        outbox.add(tx, _drafts([1], 0))
        await _one(tx, 1)
        outbox.add(tx, _drafts([1, None], 2))
        outbox.add(tx, _drafts([2], 4))
        await _one(tx, 5)
        outbox.add(tx, _drafts([1], 6))
        sent = await _sent(tx)
        outbox.add(tx, _drafts([1], 7))
    async with services.database.transaction() as tx:
        outbox.add(tx, _drafts([1], 8))
    rows = await services.database.fetch_all(_stored)
    assert [json.decode(row["payload"])["number"] for row in rows] == list(range(9))
    assert sent[:5] == [rows[number]["id"] for number in (0, 2, 3, 4, 6)], "each was fanned out, with its number"


async def test_a_rollback_does_not_affect_later_numbers(services: Services) -> None:
    try:
        async with services.database.transaction() as tx:
            outbox.add(tx, _drafts([1, 1, 1]))
            await _sent(tx)
            raise LookupError
    except LookupError:
        pass
    async with services.database.transaction() as tx:
        outbox.add(tx, _drafts([1, 1]))
        kept = await _sent(tx)
    rows = await services.database.fetch_all(_stored)
    assert [row["id"] for row in rows] == kept


async def test_a_reader_knows_the_pending_writers_of_every_repository(services: Services) -> None:
    worlds = [await make_world(services) for _ in range(3)]
    found = [await find_project(services.database, each.project_id, 0) for each in worlds]
    first, second, other = [each.id for each in found if each is not None]
    async with services.database.transaction() as tx:
        outbox.add(tx, _drafts([first, None, second, first]))
        await _sent(tx)
        seen = await order.commit_snapshot(services.database)
    holders = [seen.appending_to(each) for each in (first, second, other)]
    if services.database.name == "postgresql":
        assert len(holders[0]) == 1
        assert holders == [holders[0], holders[0], frozenset()]
    else:
        assert holders == [frozenset()] * 3
    assert (await order.commit_snapshot(services.database)).appending == {}
