"""Rules shared by all sources: columns, colors, subtasks and dependencies."""

from __future__ import annotations

import colorsys
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import get_args

import msgspec

from workhook.core.errors import Message, Number, say
from workhook.work.board.projects.schemas import LabelColor
from workhook.work.board.tasks.inputs import BLOCKERS_MAX
from workhook.work.board.tasks.relations import SUBTASKS_MAX
from workhook.work.board.tasks.schemas import COLUMNS_MAX
from workhook.work.portability.imports.plan import Choices, ImportPlan, Losses, PlannedColumn, PlannedField, PlannedTask
from workhook.work.portability.imports.texts import KEY_MAX_CHARS, UniqueNames, title_of, unknown_names
from workhook.work.portability.imports.words import StageNames

MORE = "More columns"


class PlanMaker:
    """A builder for the plan of one project, which collects its columns by the names that tasks use.

    `project_id` is unique within the source. `nameless` is the title of the column without a name. `finished` contains
    names of columns whose tasks are finished by default.
    """

    def __init__(
        self, source: str, project_id: str, choices: Choices, nameless: str, finished: Collection[str] = ()
    ) -> None:
        self.project_key = f"project:{project_id}"
        self.losses, self.warnings = Losses(), list[Message]()
        self.key_of = UniqueNames(KEY_MAX_CHARS)
        self._source, self._choices, self._nameless = source, choices, nameless
        self._stages = StageNames({*finished, *choices.done}, choices.not_done)
        self._columns: dict[str, PlannedColumn] = {}
        self._shared: set[str] = set()  # names that share the last column because a board can have no more columns

    def column(self, name: str, key: str = "") -> PlannedColumn:
        """Return the column of this name, which is added if necessary.

        `key` is its ID in the other service, if columns are not identified by name.
        """
        title = title_of(name, self._nameless)
        key = f"column:{key}" if key else f"column:{self.project_key}/{title}"
        if key not in self._columns and len(self._columns) >= COLUMNS_MAX - 1:
            self._shared.add(title)
            title, key = MORE, f"column:{self.project_key}:more"
        if key not in self._columns:
            self._columns[key] = PlannedColumn(key, title, stage=self._stages.stage_of(title))
        return self._columns[key]

    def plan(
        self,
        title: str,
        tasks: Sequence[PlannedTask],
        kind: str,
        *,
        remarks: Sequence[Message] = (),
        fields: Sequence[PlannedField] = (),
        label_colors: Mapping[str, LabelColor] = {},
    ) -> ImportPlan:
        """Return the plan. `kind` is the source's word for a column. `remarks` are warnings listed first."""
        tasks = remove_cycles(order_subtasks(tasks, self.losses), self.losses)
        columns = list(self._columns.values())
        warnings = [*remarks, *unknown_names(self._choices.done, (each.title for each in columns), kind)]
        warnings += self.warnings
        if self._shared:
            warnings.append(
                say("the tasks of {} columns were merged into the column “{}”", Number(len(self._shared)), MORE)
            )
        return ImportPlan(
            self._source,
            self.project_key,
            title_of(title),
            columns,
            tasks,
            warnings,
            self.losses.found(),
            list(fields),
            dict(label_colors),
        )


COLORS: tuple[LabelColor, ...] = get_args(LabelColor)
_DEGREES: dict[LabelColor, int] = {
    "red": 0, "orange": 28, "yellow": 50, "lime": 80, "green": 130, "teal": 175, "sky": 197, "blue": 220, "purple": 262,
    "pink": 315,
}  # fmt: skip
_HEX = re.compile(r"#?([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})")
_GREY_BELOW = 0.12  # saturation


def nearest_color(text: str) -> LabelColor | None:
    """Return the color whose hue is nearest to that of a code such as `d73a4a`, or None for grays and invalid codes."""
    found = _HEX.fullmatch(text.strip())
    if found is None:
        return None
    hue, saturation, _ = colorsys.rgb_to_hsv(*(int(part, 16) / 255 for part in found.groups()))
    if saturation < _GREY_BELOW:
        return None
    return min(COLORS, key=lambda color: abs((hue * 360 - _DEGREES[color] + 180) % 360 - 180))


def order_subtasks(tasks: Sequence[PlannedTask], losses: Losses) -> list[PlannedTask]:
    """Order the tasks so that subtasks follow their parent.

    A nested subtask moves to its topmost ancestor. A parent that is unknown or part of a cycle is dropped.
    """
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
    """Return the key of the topmost ancestor, or None if the task has no parent or is in a cycle."""
    seen = {task.key}
    at, found = task, None
    while at.parent_key is not None and at.parent_key in by_key:
        if at.parent_key in seen:
            return None
        seen.add(at.parent_key)
        at = by_key[at.parent_key]
        found = at.key
    return found


def remove_cycles(tasks: Sequence[PlannedTask], losses: Losses) -> list[PlannedTask]:
    """Limit the dependencies of each task to `BLOCKERS_MAX` tasks of the plan, and remove cycles."""
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
    """Return the back edges of a depth-first search. Removing them leaves no cycles."""
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
