"""The numbers of tasks in their projects: dense, from 1, and never given twice.

A project has a counter. Whoever makes tasks holds it until the transaction ends. What is rolled back gives its numbers
back, so that numbers have no gap; what is deleted does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big
from workhook.storage.statements import hot
from workhook.work.board.tasks.schemas import task_numbers, tasks

NUMBER_DIGITS = 9
"""No project has so many tasks that their numbers have more digits."""

_count = upsert(task_numbers).values(repository_id=big("repository_id"), last=big("step"))
_count = _count.on_conflict_do_update(
    index_elements=[task_numbers.c.repository_id], set_={"last": task_numbers.c.last + big("step")}
)
_take = hot(_count.returning(task_numbers.c.last))
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


async def find_numbered(reader: Reader, repository_id: int, numbers: Collection[int]) -> Mapping[int, str]:
    """The ids of those tasks of a project that are there and have one of the numbers, by their numbers."""
    wanted = sorted(number for number in set(numbers) if 0 < number < 10**NUMBER_DIGITS)
    if not wanted:
        return {}
    rows = await reader.fetch_all(_numbered, {"repository_id": repository_id, "numbers": wanted})
    return {row["number"]: row["id"] for row in rows}
