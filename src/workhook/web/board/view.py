"""Reading a board with the visitor's rights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from workhook.core.clock import DAY_MS, now_ms, parse_rfc3339
from workhook.core.zones import end_of
from workhook.storage import Reader
from workhook.web.frame.formats import hue, reader_zone
from workhook.work.board import columns
from workhook.work.board.projects.schemas import find_label_colors
from workhook.work.board.tasks import column_tasks
from workhook.work.board.tasks.schemas import Column, Urgency, urgency
from workhook.work.discussion.schemas import count_on_tasks, task_comments
from workhook.work.files import schemas as file_schemas
from workhook.work.kernel.access import Access
from workhook.work.time.timesheets.queries import list_running

CARDS_MAX = 1000  # per column
TIMERS_MAX = 200
DUE_SOON_DAYS = 7
FILTERS = ("q", "assignee", "label", "priority", "due")
TICKED, ITEM = "complete", ("complete", "incomplete")


class BoardCard(msgspec.Struct, frozen=True):
    """A task on the board, as the API returns it.

    `state` is its urgency. `labels` are pairs of name and hue. It has `items` checklist items, of which `ticked` are
    done. `runs` is true if a timer is running.
    """

    task: Any
    deadline: int | None
    state: Urgency
    labels: Sequence[tuple[str, int]]
    comments: int
    files: int
    ticked: int
    items: int
    runs: bool


class BoardColumn(msgspec.Struct, frozen=True):
    """A column and its cards that match the filters.

    `count` includes cards that don't match. `more` is true if the column has more than `CARDS_MAX` cards.
    """

    column: Column
    cards: Sequence[BoardCard]
    count: int
    more: bool


class BoardView(msgspec.Struct, frozen=True):
    columns: Sequence[BoardColumn]

    @property
    def count(self) -> int:
        return sum(each.count for each in self.columns)

    @property
    def shown(self) -> int:
        return sum(len(each.cards) for each in self.columns)


async def read_board(reader: Reader, access: Access, filters: Mapping[str, str]) -> BoardView:
    """Return all columns of the project with the cards that match `filters`."""
    found = await columns.list_board_columns(reader, access.repository.id)
    read = await asyncio.gather(*(_read_tasks(reader, access, column) for column in found))
    now = now_ms()
    fitting = [[task for task in tasks if fits(task, filters, now)] for tasks, _ in read]
    ids = [task.id for tasks in fitting for task in tasks]
    comments, files, colors = await asyncio.gather(
        count_on_tasks(reader, access, task_comments, ids),
        count_on_tasks(reader, access, file_schemas.files, ids),
        find_label_colors(reader, access.repository.id),
    )
    running = set() if access.is_client else await _running(reader, access)
    return BoardView(
        [
            BoardColumn(
                column, [_card(task, comments, files, colors, running, now) for task in shown], len(tasks), more
            )
            for column, (tasks, more), shown in zip(found, read, fitting, strict=True)
        ]
    )


async def _read_tasks(reader: Reader, access: Access, column: Column) -> tuple[Sequence[Any], bool]:
    """Return the column's tasks as the API does, and whether there are more than `CARDS_MAX`."""
    read = await column_tasks.read_column(reader, access.actor, column.id, after=None, limit=CARDS_MAX + 1)
    tasks = await column_tasks.to_responses(reader, read, read.rows[:CARDS_MAX])
    return tasks, len(read.rows) > CARDS_MAX or read.cut


async def _running(reader: Reader, access: Access) -> set[str]:
    """Return the IDs of the tasks with a running timer."""
    return {each.task.id for each in await list_running(reader, access, limit=TIMERS_MAX) if each.task is not None}


def _card(
    task: Any,
    comments: Mapping[str, int],
    files: Mapping[str, int],
    colors: Mapping[str, str],
    running: set[str],
    now: int,
) -> BoardCard:
    deadline = None if task.deadline is None else parse_rfc3339(task.deadline)
    ticks = [value for items in task.sections.values() for value in items.values() if value in ITEM]
    return BoardCard(
        task,
        deadline,
        urgency(deadline, is_completed=task.completed_at is not None, now=now, zone=reader_zone()),
        labels=[(label, hue(label, colors)) for label in task.labels],
        comments=comments.get(task.id, 0),
        files=files.get(task.id, 0),
        ticked=ticks.count(TICKED),
        items=len(ticks),
        runs=task.id in running,
    )


# --- filters ----------------------------------------------------------------------------------------------------------


def fits(task: Any, filters: Mapping[str, str], now: int) -> bool:
    """Return whether a task, as the API returns it, matches the filters."""
    for name, value in filters.items():
        if name == "q" and value.casefold() not in task.title.casefold():
            return False
        if name == "assignee" and value not in [person.login for person in task.assignees]:
            return False
        if name == "label" and value not in task.labels:
            return False
        if name == "priority" and value != (task.priority or "none"):
            return False
        if name == "due" and not _is_due(task, value, now):
            return False
    return True


def _is_due(task: Any, span: str, now: int) -> bool:
    """Return whether the deadline is in `span`: `none`, `overdue` or `week`. Any other span matches."""
    if span == "none":
        return task.deadline is None
    if span not in ("overdue", "week"):
        return True
    if task.deadline is None or task.completed_at is not None:
        return False
    ends = end_of(parse_rfc3339(task.deadline), reader_zone())
    return ends <= now if span == "overdue" else ends <= now + DUE_SOON_DAYS * DAY_MS
