"""What imported tasks wait for. It is written when all tasks are there, as their edits: one task in each transaction,
so that the locks are taken in the order in which everybody takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from workhook.core.errors import Invalid, NotFound, part, say, shown
from workhook.identity.context import Write
from workhook.storage import Database, Transaction
from workhook.work.board.projects.actions import lock_names
from workhook.work.board.tasks.actions import edit_task, lock_task
from workhook.work.board.tasks.inputs import BLOCKERS_MAX, TaskEdit
from workhook.work.portability.imports.losses import Losses
from workhook.work.portability.imports.plan import PlannedTask
from workhook.work.portability.imports.remaining import Wait, insert_link, remaining_of
from workhook.work.portability.imports.writer import Import, Progress


def without_circles(tasks: Sequence[PlannedTask], losses: Losses) -> list[PlannedTask]:
    """The tasks, each with at most `BLOCKERS_MAX` of the others that it waits for, none of which waits for it."""
    titles = {each.key: each.title for each in tasks}
    graph: dict[str, list[str]] = {}
    for task in tasks:
        graph[task.key] = [each for each in dict.fromkeys(task.blocked_by) if each in titles][:BLOCKERS_MAX]
        losses.add("dependencies", task.title, count=len(set(task.blocked_by)) - len(graph[task.key]))
    for task_key, blocker_key in _closing(graph):
        graph[task_key].remove(blocker_key)
        losses.add("circular_dependencies", f"{titles[task_key]} → {titles[blocker_key]}")
    return [msgspec.structs.replace(each, blocked_by=graph[each.key]) if each.blocked_by else each for each in tasks]


def _closing(graph: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The edges without which no circle is left. Every task and edge is looked at once, depth first."""
    found, done = [], set[str]()
    for start in graph:
        if start in done:
            continue
        path, following = {start: None}, [iter(graph[start])]  # a dict keeps the order
        while path:
            at = next(reversed(path))
            following_key = next(following[-1], None)
            if following_key is None:
                following.pop()
                done.add(path.popitem()[0])
            elif following_key in path:
                found.append((at, following_key))
            elif following_key not in done:
                path[following_key] = None
                following.append(iter(graph[following_key]))
    return found


async def write(database: Database, this: Import, progress: Progress) -> list[str]:
    """Let the tasks wait that do not yet. Returns a warning for each that may not. Raises `Forbidden`, `Conflict`."""
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    by_task: dict[str, list[Wait]] = defaultdict(list)
    for each in rest.waits:
        by_task[each.task_key].append(each)
    warnings = []
    for number, waits in enumerate(by_task.values(), 1):
        warnings += await database.in_transaction(partial(_write_one, this=this, waits=waits))
        progress("dependencies", number, len(by_task))
    return warnings


async def _write_one(tx: Transaction, *, this: Import, waits: Sequence[Wait]) -> list[str]:
    await lock_names(tx, this.organization.id)  # of two imports the second finds what the first made
    keys = {key for each in waits for key in (each.task_key, each.blocker_key)}
    some = msgspec.structs.replace(this.plan, columns=[], tasks=[each for each in this.plan.tasks if each.key in keys])
    rest = await remaining_of(tx, this.organization, some, this.actor.user.id)
    wanted = [each for each in rest.waits if each.task_key == waits[0].task_key]
    if rest.repository is None or not wanted:
        return []
    task_id = rest.ids[waits[0].task_key]
    blockers = [rest.ids[each.blocker_key] for each in wanted]
    try:
        found = await lock_task(tx, this.actor, task_id, TaskEdit())
        edit = TaskEdit(blocked_by=[*found.task.blocked_by, *blockers])
        await edit_task(Write(tx, this.actor, this.base), found, edit)
    except (Invalid, NotFound) as problem:
        title = next(each.title for each in some.tasks if each.key == waits[0].task_key)
        return [say("task {} does not wait for others here: {}", repr(shown(title)), part(problem.message))]
    links = [
        {
            "account_id": this.organization.id,
            "source": this.plan.source,
            "external_id": each.key,
            "repository_id": rest.repository.id,
            "kind": "task_blocker",
            "internal_id": rest.ids[each.blocker_key],
            "fingerprint": "",
        }
        for each in wanted
    ]
    await tx.execute_many(insert_link, links)
    return []
