"""The numbers of tasks in their projects: dense, from 1, and never given twice.

A project has a counter. Whoever makes tasks holds it until the transaction ends. What is rolled back gives its numbers
back, so that numbers have no gap; what is deleted does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect, hot
from workhook.work.access import Access, access_of
from workhook.work.columns.schemas import columns
from workhook.work.tasks import queries
from workhook.work.tasks.schemas import task_numbers, tasks

NUMBER_DIGITS = 9
"""No project has so many tasks that their numbers have more digits."""

_count = upsert(task_numbers).values(repository_id=big("repository_id"), last=big("step"))
_count = _count.on_conflict_do_update(
    index_elements=[task_numbers.c.repository_id], set_={"last": task_numbers.c.last + big("step")}
)
_take = hot(_count.returning(task_numbers.c.last))


def _to_numbered_column(dialect: str) -> sa.Select[tuple[object, ...]]:
    """`queries.to_column`, with the next number of the project. PostgreSQL counts on as soon as it has the column's
    lock. SQLite, which has one writer, only reads the counter."""
    if dialect == "sqlite":
        last = sa.select(task_numbers.c.last).where(task_numbers.c.repository_id == columns.c.repository_id)
        return queries.to_column.add_columns((sa.func.coalesce(last.scalar_subquery(), 0) + 1).label("number"))
    held = queries.to_column.cte("held")
    one = sa.select(held.c.project_repository_id, sa.cast(sa.literal_column("1"), sa.BigInteger))
    counted = upsert(task_numbers).from_select(["repository_id", "last"], one)
    counted = counted.on_conflict_do_update(
        index_elements=[task_numbers.c.repository_id], set_={"last": task_numbers.c.last + 1}
    )
    taken = counted.returning(task_numbers.c.last).cte("taken")
    return sa.select(held, sa.select(taken.c.last).scalar_subquery().label("number"))


_to_numbered = hot(PerDialect.made_by(_to_numbered_column))
# As the index `uq_tasks_number` has it.
_numbered = (
    sa.select(tasks.c.number, tasks.c.id)
    .where(tasks.c.repository_id == big("repository_id"), tasks.c.number > sa.literal_column("0"))
    .where(any_of(tasks.c.number, "numbers"), tasks.c.deleted_at.is_(None))
)


async def take_numbers(tx: Transaction, repository_id: int, count: int = 1) -> int:
    """The first of so many numbers that follow each other.

    Call it with the locks of columns and tasks in hand, and for several projects in the order of their ids.
    """
    row = await tx.fetch_one(_take, {"repository_id": repository_id, "step": count})
    assert row is not None, "the statement inserts or updates"
    return int(row["last"]) - count + 1


async def lock_numbered_column(
    tx: Transaction, actor: Actor, column_id: str
) -> tuple[Access, queries.LockedColumn, int]:
    """`queries.lock_column` and `take_numbers` in one round trip, for a task that is related to no other.

    To make room in a full column locks tasks with the number in hand. Whoever has one of these and waits for a number
    is then in a deadlock; the database ends it, and one of both begins again. Raises `NotFound`.
    """
    params = {"column_id": column_id, "user_id": actor.user.id}
    row = await tx.fetch_one(_to_numbered, params)
    number = 0 if row is None else int(row["number"])
    if row is not None and not row["fresh"]:
        row = await tx.fetch_one(queries.to_column, params)  # the same lock, which is held now
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    if tx.dialect == "sqlite":
        tx.defer(_count, [{"repository_id": access.repository.id, "step": 1}])
    return access, queries.locked_column(row), number


async def find_numbered(reader: Reader, repository_id: int, numbers: Collection[int]) -> Mapping[int, str]:
    """The ids of those tasks of a project that are there and have one of the numbers, by their numbers."""
    wanted = sorted(number for number in set(numbers) if 0 < number < 10**NUMBER_DIGITS)
    if not wanted:
        return {}
    rows = await reader.fetch_all(_numbered, {"repository_id": repository_id, "numbers": wanted})
    return {row["number"]: row["id"] for row in rows}
