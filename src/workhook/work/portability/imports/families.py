"""Subtasks as they can be here: one level deep, and at most 100 of a task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from workhook.work.board.tasks.relations import SUBTASKS_MAX
from workhook.work.portability.imports.losses import Losses
from workhook.work.portability.imports.plan import PlannedTask


def in_families(tasks: Sequence[PlannedTask], losses: Losses) -> list[PlannedTask]:
    """The tasks in their order, but for subtasks: they come behind the task above them. A subtask of a subtask becomes
    one of the task above that; what is in no plan, or below itself, is nobody's."""
    by_key = {each.key: each for each in tasks}
    subtasks: dict[str, list[PlannedTask]] = defaultdict(list)
    tops = []
    for task in tasks:
        top = _top(task, by_key)
        if top is None:
            tops.append(msgspec.structs.replace(task, parent_key=None))
        elif len(subtasks[top]) == SUBTASKS_MAX:
            losses.add("more_subtasks", task.title, kept="tasks of their own")
            tops.append(msgspec.structs.replace(task, parent_key=None))
        else:
            if top != task.parent_key:
                losses.add("deep_subtasks", task.title, kept="subtasks of the task above")
            subtasks[top].append(msgspec.structs.replace(task, parent_key=top))
    return [each for top in tops for each in (top, *subtasks.get(top.key, ()))]


def _top(task: PlannedTask, by_key: dict[str, PlannedTask]) -> str | None:
    """The key of the task above all that are above this one; None: there is none, or it is above itself."""
    seen = {task.key}
    at, found = task, None
    while at.parent_key is not None and at.parent_key in by_key:
        if at.parent_key in seen:
            return None
        seen.add(at.parent_key)
        at = by_key[at.parent_key]
        found = at.key
    return found
