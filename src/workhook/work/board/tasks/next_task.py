"""What comes after a task that repeats: when it is completed, the next one is made in the same commit.

Each task makes one at most: it remembers which, so that completing it again makes no second.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core import json
from workhook.core.errors import Fault, Invalid
from workhook.core.ids import new_id
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big
from workhook.work.board.tasks import queries, repeating
from workhook.work.board.tasks.queries import Busy, LockedColumn
from workhook.work.board.tasks.schemas import Task, columns
from workhook.work.kernel.access import Access, with_access
from workhook.work.kernel.day_bounds import find_zone

TICKED, OPEN = "complete", "incomplete"  # what stands behind an item of a checklist

_is_final = sa.or_(columns.c.finished, sa.func.coalesce(columns.c.stage, "") == "done")
_first_open = (
    sa.select(columns.c.id)
    .where(columns.c.repository_id == big("repository_id"))
    .order_by(sa.case((_is_final, 1), else_=0), columns.c.position, columns.c.id)
    .limit(1)
)
# Columns are locked in the order of their ids, and others are held already: whoever waited here could wait for ever.
_free_column = with_access(
    sa.select(*queries.lockable_columns).where(columns.c.id == sa.bindparam("column_id")), columns.c.repository_id
).with_for_update(of=columns, key_share=True, skip_locked=True)


async def zone_for(reader: Reader, access: Access, *rules: str | UnsetType | None) -> tzinfo:
    """Return the zone in which the rules of the project's tasks are counted; without a rule it does not matter."""
    return await find_zone(reader, access.repository.id) if any(rules) else UTC


def occurrence_after(task: Task, now: int, zone: tzinfo) -> repeating.Occurrence | None:
    """Return when the task is due that is made when this one is completed; None if there is none."""
    if task.repeat is None:
        return None
    return repeating.next_deadline(task.repeat, task.deadline, now, zone, task.repeat_since)


def require_next(task: Task, now: int, zone: tzinfo) -> None:
    """Raises `Invalid` for a task whose rule makes no task after it."""
    if task.repeat is None:
        return
    if occurrence_after(task, now, zone) is None:
        message = "repeat: there is no next time by this rule; give one that goes on, or null"
        raise Invalid(faults=[Fault(field="repeat", message=message)])


def with_next(before: Task | None, after: Task, now: int, zone: tzinfo) -> Task:
    """The task with the id of the next one, if it is completed now, repeats, and has not made one yet."""
    completed = before is not None and before.completed_at is None and after.completed_at is not None
    if not completed or after.repeat is None or after.next_id is not None:
        return after
    if occurrence_after(after, now, zone) is None:
        return after
    return msgspec.structs.replace(after, next_id=new_id("tsk"))


async def lock_first_open(tx: Transaction, access: Access) -> LockedColumn:
    """Lock the first column of the project that completes nothing. Raises `Busy`."""
    first = await tx.fetch_one(_first_open, {"repository_id": access.repository.id})
    assert first is not None, "a column was moved to"
    params = {"column_id": first["id"], "user_id": access.user.id}
    row = await tx.fetch_one(_free_column, params)
    if row is not None and not row["fresh"]:
        row = await tx.fetch_one(_free_column, params)
    if row is None:
        raise Busy("The column of the next task is being changed by others.")
    return queries.locked_column(row)


def next_of(task: Task, column: LockedColumn, now: int, zone: tzinfo) -> Task:
    """The same again, with everything open."""
    assert task.next_id is not None, "`with_next` has found one"
    assert task.repeat is not None, "so it repeats"
    following = occurrence_after(task, now, zone)
    assert following is not None, "`with_next` has found one"
    sections = {
        name: {item: OPEN if value == TICKED else value for item, value in items.items()}
        for name, items in json.decode(task.sections).items()
    }
    return msgspec.structs.replace(
        task,
        id=task.next_id,
        column=column.column,
        position=0,
        deadline=following.at,
        repeat_since=following.since,
        sections=json.encode_text(sections),
        repeat=repeating.after_one(task.repeat),
        next_id=None,
        subtasks=type(task.subtasks)(0, 0),
        blocked_by=(),
        blocked=False,
        open_blockers=(),
        completed_at=now if column.completes else None,
        created_at=now,
        updated_at=now,
    )
