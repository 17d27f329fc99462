"""Many tasks at once, to the ends of their columns, in few statements: an import holds locks for as long as it writes.

`work/tasks/tables.py` says how the order of a column is stored; here only whole buckets are added to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from workhook.core import json
from workhook.core.ids import new_id
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.record_rows import stored_names, values_of
from workhook.work.access import Access
from workhook.work.imports.settling import Settled
from workhook.work.people import person_shape
from workhook.work.tasks.actions import blank_task
from workhook.work.tasks.order import BUCKET_FILL, STEP, Bucket, new_bucket_id
from workhook.work.tasks.queries import Target
from workhook.work.tasks.schemas import Task
from workhook.work.tasks.tables import task_assignees, task_buckets, tasks

_insert = insert_into(tasks, "repository_id", "column_id", "bucket_id", "rank", *stored_names(Task))
_insert_bucket = insert_into(task_buckets, "id", "column_id", "rank", "size")
_insert_assignee = insert_into(task_assignees, "task_id", "user_id")


class _Placed(msgspec.Struct, frozen=True):
    task: Task
    bucket_id: int
    rank: int


async def append_tasks(
    tx: Transaction, access: Access, targets: Mapping[str, Target], wanted: Sequence[Settled], now: int
) -> list[Task]:
    """As they are stored, in the order of `wanted`. `targets`: locked columns, by the keys that the plan has for them.

    Their ids sort as they do.
    """
    ids = sorted(new_id("tsk") for _ in wanted)
    made = [
        _task(access, targets[each.task.column_key], task_id, each, now)
        for task_id, each in zip(ids, wanted, strict=True)
    ]
    by_column: dict[str, list[Task]] = defaultdict(list)
    for task in made:
        by_column[task.column.id].append(task)
    placed: dict[str, _Placed] = {}
    for target in {each.column.id: each for each in targets.values()}.values():
        buckets, there = _place(target, by_column[target.column.id])
        placed |= {each.task.id: each for each in there}
        # A trigger counts what is in a bucket.
        rows = [{"id": each.id, "column_id": target.column.id, "rank": each.rank, "size": 0} for each in buckets]
        await tx.execute_many(_insert_bucket, rows)
    in_order = [placed[task_id] for task_id in ids]
    await tx.execute_many(_insert, list(_rows(access, in_order)))
    people = [{"task_id": each.id, "user_id": person.id} for each in made for person in each.assignees]
    await tx.execute_many(_insert_assignee, people)
    return [each.task for each in in_order]


def _place(target: Target, some: Sequence[Task]) -> tuple[list[Bucket], list[_Placed]]:
    """Behind what is in the column: the buckets that come to it, and every task in one. A last bucket that is empty is
    filled first."""
    last = target.buckets[-1]
    before = sum(each.size for each in target.buckets)
    buckets = [Bucket(last.id, last.rank, 0)] if last.size == 0 else []
    reused = len(buckets)
    while len(buckets) * BUCKET_FILL < len(some):
        buckets.append(Bucket(new_bucket_id(), last.rank + STEP * (len(buckets) + 1 - reused), 0))
    placed = [
        _Placed(
            msgspec.structs.replace(task, position=before + at), buckets[at // BUCKET_FILL].id, at % BUCKET_FILL * STEP
        )
        for at, task in enumerate(some)
    ]
    return buckets[reused:], placed


def _task(access: Access, target: Target, task_id: str, settled: Settled, now: int) -> Task:
    said = settled.task
    finished_at = min(said.finished_at or now, now)
    return msgspec.structs.replace(
        blank_task(access, target, task_id, said.title, now),
        description=said.description,
        cover_url=said.cover_url,
        deadline=said.deadline,
        fields=json.encode_text(settled.fields),
        sections=json.encode_text(said.sections),
        labels=json.encode_text(said.labels),
        assignees=tuple(person_shape(each) for each in sorted(settled.assignees, key=lambda one: one.id)),
        completed_at=finished_at if said.finished or target.completes else None,
        created_at=min(said.created_at or now, now),
    )


def _rows(access: Access, placed: Iterable[_Placed]) -> Iterable[dict[str, object]]:
    for each in placed:
        task = each.task
        yield {
            **values_of(task),
            "repository_id": access.repository.id,
            "column_id": task.column.id,
            "bucket_id": each.bucket_id,
            "rank": each.rank,
        }
