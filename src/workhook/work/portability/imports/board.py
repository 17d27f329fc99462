"""The columns of a plan, made of the names that tasks have for them, in the order in which they come."""

from __future__ import annotations

import colorsys
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import get_args

import msgspec

from workhook.core.errors import Message, Number, say
from workhook.work.board.projects.schemas import LabelColor
from workhook.work.board.tasks.relations import SUBTASKS_MAX
from workhook.work.board.tasks.schemas import COLUMNS_MAX
from workhook.work.portability.imports.losses import Losses
from workhook.work.portability.imports.plan import PlannedColumn, PlannedTask
from workhook.work.portability.imports.texts import title_of
from workhook.work.portability.imports.words import StageNames

MORE = "More columns"


class ColumnNames:
    """Makes one column of each name, and shares the last where a board may have no more."""

    def __init__(self, project_key: str, stages: StageNames, nameless: str) -> None:
        """`nameless`: the title of the one for no name."""
        self._project_key = project_key
        self._stages = stages
        self._nameless = nameless
        self._columns: dict[str, PlannedColumn] = {}
        self.shared: set[str] = set()  # names that share the last column

    def column(self, name: str, key: str = "") -> PlannedColumn:
        """The column of a name. `key`: what the other service knows it by, if not by its name."""
        title = title_of(name, self._nameless)
        key = f"column:{key}" if key else f"column:{self._project_key}/{title}"
        if key not in self._columns and len(self._columns) >= COLUMNS_MAX - 1:
            self.shared.add(title)
            title, key = MORE, f"column:{self._project_key}:more"
        if key not in self._columns:
            self._columns[key] = PlannedColumn(key, title, stage=self._stages.stage_of(title))
        return self._columns[key]

    @property
    def columns(self) -> list[PlannedColumn]:
        return list(self._columns.values())

    @property
    def warnings(self) -> list[Message]:
        if not self.shared:
            return []
        return [say("the tasks of {} columns share the column {}", Number(len(self.shared)), repr(MORE))]


COLORS: tuple[LabelColor, ...] = get_args(LabelColor)
_DEGREES: dict[LabelColor, int] = {
    "red": 0, "orange": 28, "yellow": 50, "lime": 80, "green": 130, "teal": 175, "sky": 197, "blue": 220, "purple": 262,
    "pink": 315,
}  # fmt: skip
_HEX = re.compile(r"#?([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})")
_GREY_BELOW = 0.12  # of its saturation


def nearest_color(text: str) -> LabelColor | None:
    """Return the colour whose hue is nearest to that of `d73a4a`; None for greys and other texts."""
    found = _HEX.fullmatch(text.strip())
    if found is None:
        return None
    hue, saturation, _ = colorsys.rgb_to_hsv(*(int(part, 16) / 255 for part in found.groups()))
    if saturation < _GREY_BELOW:
        return None
    return min(COLORS, key=lambda color: abs((hue * 360 - _DEGREES[color] + 180) % 360 - 180))


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
