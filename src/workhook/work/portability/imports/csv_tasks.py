"""Plans of projects from tables with one task per row. Pure functions.

docs/team/import.md lists the recognized field names. Workhook's own export of tasks contains more, because its cells
can contain lists, checklists, fields and rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from workhook.core import json
from workhook.core.clock import HOUR_MS, MINUTE_MS
from workhook.core.errors import Malformed, compose, say, shown
from workhook.core.text import one_line
from workhook.http import parameters
from workhook.work.board.tasks.inputs import ESTIMATE_MAX_MS, PLAIN_FIELDS, TaskCreate
from workhook.work.kernel.durations import AmbiguousNumber, typed_duration_ms
from workhook.work.portability.imports.json_file import FAULTS_MAX, InvalidFile
from workhook.work.portability.imports.mapping import (
    LABELS_MAX,
    PEOPLE_MAX,
    PlanMaker,
    PropertyBudget,
    ThingWarnings,
    described,
    first_of,
    parse_moment,
    title_of,
)
from workhook.work.portability.imports.plan import (
    NAMES_SHOWN,
    Choices,
    ImportPlan,
    Person,
    PlannedField,
    PlannedTask,
    name_some,
)
from workhook.work.portability.imports.tables import Table, TableRow, read_table
from workhook.work.portability.imports.words import (
    FIELD_KEYS,
    HOURS,
    MINUTES,
    NO,
    YES,
    header_key,
    level_of,
    says_more,
)

SOURCE = "csv"
NO_COLUMN = "Tasks"

_AS_JSON = ("fields", "sections", "billable")
_IN_ANY_TABLE = {"description", "priority", "deadline"}
_AS_TEXT = sorted({*PLAIN_FIELDS} & {*PlannedTask.__struct_fields__} - _IN_ANY_TABLE)
READ_HERE = frozenset({"number", "updated_at", "estimate_hours", "hourly_rate", *_AS_JSON, *_AS_TEXT})
"""Columns of a Workhook export that do not become fields, because they are parsed or computed again. Rates are omitted
because clients would see them in a field."""

_DAY_FIRST = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4}|\d\d)(?:,?\s+(\d{1,2}):(\d\d)(:\d\d)?)?")
_LOCAL_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?")


def read_rows(data: bytes, title: str, choices: Choices) -> ImportPlan:
    """Plan a project from a table. Raises `InvalidFile`.

    `title` identifies the project for later imports. An empty name in `choices.mapping` means that the table has no
    such column.
    """
    table = read_table(data)
    chosen = _choose_columns(table, choices.mapping)
    not_done = list(choices.not_done)
    if table.is_own and {"column", "completed"} <= chosen.keys():  # columns with open tasks
        named = (row.cells.get(chosen["column"], "") for row in table.rows if not row.cells.get(chosen["completed"]))
        not_done += [each for each in dict.fromkeys(named) if each not in choices.done]
    return _RowMapper(table, title_of(title), chosen, msgspec.structs.replace(choices, not_done=not_done)).plan()


def _choose_columns(table: Table, mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the table's columns by meaning. Raises `InvalidFile`."""
    by_key: dict[str, str] = {}
    for name in table.names:
        by_key.setdefault(header_key(name), name)
    available = name_some(table.names)
    faults, chosen = list[str](), dict[str, str]()
    for meaning, name in mapping.items():
        if name and header_key(name) not in by_key:
            faults.append(say("line 1 has no field “{}”; its fields are {}", shown(name), available))
        elif name:
            chosen[meaning] = by_key[header_key(name)]
    taken = set(chosen.values())
    for meaning, names in FIELD_KEYS.items():
        free = (by_key[each] for each in names if each in by_key and by_key[each] not in taken)
        if meaning not in mapping and (found := next(free, None)):
            chosen[meaning] = found
            taken.add(found)
    if "title" not in chosen and not faults:
        faults.append(say("line 1 has no field named Title or Name; its fields are {}", available))
    if faults:
        raise InvalidFile(faults)
    return chosen


class _RowMapper:
    def __init__(self, table: Table, title: str, chosen: Mapping[str, str], choices: Choices) -> None:
        self._table, self._title, self._chosen = table, title, chosen
        self._made = PlanMaker(SOURCE, title, choices, NO_COLUMN)
        self._faults: list[str] = []
        self._kept: dict[str, dict[str, None]] = defaultdict(dict)  # unrecognized values by column name
        self._keys = self._keys_of_rows()
        self._by_key = dict(zip(self._keys, table.rows, strict=True))
        self._by_name = self._keys_by_name()

    def plan(self) -> ImportPlan:
        """Return the plan. Raises `InvalidFile`."""
        tasks = [self._task(row, key) for row, key in zip(self._table.rows, self._keys, strict=True)]
        if self._faults:
            raise InvalidFile(self._faults)
        meanings = {name: meaning for meaning, name in self._chosen.items()}
        filled = {name for row in self._table.rows for name, cell in row.cells.items() if cell}
        became = [
            PlannedField(name, meanings.get(name, "field") if name in filled else "nothing", list(self._kept[name]))
            for name in self._table.names
            if not (self._table.is_own and name in READ_HERE)
        ]
        return self._made.plan(self._title, tasks, "column", remarks=self._table.remarks, fields=became)

    def _text(self, row: TableRow, meaning: str) -> str:
        return row.cells.get(self._chosen[meaning], "") if meaning in self._chosen else ""

    def _keys_of_rows(self) -> list[str]:
        """Return a key for each row, based on its ID or else on its title and its number among rows with that title."""
        keys = []
        lines: dict[str, int] = {}
        for row in self._table.rows:
            row_id = self._text(row, "id")
            if row_id and row_id in lines:
                self._fault(row, "id", compose("“{}” is also the ID of line {}", shown(row_id), lines[row_id]))
            lines.setdefault(row_id, row.line)
            named = f"id {row_id[:255]}" if row_id else title_of(self._text(row, "title"))
            keys.append(self._made.key_of(f"task:{self._title}/{named}"))
        return keys

    def _keys_by_name(self) -> dict[str, str | None]:
        """Return keys by ID and by title. Titles shared by several rows map to None."""
        found: dict[str, str | None] = {}
        for row, key in zip(self._table.rows, self._keys, strict=True):
            title = self._text(row, "title")
            found[title] = None if title in found else key
        for row, key in zip(self._table.rows, self._keys, strict=True):
            found[self._text(row, "id")] = key
        found.pop("", None)
        return found

    def _fault(self, row: TableRow, name: str, message: str) -> None:
        """Add a fault, up to `FAULTS_MAX`. `name` is that of a field, or its meaning."""
        if len(self._faults) < FAULTS_MAX:
            field = shown(self._chosen.get(name, name))
            self._faults.append(compose("line {}, field {}: {}", row.line, field, message))

    def _task(self, row: TableRow, key: str) -> PlannedTask:
        text = partial(self._text, row)
        warn = ThingWarnings("task", text("title"), self._made.warnings)
        column = self._made.column(self._column_text(row))
        finished, finished_at = self._completed(row)
        priority = level_of(text("priority"))
        left = ["priority"] if text("priority") and (priority is None or says_more(text("priority"))) else []
        parent_key = self._by_name.get(text("parent"))
        left += ["parent"] if text("parent") and parent_key is None else []
        for meaning in left:
            kept = self._kept[self._chosen[meaning]]
            if len(kept) < NAMES_SHOWN:
                kept[shown(text(meaning))] = None
        people = [Person("", each, each) for each in self._list(text("assignee"))]
        own = self._own(row)
        elsewhere = {name for meaning, name in self._chosen.items() if meaning not in left}
        elsewhere |= READ_HERE | {"parent_id"} if self._table.is_own else set()
        others = ((title_of(name), cell) for name, cell in row.cells.items() if name not in elsewhere)
        return PlannedTask(
            key=key,
            column_key=column.key,
            title=title_of(text("title")),
            description=described("title", text("title"), text("description"), warn),
            deadline=self._moment(row, "due"),
            labels=first_of([title_of(each) for each in self._list(text("labels"))], LABELS_MAX, say("labels"), warn),
            fields={**own.pop("fields", {}), **PropertyBudget(warn).fields(others)},
            members=first_of(people, PEOPLE_MAX, say("people"), warn),
            finished=finished or column.completes,
            finished_at=finished_at,
            created_at=self._moment(row, "created"),
            priority=priority,
            estimate_ms=self._estimate(row),
            parent_key=parent_key,
            blocked_by=[self._by_name.get(each) or each for each in self._list(text("blocked_by"))],
            **own,
        )

    def _list(self, cell: str) -> list[str]:
        """Return the names in a cell.

        A Workhook export has JSON or one name per line. Other tables may use any of the usual separators.
        """
        separator = "\n" if self._table.is_own else next((each for each in ("\n", ";", ",") if each in cell), "\n")
        texts: list[str] = cell.split(separator)
        if self._table.is_own and cell.startswith("["):
            with suppress(Malformed, msgspec.ValidationError):
                texts = msgspec.convert(json.decode_untrusted(cell.encode()), list[str])
        return list(dict.fromkeys(name for each in texts if (name := one_line(each))))

    def _own(self, row: TableRow) -> dict[str, Any]:
        """Return the values that only a Workhook export contains, by the names of the task's fields."""
        values = dict[str, Any]()
        for name in (*_AS_JSON, *_AS_TEXT) if self._table.is_own else ():
            cell = row.cells.get(name)
            if not cell:
                continue
            try:
                value = json.decode_untrusted(cell.encode()) if name in _AS_JSON else cell
                wrong = parameters.fault_of(TaskCreate, name, value)
            except Malformed:
                wrong = "it is not JSON"
            if wrong:
                self._fault(row, name, wrong)
            elif value is not None:
                values[name] = value
        return values

    def _column_text(self, row: TableRow) -> str:
        """Return the row's column. A subtask without one is in its parent's column, as in Asana."""
        seen: set[int] = set()
        at: TableRow | None = row
        while at is not None and at.line not in seen:
            if found := self._text(at, "column"):
                return found
            seen.add(at.line)
            at = self._by_key.get(self._by_name.get(self._text(at, "parent")) or "")
        return ""

    def _moment(self, row: TableRow, meaning: str) -> int | None:
        text = self._text(row, meaning)
        found = day_or_moment(text)
        if text and found is None:
            wrong = "“{}” is not a date; use 2026-11-20, 20.11.2026, or 2026-11-20T17:00:00Z"
            self._fault(row, meaning, compose(wrong, shown(text)))
        return found

    def _completed(self, row: TableRow) -> tuple[bool, int | None]:
        """Return whether the task is completed and, if known, when."""
        text = self._text(row, "completed")
        if text.casefold() in NO:
            return False, None
        if text.casefold() in YES:
            return True, None
        found = day_or_moment(text)
        if found is None:
            wrong = "“{}” is not yes, no, or a date such as 2026-11-20 or 20.11.2026"
            self._fault(row, "completed", compose(wrong, shown(text)))
        return True, found

    def _estimate(self, row: TableRow) -> int | None:
        text = self._text(row, "estimate")
        if not text:
            return None
        words = header_key(self._chosen["estimate"]).split()
        unit = next((unit for unit, names in _UNITS.items() if any(each in names for each in words)), None)
        try:
            found = typed_duration_ms(text, unit)
        except AmbiguousNumber:
            found = None
        if found is None or found > ESTIMATE_MAX_MS:
            wrong = compose("“{}” is not a valid estimate; use 1h 30m or 1:30", shown(text))
            self._fault(row, "estimate", wrong)
        return found


_UNITS = {HOUR_MS: HOURS, MINUTE_MS: MINUTES}


def day_or_moment(text: str) -> int | None:
    """Return the time of a day or moment in milliseconds since the epoch, or None for other text.

    Accepts ISO 8601, also with a space and without a zone (UTC), and dotted dates with the day first, such as
    `31.12.2026` and `4.12.26 17:00`. Ambiguous dates such as `1/2/2026` are not accepted.
    """
    if found := _DAY_FIRST.fullmatch(text):
        day, month, year, hour, minute, seconds = found.groups()
        text = f"{year if len(year) == 4 else '20' + year}-{int(month):02}-{int(day):02}"
        text += f"T{int(hour):02}:{minute}{seconds or ':00'}Z" if hour else ""
    elif found := _LOCAL_TIME.fullmatch(text):
        text = f"{found[1]}T{found[2]}{found[3] or ':00'}Z"
    return parse_moment(text)
