"""What tasks have to do with one another: subtasks. Whoever changes that asks here first whether it may be.

Such a change holds the lock of the project's relations until it ends, after those of columns and tasks. So of two that
come at once the second sees what the first has made, and what each alone may do cannot be wrong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.access import Access
from workhook.work.tasks.schemas import Task, tasks

SUBTASKS_MAX = 100
"""Of one task. Whoever reads a task counts them, so that they must not be many."""

LOCK_CLASS = 0x77686572  # of the advisory locks; the repository is the other half of their key
_KEY_MASK = sa.literal_column("2147483647", sa.BigInteger)  # which has 32 bits

# SQLite has one writer at a time.
_lock = PerDialect(
    sqlite=sa.select(sa.literal_column("1").label("held")),
    postgresql=sa.select(
        sa.func.pg_advisory_xact_lock(
            sa.literal_column(str(LOCK_CLASS)), sa.cast(big("repository_id").op("&")(_KEY_MASK), sa.Integer)
        ).label("held")
    ),
)
# Subtasks in the trash count: they can come back.
_related = sa.select(tasks.c.id, tasks.c.repository_id, tasks.c.parent_id, tasks.c.deleted_at).where(
    sa.or_(any_of(tasks.c.id, "ids"), any_of(tasks.c.parent_id, "ids"))
)


class RelationChange(NamedTuple):
    """A task before (None: it is new) and after a change. `named` says how a fault calls a field of it."""

    access: Access
    before: Task | None
    after: Task
    named: Callable[[str], str] = str

    @property
    def gets_parent(self) -> bool:
        """Whether it gets another task as its parent."""
        return self.after.parent_id not in (None, self.before and self.before.parent_id)


async def check(tx: Transaction, changes: Sequence[RelationChange], deleted: Collection[str] = ()) -> None:
    """Call this before the changes of one transaction are written, whose tasks are locked. `deleted`: ids of tasks that
    it puts into the trash. Raises `Invalid`, and locks nothing where no relation is made."""
    made = [each for each in changes if each.gets_parent]
    if not made:
        return
    for repository_id in sorted({each.access.repository.id for each in made}):
        await tx.fetch_one(_lock, {"repository_id": repository_id})
    ids = {each.after.id for each in made} | {str(each.after.parent_id) for each in made}
    rows = await tx.fetch_all(_related, {"ids": sorted(ids)})
    known = _Known.of({row["id"]: row for row in rows}, {each.after.id: each.after for each in changes}, deleted)
    if faults := [fault for each in made for fault in _parent_faults(each, known)]:
        raise Invalid(faults=faults)


class _Known(msgspec.Struct, frozen=True):
    """What is known of tasks when the change is done. `subtasks`: how many each has, those in the trash included."""

    rows: Mapping[str, Row]
    parents: Mapping[str, str | None]
    subtasks: Mapping[str, int]
    deleted: Collection[str]

    @classmethod
    def of(cls, rows: Mapping[str, Row], changed: Mapping[str, Task], deleted: Collection[str]) -> _Known:
        """From what is stored, and what the change makes of some."""
        parents: dict[str, str | None] = {task_id: row["parent_id"] for task_id, row in rows.items()}
        parents |= {task_id: task.parent_id for task_id, task in changed.items()}
        return cls(rows, parents, Counter(each for each in parents.values() if each is not None), deleted)

    def is_there(self, task_id: str, repository_id: int) -> bool:
        row = self.rows.get(task_id)
        is_kept = row is not None and row["repository_id"] == repository_id and row["deleted_at"] is None
        return is_kept and task_id not in self.deleted


def _parent_faults(change: RelationChange, known: _Known) -> list[Fault]:
    task_id, parent_id, field = change.after.id, str(change.after.parent_id), change.named("parent_id")
    if not known.is_there(parent_id, change.access.repository.id):
        message = f"{field}: there is no such task in the task's project"
        return [Fault(field=field, code="not_found", message=message)]
    if parent_id == task_id:
        return [Fault(field=field, message=f"{field}: a task cannot be a subtask of itself")]
    if known.parents[parent_id] is not None:
        return [Fault(field=field, message=f"{field}: a subtask cannot have subtasks; name the task above it")]
    if known.subtasks.get(task_id):
        message = f"{field}: the task has subtasks, perhaps in the trash, so it cannot be one; move them first"
        return [Fault(field=field, message=message)]
    if known.subtasks[parent_id] > SUBTASKS_MAX:
        message = f"{field}: a task has at most {SUBTASKS_MAX} subtasks, those in the trash included"
        return [Fault(field=field, code="too_many", message=message)]
    return []
