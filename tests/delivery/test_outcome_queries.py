"""What is recorded of an attempt whose process has lost its lease, or that another has recorded as well."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.delivery import membership
from workhook.delivery.queries import DELIVERY_COLUMNS, DeliveryRow, attempts_of, record
from workhook.hooks.tables import deliveries, dispatches
from workhook.http.calls import Services
from workhook.storage.metadata import insert_into

_insert = insert_into(
    dispatches, "id", "event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at"
)


def outcome(dispatch_id: int, *, redelivery: bool = False) -> DeliveryRow:
    row = dict.fromkeys(DELIVERY_COLUMNS, 1) | {
        "dispatch_id": dispatch_id, "guid": f"g{dispatch_id}", "event": "push", "action": None, "throttled_at": None,
        "redelivery": redelivery, "status": "OK", "url": "http://x/", "request_headers": b"{}",
        "response_headers": b"{}", "response_body": b"",
    }  # fmt: skip
    return tuple(row.values())


@pytest.fixture
async def epoch(services: Services) -> int:
    """The lease of a process; dispatches 1 to 3 are due."""
    now = now_ms()
    common = {"hook_id": 1, "attempts": 0, "retries": 0, "wanted": 0, "next_attempt_at": now, "created_at": now}
    async with services.database.transaction() as tx:
        await tx.execute_many(_insert, [{**common, "id": n, "event_id": n, "guid": new_guid()} for n in (1, 2, 3)])
        return await membership.join(tx, "me", 60_000)


async def recorded(services: Services) -> list[tuple[int, bool]]:
    """Dispatches and whether each attempt at them was a repeat, in the order of their records."""
    rows = await services.database.fetch_all(
        sa.select(deliveries.c.dispatch_id, deliveries.c.redelivery).order_by(deliveries.c.id)
    )
    return [(row["dispatch_id"], bool(row["redelivery"])) for row in rows]


async def test_a_first_attempt(services: Services, epoch: int) -> None:
    late = await record(
        services.database, [outcome(3), outcome(1)], [(n, 0, 0, 1, None, epoch) for n in (3, 1)], {}, now_ms()
    )
    assert late == set()
    assert await recorded(services) == [(3, False), (1, False)]
    assert await attempts_of(services.database, [1, 2, 3]) == {1: 1, 2: 0, 3: 1}


async def test_of_a_lease_that_is_lost(services: Services, epoch: int) -> None:
    """Another has it in flight: that one's is the first, whichever is recorded first."""
    async with services.database.transaction() as tx:
        await membership.remove(tx, ["me"])
        other = await membership.join(tx, "other", 60_000)
    retry_at = now_ms() + 1000
    assert await record(services.database, [outcome(1)], [(1, 0, 0, 1, retry_at, epoch)], {}, now_ms()) == {1}
    assert await attempts_of(services.database, [1]) == {1: 0}
    assert await record(services.database, [outcome(1)], [(1, 0, 0, 1, None, other)], {}, now_ms()) == set()
    assert await recorded(services) == [(1, True), (1, False)]
    row = await services.database.fetch_one(sa.select(dispatches.c.next_attempt_at).where(dispatches.c.id == 1))
    assert row is not None
    assert row["next_attempt_at"] is None  # by the one that has the lane


async def test_what_another_has_recorded(services: Services, epoch: int) -> None:
    """In one batch with what nobody else has."""
    await record(services.database, [outcome(2)], [(2, 0, 0, 1, None, epoch)], {}, now_ms())
    batch = [outcome(1), outcome(2), outcome(3)]
    late = await record(services.database, batch, [(n, 0, 0, 1, None, epoch) for n in (1, 2, 3)], {}, now_ms())
    assert late == {2}
    assert await recorded(services) == [(2, False), (1, False), (2, True), (3, False)]
    assert await attempts_of(services.database, [1, 2, 3]) == {1: 1, 2: 1, 3: 1}
