"""Bulk inserts for the tests of delivery."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from workhook.hooks.tables import lanes
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into

PLAIN_HOOK = dict.fromkeys(
    ("secret", "previous_secret", "previous_secret_until", "password", "app_id", "installation_id")
)
"""The columns that are NULL for a webhook which a user created without secrets."""


def columns(table: sa.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


async def fill_lanes(tx: Transaction, hook_ids: Iterable[int]) -> None:
    """Insert idle, unowned lanes."""
    nothing = {"failing_since": None, "manual_minute": 0, "manual_count": 0}
    await tx.execute_many(insert_into(lanes, *columns(lanes)), [{"hook_id": each, **nothing} for each in hook_ids])
