"""A run: the rows of one owner by number, as an index over both has them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from workhook.storage.metadata import big


def of_owner(
    dialect: str,
    owner: sa.ColumnElement[int],
    number: sa.ColumnElement[int],
    wanted: sa.ColumnElement[int],
    *,
    newest_first: bool,
    high: str = "high",
) -> sa.Select[Any]:
    """Numbers of the rows whose `owner` is the `wanted` one, in order: above the parameter `low` and below that named
    `high`, no more than `limit`.

    For PostgreSQL it is said so that no other index has the order. An owner with many rows may have none among the
    newest of all, where the planner would look for them by number and pass what the others have.
    """
    low, most = big("low"), big(high)
    if dialect == "postgresql":
        pair = sa.tuple_(owner, number)
        conditions = [pair > sa.tuple_(wanted, low), pair < sa.tuple_(wanted, most)]
        order = [owner, number]
    else:
        conditions, order = [owner == wanted, number > low, number < most], [number]
    falling = [each.desc() for each in order] if newest_first else order
    return sa.select(number).where(*conditions).order_by(*falling).limit(big("limit"))
