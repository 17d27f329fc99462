"""Export tasks as CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from operator import attrgetter

from workhook.core import json
from workhook.core.clock import SECOND_MS, to_millis_text
from workhook.core.money import amount_text
from workhook.core.zones import is_day
from workhook.http.lists import WHOLE_LIST_MAX, Key, Rows
from workhook.storage import Reader
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.inputs import PLAIN_FIELDS
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.csv_tables import Cell, encode_rows, write_rows
from workhook.work.kernel.durations import hours_text
from workhook.work.kernel.lists import iterate_pages
from workhook.work.kernel.scopes import Source


def _deadline(at_ms: int | None) -> str | None:
    """Format a deadline. A day is written without a time, so that an import reads it back as the same day."""
    if at_ms is None:
        return None
    text = to_millis_text(at_ms)
    return text[:10] if is_day(at_ms) else text


def _duration(milliseconds: int) -> str:
    """Format a duration exactly, as `1:30:00`; `hours_text` would round it to two decimal places."""
    minutes, seconds = divmod(milliseconds // SECOND_MS, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _list_cell(texts: Sequence[str]) -> str:
    """Join the texts with line breaks, or encode them as JSON if that would be ambiguous."""
    cell = "\n".join(texts)
    return json.encode_text(texts) if cell.startswith("[") or any(set("\r\n") & set(each) for each in texts) else cell


_CELLS: dict[str, Callable[[Task], Cell]] = {
    "id": lambda task: task.id,
    "number": lambda task: task.number,
    "title": lambda task: task.title,
    "column": lambda task: task.column.title,
    "priority": lambda task: task.priority,
    "deadline": lambda task: _deadline(task.deadline),
    "assignees": lambda task: "\n".join(person.login for person in task.assignees),
    "labels": lambda task: _list_cell(json.decode(task.labels)),
    "estimate_hours": lambda task: None if task.estimate_ms is None else hours_text(task.estimate_ms),
    "hourly_rate": lambda task: (
        None if task.hourly_rate_minor is None else amount_text(task.hourly_rate_minor, task.project.currency)
    ),
    "billable": lambda task: task.billable,
    "completed_at": lambda task: None if task.completed_at is None else to_millis_text(task.completed_at),
    "created_at": lambda task: to_millis_text(task.created_at),
    "updated_at": lambda task: to_millis_text(task.updated_at),
    "description": lambda task: task.description,
    "parent_id": lambda task: task.parent_id,
    "repeat": lambda task: task.repeat,
    "estimate": lambda task: None if task.estimate_ms is None else _duration(task.estimate_ms),
    "blocked_by": lambda task: "\n".join(task.blocked_by),
    "cover_url": lambda task: task.cover_url,
    "fields": lambda task: "" if task.fields == "{}" else task.fields,
    "sections": lambda task: "" if task.sections == "{}" else task.sections,
}
CELLS: Mapping[str, Callable[[Task], Cell]] = {
    **_CELLS,
    **{name: attrgetter(name) for name in PLAIN_FIELDS if name not in _CELLS},
}
"""The columns of the table and the functions that return their cells.

Usernames and labels share one cell each, one per line. An import reads all columns (`imports.csv_tasks`) except those
that it computes.
"""


def cells_of(task: Task) -> list[Cell]:
    return [cell(task) for cell in CELLS.values()]


async def whole_table(
    reader: Reader, source: Source, filters: Mapping[str, object], *, sort: str
) -> AsyncIterator[bytes]:
    """Iterate over the CSV of all tasks that match `filters` (`listing.filters_of`), one page at a time."""

    async def ask(after: Key | None) -> Rows[Task]:
        return await listing.list_tasks(reader, source, filters, sort=sort, after=after, limit=WHOLE_LIST_MAX)

    yield encode_rows([tuple(CELLS)])
    async for page in iterate_pages(ask, await ask(None)):
        yield await write_rows(map(cells_of, page))
