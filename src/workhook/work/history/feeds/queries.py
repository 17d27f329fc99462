"""What a calendar feed shows: open tasks with a deadline, the first that are due coming first.

A task that was due long ago and is still open does not fill the calendar: it begins some weeks back.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.identity.schemas import Account, Repository
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.board.tasks.assigned import list_assigned_due
from workhook.work.board.tasks.schemas import LATER_THAN_ALL, columns, tasks
from workhook.work.kernel.access import Access

TASKS_MAX = 1_000
LOOKS_AT_MOST = 4_000
"""Of a project's tasks with a deadline, finished or not."""
BACK_MS = 31 * DAY_MS


class DueTask(msgspec.Struct, frozen=True):
    """`deadline` and `updated_at`: milliseconds since the epoch. `project` and `column` are titles; `path` leads to the
    task's page."""

    id: str
    title: str
    deadline: int
    updated_at: int
    project: str
    column: str
    path: str


# As the index of the list by deadline has it.
_due = sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(LATER_THAN_ALL), sa.BigInteger))
_first = (
    sa.select(tasks.c.id, _due.label("due"))
    .where(
        tasks.c.repository_id == big("repository_id"),
        tasks.c.deleted_at.is_(None),
        _due >= big("since"),
        _due < sa.literal_column(str(LATER_THAN_ALL), sa.BigInteger),
    )
    .order_by(_due, tasks.c.id)
    .limit(big("looks_at"))
    .subquery("first_due")
)
_of_project = (
    sa.select(
        *(tasks.c[name] for name in ("id", "title", "deadline", "updated_at")), columns.c.title.label("column_title")
    )
    .select_from(_first.join(tasks, tasks.c.id == _first.c.id).join(columns, columns.c.id == tasks.c.column_id))
    .where(tasks.c.completed_at.is_(None))
    .order_by(_first.c.due, tasks.c.id)
    .limit(big("limit"))
)


async def list_project_due(reader: Reader, access: Access, now: int) -> list[DueTask]:
    """Of one project, as the caller sees it. `now`: milliseconds since the epoch."""
    params = {
        "repository_id": access.repository.id,
        "since": _since(now),
        "limit": TASKS_MAX,
        "looks_at": LOOKS_AT_MOST,
    }
    return [
        DueTask(
            row["id"],
            row["title"],
            row["deadline"],
            row["updated_at"],
            access.repository.title,
            row["column_title"],
            _path(access.repository, row["id"]),
        )
        for row in await reader.fetch_all(_of_project, params)
    ]


async def list_own_due(reader: Reader, user: Account, now: int) -> list[DueTask]:
    """Of what is assigned to the user, in projects that they see and that are not archived."""
    found = await list_assigned_due(reader, user, _since(now), TASKS_MAX)
    return [
        DueTask(
            task.id,
            task.title,
            task.deadline,
            task.updated_at,
            task.repository.title,
            task.column,
            _path(task.repository, task.id),
        )
        for task in found
        if task.deadline is not None
    ]


def _since(now: int) -> int:
    return (now - BACK_MS) // DAY_MS * DAY_MS


def _path(repository: Repository, task_id: str) -> str:
    return f"/{quote(repository.full_name)}/tasks/{quote(task_id)}"
