"""Relations between tasks: subtasks and blockers.

A change of relations locks the relations of the project until its transaction ends, after columns and tasks. Concurrent
changes are therefore serialized: the second one sees the first, and together they cannot create a state that either
alone may not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid, say, shown
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.queries import TaskChange
from workhook.work.board.tasks.schemas import Task, task_blockers, tasks

SUBTASKS_MAX = 100
"""The maximum number of subtasks of a task. Every read of a task counts them."""

LOCK_CLASS = 0x77686572  # class of the advisory locks; the repository ID is the other half of their key
_KEY_MASK = sa.literal_column("2147483647", sa.BigInteger)  # this half has 32 bits

# SQLite has a single writer.
_lock = PerDialect(
    sqlite=sa.select(sa.literal_column("1").label("held")),
    postgresql=sa.select(
        sa.func.pg_advisory_xact_lock(
            sa.literal_column(str(LOCK_CLASS)), sa.cast(bigint_param("repository_id").op("&")(_KEY_MASK), sa.Integer)
        ).label("held")
    ),
)
# Subtasks in the trash count, because they can be restored.
_related = sa.select(
    tasks.c.id, tasks.c.repository_id, tasks.c.parent_id, tasks.c.deleted_at, tasks.c.completed_at
).where(sa.or_(any_of(tasks.c.id, "ids"), any_of(tasks.c.parent_id, "ids")))


async def check_relations(tx: Transaction, changes: Sequence[TaskChange], deleted: Collection[str] = ()) -> None:
    """Check the relation changes of one transaction, and update which blockers are open.

    Call this before the tasks, which must be locked, are written. `deleted` are the IDs of the tasks that the
    transaction moves to the trash. Raises `Invalid`. Relations are locked only if one is added.
    """
    made = [each for each in changes if each.gets_parent or each.new_blockers]
    known = await _read(tx, made, changes, deleted) if made else _Relations({}, {}, deleted)
    faults = [fault for each in made if each.gets_parent for fault in _parent_faults(each, known)]
    faults += [fault for each in made for fault in _blocker_faults(each, known)]
    if not faults and any(each.new_blockers for each in made):
        faults = await _circle_faults(tx, changes)
    if faults:
        raise Invalid(faults=faults)
    for each in changes:
        if each.blockers_changed:
            before = each.before.open_blockers if each.before else ()
            new, wanted = each.new_blockers, each.after.blocked_by
            found = tuple(one for one in wanted if (known.is_open(one) if one in new else one in before))
            each.after = msgspec.structs.replace(each.after, open_blockers=found, blocked=bool(found))


async def _read(
    tx: Transaction, made: Sequence[TaskChange], changes: Sequence[TaskChange], deleted: Collection[str]
) -> _Relations:
    """Read the relations after all concurrent changes to them have ended."""
    for repository_id in sorted({each.access.repository.id for each in made}):
        await tx.fetch_one(_lock, {"repository_id": repository_id})
    ids = {each.after.id for each in made if each.gets_parent}
    ids |= {str(each.after.parent_id) for each in made if each.gets_parent}
    ids |= {blocker for each in made for blocker in each.new_blockers}
    rows = await tx.fetch_all(_related, {"ids": sorted(ids)})
    return _Relations({row["id"]: row for row in rows}, {each.after.id: each.after for each in changes}, deleted)


class _Relations:
    """Tasks as they are after the change. `subtasks` counts those of each task, including those in the trash."""

    def __init__(self, rows: Mapping[str, Row], changed: Mapping[str, Task], deleted: Collection[str]) -> None:
        """Combine the stored rows with the changed tasks."""
        self.rows, self.changed, self.deleted = rows, changed, deleted
        self.parents: dict[str, str | None] = {task_id: row["parent_id"] for task_id, row in rows.items()}
        self.parents |= {task_id: task.parent_id for task_id, task in changed.items()}
        self.subtasks = Counter(each for each in self.parents.values() if each is not None)

    def is_there(self, task_id: str, repository_id: int) -> bool:
        row = self.rows.get(task_id)
        is_kept = row is not None and row["repository_id"] == repository_id and row["deleted_at"] is None
        return is_kept and task_id not in self.deleted

    def is_open(self, task_id: str) -> bool:
        if task_id in self.changed:
            return self.changed[task_id].completed_at is None
        return self.rows[task_id]["completed_at"] is None


def _parent_faults(change: TaskChange, known: _Relations) -> list[Fault]:
    task_id, parent_id, field = change.after.id, str(change.after.parent_id), change.named("parent_id")
    if not known.is_there(parent_id, change.access.repository.id):
        return [_missing_task(field)]
    if parent_id == task_id:
        return [Fault(field=field, message=say("{}: a task cannot be a subtask of itself", field))]
    if known.parents[parent_id] is not None:
        message = say("{}: a subtask cannot have subtasks; use its parent task instead", field)
        return [Fault(field=field, message=message)]
    if known.subtasks.get(task_id):
        message = say(
            "{}: a task with subtasks cannot be a subtask; detach its subtasks first, including those in the trash",
            field,
        )
        return [Fault(field=field, message=message)]
    if known.subtasks[parent_id] > SUBTASKS_MAX:
        message = say("{}: a task can have at most {} subtasks, including those in the trash", field, SUBTASKS_MAX)
        return [Fault(field=field, code="too_many", message=message)]
    return []


def _blocker_faults(change: TaskChange, known: _Relations) -> list[Fault]:
    field, repository_id = change.named("blocked_by"), change.access.repository.id
    if change.after.id in change.new_blockers:
        return [Fault(field=field, message=say("{}: a task cannot be blocked by itself", field))]
    if not all(known.is_there(each, repository_id) for each in change.new_blockers):
        return [_missing_task(field)]
    return []


def _missing_task(field: str) -> Fault:
    return Fault(field=field, code="not_found", message=say("{}: the task's project has no such task", field))


async def _circle_faults(tx: Transaction, changes: Sequence[TaskChange]) -> list[Fault]:
    """Return the faults of tasks that would, transitively, block themselves."""
    after = {each.after.id: each.after.blocked_by for each in changes if each.blockers_changed}
    graph = await reachable(tx, {blocker for blockers in after.values() for blocker in blockers})
    if graph is None:
        sentence = "{}: more than {} tasks would block one another; remove some of the blockers"
        fields = [each.named("blocked_by") for each in changes if each.new_blockers]
        return [Fault(field=each, code="too_many", message=say(sentence, each, REACH_MAX)) for each in fields]
    circle = find_circle({**graph, **after}, after)
    if not circle:
        return []
    titles = {row["id"]: row["title"] for row in await tx.fetch_all(_titles, {"ids": sorted(set(circle))})}
    names = " → ".join(f"{shown(titles[each])} ({each})" if each in titles else each for each in circle)
    field = next(each.named("blocked_by") for each in changes if each.after.id == circle[0])
    return [Fault(field=field, code="circle", message=say("{}: these tasks would block each other: {}", field, names))]


# --- circular dependencies --------------------------------------------------------------------------------------------
# Tasks in the trash are included, because restoring one must not create a cycle.

REACH_MAX = 10_000
"""The maximum number of task pairs read for one change, which takes about ten milliseconds."""

Graph = Mapping[str, Sequence[str]]
"""The blockers of each task."""

_next = task_blockers.alias("following")
_first = sa.select(task_blockers.c.task_id, task_blockers.c.blocker_id).where(any_of(task_blockers.c.task_id, "ids"))
_reached = _first.cte("reached", recursive=True)
_reached = _reached.union(
    sa.select(_next.c.task_id, _next.c.blocker_id).join_from(_reached, _next, _next.c.task_id == _reached.c.blocker_id)
)
_reachable = sa.select(_reached.c.task_id, _reached.c.blocker_id).limit(bigint_param("limit"))
_titles = sa.select(tasks.c.id, tasks.c.title).where(any_of(tasks.c.id, "ids"))


async def reachable(tx: Transaction, ids: Collection[str]) -> dict[str, list[str]] | None:
    """Return all blockers of the tasks, transitively, or None if there are more than `REACH_MAX`."""
    rows = await tx.fetch_all(_reachable, {"ids": sorted(ids), "limit": REACH_MAX + 1})
    if len(rows) > REACH_MAX:
        return None
    graph: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        graph[row["task_id"]].append(row["blocker_id"])
    return graph


def find_circle(graph: Graph, starts: Iterable[str]) -> list[str]:
    """Return the tasks of a cycle through one of `starts`, listed first and last; empty if there is no cycle."""
    is_done: set[str] = set()  # no path from these leads back to where a search began
    for start in starts:
        path, following = [start], [iter(graph.get(start, ()))]
        seen = {start}
        while path:
            task_id = next(following[-1], None)
            if task_id is None:
                following.pop()
                path.pop()
            elif task_id == start:
                return [*path, start]
            elif task_id not in seen and task_id not in is_done:
                seen.add(task_id)
                path.append(task_id)
                following.append(iter(graph.get(task_id, ())))
        is_done.add(start)
    return []
