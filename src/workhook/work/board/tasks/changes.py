"""Changes of tasks and of their order, and the statements that write them, for one task as for many.

Whoever changes the order of a column holds its lock (`queries`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.storage import Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, stored_names, values_of
from workhook.storage.statements import Params, hot
from workhook.work.board.tasks.column_order import ColumnOrder, Rank, Step, TaskPlace, buckets_to_read
from workhook.work.board.tasks.queries import LockedColumn
from workhook.work.board.tasks.schemas import (
    CONTENT,
    CommitShape,
    Task,
    task_assignees,
    task_blockers,
    task_buckets,
    task_numbers,
    tasks,
)
from workhook.work.kernel.access import Access


class TaskChange(msgspec.Struct):
    """A task before (None: it is new) and after a change.

    `place`: where it stood, if it may move. `named` returns how a fault calls a field of it. `deleted_as`: what
    messages call a task that is put into the trash. `commit`: whose message asked for the change.
    """

    access: Access
    before: Task | None
    after: Task
    place: TaskPlace | None = None
    named: Callable[[str], str] = str
    is_moved: bool = False
    deleted_as: str | None = None
    commit: CommitShape | None = None

    @property
    def gets_parent(self) -> bool:
        """Whether it gets another task as its parent."""
        return self.after.parent_id not in (None, self.before and self.before.parent_id)

    @property
    def waits_anew(self) -> bool:
        """Whether it waits for other tasks than before."""
        return self.after.blocked_by != (self.before.blocked_by if self.before else ())

    @property
    def new_blockers(self) -> set[str]:
        return {*self.after.blocked_by} - {*(self.before.blocked_by if self.before else ())}


# --- the order of columns ---------------------------------------------------------------------------------------------

_ranks = sa.select(tasks.c.id, tasks.c.bucket_id, tasks.c.rank).where(any_of(tasks.c.bucket_id, "bucket_ids"))


async def change_orders(
    tx: Transaction,
    steps: Mapping[str, Sequence[Step]],
    columns: Mapping[str, LockedColumn],
    places: Mapping[str, TaskPlace],
) -> dict[str, ColumnOrder]:
    """Return the orders of columns, by their ids, after the steps. `places`: of the tasks that stand in them.

    Only buckets are read in which a task is put between others.
    """
    wanted = {column_id: buckets_to_read(columns[column_id].buckets, made) for column_id, made in steps.items()}
    read = sorted(set().union(*wanted.values()))
    rows = await tx.fetch_all(_ranks, {"bucket_ids": read}) if read else []
    ranks = {row["id"]: Rank(row["bucket_id"], row["rank"]) for row in rows}
    orders = {}
    for column_id, made in steps.items():
        there = {task_id: each for task_id, each in ranks.items() if each.bucket_id in wanted[column_id]}
        column = columns[column_id]
        order = orders[column_id] = ColumnOrder(column.buckets, there, places, column.last_rank)
        for step in made:
            order.apply(step)
    return orders


# --- numbers ----------------------------------------------------------------------------------------------------------
# Those of a project's tasks are dense, from 1, and never given twice. Whoever makes tasks holds the counter of the
# project until the transaction ends. What is rolled back gives its numbers back, so that numbers have no gap; what is
# deleted does not.

_count = upsert(task_numbers).values(repository_id=big("repository_id"), last=big("step"))
_count = _count.on_conflict_do_update(
    index_elements=[task_numbers.c.repository_id], set_={"last": task_numbers.c.last + big("step")}
)
_take = hot(_count.returning(task_numbers.c.last))


async def take_numbers(tx: Transaction, repository_id: int, count: int = 1) -> int:
    """The first of so many numbers that follow each other.

    Call it with the locks of columns and tasks in hand, and for several projects in the order of their ids.
    """
    row = await tx.fetch_one(_take, {"repository_id": repository_id, "step": count})
    assert row is not None, "the statement inserts or updates"
    return int(row["last"]) - count + 1


# --- writing ----------------------------------------------------------------------------------------------------------

_this = tasks.c.id == sa.bindparam("task_id")
_place = {"column_id": sa.bindparam("to_column"), "bucket_id": big("to_bucket"), "rank": big("to_rank")}
_insert = sa.insert(tasks).values({"repository_id": big("repository_id"), **_place, **assigned(stored_names(Task))})
_edit = hot(sa.update(tasks).where(_this).values(**assigned(CONTENT), updated_at=big("updated_at")))
_move = hot(_edit.values(**_place, deleted_at=sa.null()))
_set_rank = sa.update(tasks).where(_this).values(bucket_id=big("to_bucket"), rank=big("to_rank"))
_trash = (
    sa.update(tasks)
    .where(_this)
    .values(bucket_id=sa.null(), rank=sa.null(), deleted_at=big("updated_at"), updated_at=big("updated_at"))
)
_insert_bucket = insert_into(task_buckets, "id", "column_id", "rank", "size")
_set_bucket_rank = sa.update(task_buckets).where(task_buckets.c.id == big("bucket_id")).values(rank=big("new_rank"))
_drop_bucket = sa.delete(task_buckets).where(task_buckets.c.id == big("bucket_id"), task_buckets.c.size == 0)
_insert_assignee = insert_into(task_assignees, "task_id", "user_id")
_delete_assignee = sa.delete(task_assignees).where(
    task_assignees.c.task_id == sa.bindparam("task_id"), task_assignees.c.user_id == big("user_id")
)
_insert_blocker = insert_into(task_blockers, "task_id", "blocker_id")
_delete_blocker = sa.delete(task_blockers).where(
    task_blockers.c.task_id == sa.bindparam("task_id"), task_blockers.c.blocker_id == sa.bindparam("blocker_id")
)


async def write_rows(tx: Transaction, changes: Sequence[TaskChange], orders: Mapping[str, ColumnOrder]) -> None:
    """Write the tasks, their people and what they wait for, and the `orders` of their columns, by column id.

    The last statement waits for the next one, where it can go along (`Transaction.defer`).
    """
    kept = [each for each in changes if each.deleted_as is None]
    gone_people, new_people = _differences(kept, "user_id", _people_of)
    gone_blockers, new_blockers = _differences(kept, "blocker_id", lambda task: task.blocked_by)
    await _send(tx, _delete_assignee, gone_people)
    await _send(tx, _delete_blocker, gone_blockers)
    # A bucket's size grows with the tasks that come into it: a trigger counts.
    new_buckets = [
        {"id": each.id, "column_id": column_id, "rank": each.rank, "size": 0}
        for column_id, order in orders.items()
        for each in order.new_buckets
    ]
    await _send(tx, _insert_bucket, new_buckets)
    await _write_tasks(tx, changes, orders)
    tx.defer(_insert_assignee, new_people)
    tx.defer(_insert_blocker, new_blockers)
    moved_buckets = [
        {"bucket_id": each.id, "new_rank": each.rank} for order in orders.values() for each in order.moved_buckets
    ]
    await _send(tx, _set_bucket_rank, moved_buckets)
    dropped = [{"bucket_id": each} for order in orders.values() for each in order.dropped_buckets]
    await _send(tx, _drop_bucket, dropped)


async def _write_tasks(tx: Transaction, changes: Sequence[TaskChange], orders: Mapping[str, ColumnOrder]) -> None:
    """The tasks, and those that only got another rank."""
    ranks = {task_id: rank for order in orders.values() for task_id, rank in order.changed.items()}
    inserted, edited, moved, trashed = list[_Row](), list[_Row](), list[_Row](), list[_Row]()
    for each in changes:
        row = {"task_id": each.after.id, "repository_id": each.access.repository.id, **values_of(each.after)}
        if each.deleted_as is not None:
            trashed.append({"task_id": each.after.id, "updated_at": each.after.updated_at})
        elif (rank := ranks.pop(each.after.id, None)) is None:
            edited.append(row)
        else:
            row |= {"to_column": each.after.column.id, **_rank_params(rank)}
            (moved if each.before else inserted).append(row)
    ranked = [{"task_id": task_id, **_rank_params(rank)} for task_id, rank in ranks.items()]
    for statement, rows in (
        (_insert, inserted), (_edit, edited), (_move, moved), (_set_rank, ranked), (_trash, trashed),
    ):  # fmt: skip
        if rows and (len(rows) == 1 or statement is _insert):
            await tx.flush()  # no two statements that change tasks go together
            tx.defer(statement, rows)
        else:
            await _send(tx, statement, rows)


_Row = dict[str, object]


def _rank_params(rank: Rank) -> _Row:
    return {"to_bucket": rank.bucket_id, "to_rank": rank.rank}


async def _send(tx: Transaction, statement: Executable, rows: Sequence[Params]) -> None:
    if rows:
        await tx.execute_many(statement, rows)


def _people_of(task: Task) -> list[int]:
    return [person.id for person in task.assignees]


def _differences(
    changes: Sequence[TaskChange], name: str, ids_of: Callable[[Task], Collection[Any]]
) -> tuple[list[_Row], list[_Row]]:
    """The rows of what belongs to tasks that are to be deleted, and those to be inserted."""
    gone: list[_Row] = []
    added: list[_Row] = []
    for each in changes:
        had, wanted = {*(ids_of(each.before) if each.before else ())}, {*ids_of(each.after)}
        gone += [{"task_id": each.after.id, name: value} for value in sorted(had - wanted)]
        added += [{"task_id": each.after.id, name: value} for value in sorted(wanted - had)]
    return gone, added
