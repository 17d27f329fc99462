"""A run: rows that are alike in what an index begins with, by number, as that index has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.storage.metadata import big

Alike = tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]]
"""A column, and the value that it has in the whole run."""


def run(
    dialect: str, alike: Sequence[Alike], number: sa.ColumnElement[int], *, newest_first: bool, high: str = "high"
) -> sa.Select[Any]:
    """Numbers of a run, in order: above the parameter `low`, below that named `high`, and no more than `limit`.
    `alike` are the columns that an index begins with, which has the number next.

    For PostgreSQL it is said so that no other index has the order. What is much of a table may have none of its newest
    rows, where the planner would look for them by number and pass what others have.
    """
    columns, values = [each for each, _ in alike], [each for _, each in alike]
    low, most = big("low"), big(high)
    if dialect == "postgresql":
        key = sa.tuple_(*columns, number)
        conditions = [key > sa.tuple_(*values, low), key < sa.tuple_(*values, most)]
        order = [*columns, number]
    else:
        same = [column == value for column, value in alike]
        conditions, order = [*same, number > low, number < most], [number]
    falling = [each.desc() for each in order] if newest_first else order
    return sa.select(number).where(*conditions).order_by(*falling).limit(big("limit"))
