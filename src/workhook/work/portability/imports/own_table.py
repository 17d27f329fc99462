"""What only the table of tasks has that Workhook exports itself: lists, checklists, fields and rules in their cells."""

from __future__ import annotations

from typing import Any, NamedTuple

from workhook.core import json
from workhook.core.errors import Malformed
from workhook.core.text import one_line
from workhook.http import parameters
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.portability.imports.csv_file import TableRow

READ_HERE = frozenset(
    {"number", "updated_at", "estimate_hours", "hourly_rate", "billable", "fields", "sections", "repeat", "cover_url"}
)
"""Columns that become no field of the task: they are read here, or counted anew. Rates are left out: clients would see
them in a field."""
_AS_JSON = ("fields", "sections", "billable")


class OwnValues(NamedTuple):
    """`faults`: by the column, what is wrong with its cell."""

    fields: dict[str, str]
    sections: dict[str, dict[str, str]]
    repeat: str | None
    cover_url: str | None
    billable: bool | None
    faults: dict[str, str]


NOTHING_OWN = OwnValues({}, {}, None, None, None, {})


def own_values(row: TableRow) -> OwnValues:
    values: dict[str, Any] = {}
    faults = {}
    for name in (*_AS_JSON, "repeat", "cover_url"):
        cell = row.cells.get(name)
        if not cell:
            continue
        try:
            values[name] = json.decode_untrusted(cell.encode()) if name in _AS_JSON else cell
        except Malformed:
            faults[name] = "it is not JSON"
            continue
        if wrong := parameters.fault_of(TaskCreate, name, values[name]):
            faults[name] = wrong
    return OwnValues(
        values.get("fields", {}),
        values.get("sections", {}),
        values.get("repeat"),
        values.get("cover_url"),
        values.get("billable"),
        faults,
    )


def listed(cell: str) -> list[str]:
    """The names in a cell: one a line, or JSON."""
    texts: list[str] = cell.split("\n")
    if cell.startswith("["):
        try:
            found = json.decode_untrusted(cell.encode())
        except Malformed:
            found = None
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            texts = found
    return [name for each in texts if (name := one_line(each))]
