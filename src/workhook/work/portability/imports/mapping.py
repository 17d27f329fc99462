"""Rules shared by all sources: texts, times and size limits of tasks, columns, colors, subtasks and dependencies."""

from __future__ import annotations

import colorsys
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar, get_args

import msgspec

from workhook.core.errors import Message, Number, say, shown
from workhook.core.text import one_line
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS
from workhook.http.wire_types import read_day_or_moment
from workhook.work.board.projects.schemas import LabelColor
from workhook.work.board.tasks.inputs import BLOCKERS_MAX, KEYS_MAX
from workhook.work.board.tasks.relations import SUBTASKS_MAX
from workhook.work.board.tasks.schemas import COLUMNS_MAX, Level
from workhook.work.portability.imports.plan import Choices, ImportPlan, Losses, PlannedColumn, PlannedField, PlannedTask
from workhook.work.portability.imports.words import StageNames, has_meaning, level_of, plain_name, says_more

T = TypeVar("T")

KEY_MAX_CHARS = 1_000
LABELS_MAX = PEOPLE_MAX = 100  # as in `TaskContent`
PROPERTIES_MAX_BYTES = 256 * 1024  # for all fields and sections of a task, since every event of the task includes them

NAMELESS = "(no name)"
_MARK = "…"  # marks omitted text
_OBJECT_ID = re.compile(r"[0-9a-f]{24}")


def title_of(text: str, otherwise: str = NAMELESS, limit: int = TITLE_MAX_CHARS) -> str:
    """Return the text as one line of at most `limit` characters, which is never empty."""
    title = one_line(text)
    if len(title) > limit:
        title = title[: limit - len(_MARK)].rstrip() + _MARK
    return title or otherwise


def is_cut(text: str, limit: int = TITLE_MAX_CHARS) -> bool:
    """Return whether `title_of` would truncate the text."""
    return len(one_line(text)) > limit


def truncate_bytes(text: str, limit_bytes: int = TEXT_MAX_BYTES) -> str:
    """Truncate the text to `limit_bytes` of UTF-8, between characters."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    if limit_bytes < len(_MARK.encode()):
        return ""
    return data[: limit_bytes - len(_MARK.encode())].decode(errors="ignore") + _MARK


class UniqueNames:
    """A generator of distinct names: `name`, `name (2)`, `name (3)` …"""

    def __init__(self, limit: int = TITLE_MAX_CHARS) -> None:
        self._limit = limit
        self._last: dict[str, int] = {}  # names in use, each with the last number tried

    def __call__(self, name: str) -> str:
        found = name
        while found in self._last:
            self._last[name] += 1
            suffix = f" ({self._last[name]})"
            found = name[: self._limit - len(suffix)] + suffix
        self._last[found] = 1
        return found


def parse_moment(text: str) -> int | None:
    """Return milliseconds since the epoch, or None if the text is not a time or day from 1970 to 9998."""
    try:
        return read_day_or_moment(text)
    except ValueError:
        return None


def deadline_of(text: str, field: str, warn: ThingWarnings) -> int | None:
    """Return the due date, or None with a warning if it is invalid.

    `field` is the field of the task that keeps the text.
    """
    found = parse_moment(text)
    if text and found is None:
        warn(say("its due date “{}” is not a valid date or time and is kept in the field {}", shown(text), field))
    return found


def moment_of_id(external_id: str) -> int | None:
    """Return the time encoded in a Trello ID, whose first eight hexadecimal digits are seconds since the epoch."""
    return int(external_id[:8], 16) * 1000 if _OBJECT_ID.fullmatch(external_id) else None


def priority_in(fields: Sequence[tuple[str, str]]) -> tuple[Level | None, list[tuple[str, str]]]:
    """Return the level of the first priority field, and the other fields.

    The priority field itself is also returned if it contains more than its level.
    """
    for at, (name, text) in enumerate(fields):
        if has_meaning("priority", name) and (found := level_of(text)):
            return found, list(fields) if says_more(text) else [*fields[:at], *fields[at + 1 :]]
    return None, list(fields)


def unknown_names(done: Collection[str], names: Iterable[str], kind: str) -> list[Message]:
    """Return warnings about names in `done` that do not match any column."""
    plain = {plain_name(each) for each in names}
    return [say("unknown {} “{}”", kind, shown(each)) for each in done if plain_name(each) not in plain]


def described(kind: str, name: str, text: str, warn: ThingWarnings) -> str | None:
    """Return a task's description. It starts with the full name if the name is too long for a title."""
    if is_cut(name):
        warn(
            say(
                "its {} is shortened to {} characters; the full text is at the start of the description",
                kind,
                TITLE_MAX_CHARS,
            )
        )
        text = f"{name.strip()}\n\n{text}".rstrip()
    kept = truncate_bytes(text)
    if kept != text:
        warn(say("its description is shortened to {} KiB", TEXT_MAX_BYTES // 1024))
    return kept if kept.strip() else None


def first_of(things: list[T], most: int, message: Message, warn: ThingWarnings) -> list[T]:
    if len(things) > most:
        warn(say("only {} of its {} are kept", most, message))
    return things[:most]


class ThingWarnings:
    """Distinct warnings about one card or task. `kind` is the source's word for it."""

    def __init__(self, kind: str, name: str, warnings: list[Message]) -> None:
        self._kind, self._name = kind, shown(name.strip() or NAMELESS)
        self._warnings = warnings
        self._known: set[str] = set()

    def __call__(self, message: Message) -> None:
        if message not in self._known:
            self._known.add(message)
            self._warnings.append(say(f"{self._kind} “{{}}”: {{}}", self._name, message))


class PropertyBudget:
    """The remaining space for the fields and sections of one task."""

    def __init__(self, warn: ThingWarnings) -> None:
        self.warn = warn
        self._left_bytes = PROPERTIES_MAX_BYTES

    def take_whole(self, text: str) -> bool:
        size = len(text.encode())
        if size > self._left_bytes:
            return False
        self._left_bytes -= size
        return True

    def take(self, text: str, name: str) -> str:
        kept = truncate_bytes(text, min(TEXT_MAX_BYTES, self._left_bytes))
        self._left_bytes -= len(kept.encode())
        if kept != text:
            self.warn(say("the field “{}” is shortened", shown(name)))
        return kept

    def take_key(self, taken: int, most: int, message: Message) -> bool:
        if taken < most:
            return True
        self.warn(say("only {} of its {} are kept", most, message))
        return False

    def fields(self, named: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the fields of a task without empty ones."""
        found: dict[str, str] = {}
        name_of = UniqueNames()
        for name, text in named:
            # One key is reserved for people without an account.
            if text and self.take_key(len(found), KEYS_MAX - 1, say("fields")):
                found[name_of(name)] = self.take(text, name)
        return found


MORE = "More columns"


class PlanMaker:
    """Builds the plan of one project, with a column for each column name used by its tasks.

    `project_id` is unique within the source. `nameless` is the title of the column without a name. `finished` contains
    the names of columns whose tasks are finished by default.
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
