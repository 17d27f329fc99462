"""Delete the data of a project or an organization in batches, each in its own transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.http.calls import Services
from workhook.storage import Transaction
from workhook.storage.metadata import bigint_param

BATCH = 1000  # rows of a table deleted per transaction

Admit = Callable[[Transaction], Awaitable[bool]]


async def delete_in_batches(
    services: Services,
    tables: Sequence[sa.Table],
    column: str,
    owner: int,
    *,
    admit: Admit,
    last: Callable[[Transaction], Awaitable[None]] | None = None,
) -> bool:
    """Delete the rows whose `column` is `owner`, table by table, and the stored content of files.

    `admit` runs first in each transaction and locks the owner; if it returns False, `delete_in_batches` stops and
    returns False. `last` runs in the transaction that finds no rows left.
    """
    done: bool | None = False
    while not done:
        blobs: list[str] = []

        async def some(tx: Transaction, blobs: list[str] = blobs) -> bool | None:
            blobs.clear()  # a previous attempt may have been rolled back
            if not await admit(tx):
                return None
            if not await _delete_some(tx, tables, column, owner, blobs):
                return False
            if last is not None:
                await last(tx)
            return True

        done = await services.database.in_transaction(some)
        # After the commit, so that if the process dies in between, the orphaned content is swept later.
        await services.blobs.delete(sorted(blobs))
        if done is None:
            return False
    return True


async def _delete_some(tx: Transaction, tables: Sequence[sa.Table], column: str, owner: int, blobs: list[str]) -> bool:
    """Delete up to a batch of rows, and return True if none are left. Add the deleted rows' blob names to `blobs`."""
    for table in tables:
        step, params = delete_batch(table, column), {"owner": owner}
        if "blob" in table.c:
            blobs.extend(found := [row["blob"] for row in await tx.fetch_all(step, params)])
            count = len(found)
        else:
            count = await tx.execute(step, params)
        if count >= BATCH:
            return False
    return True


@cache
def delete_batch(table: sa.Table, column: str) -> Any:
    """Return a statement that deletes a batch of an owner's rows and returns their blob names."""
    batch = table.alias("batch")  # not correlated with the enclosing statement
    some = sa.select(*(batch.c[each.name] for each in table.primary_key)).where(
        batch.c[column] == bigint_param("owner")
    )
    keys = [*table.primary_key]
    step = sa.delete(table).where((keys[0] if len(keys) == 1 else sa.tuple_(*keys)).in_(some.limit(BATCH)))
    return step.returning(table.c.blob) if "blob" in table.c else step
