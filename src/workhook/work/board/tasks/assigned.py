"""The tasks assigned to a person, across all projects.

People who have left a project may still be assigned to its tasks, so each task is read together with its project, if
the person can still see that. Only the person's newest assignments are read, so a page costs the same for people who
have finished tens of thousands of tasks.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.identity.queries import repository_of
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import projects
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.schemas import LATER_THAN_ALL, Level, columns, task_assignees, tasks
from workhook.work.kernel.access import is_client, is_insider, with_access

ASSIGNMENTS_MAX = 4_000
"""The maximum number of a person's assignments that are read, newest first, whether finished or not."""


class AssignedTask(msgspec.Struct, frozen=True):
    """A task in a list of assigned tasks. `deadline` and `updated_at` are in milliseconds since the epoch."""

    id: str
    title: str
    priority: Level | None
    deadline: int | None
    updated_at: int
    column: str
    repository: Repository


_person = bigint_param("user_id")
_newest = (
    sa.select(task_assignees.c.task_id)
    .where(task_assignees.c.user_id == _person)
    .order_by(task_assignees.c.task_id.desc())
    .limit(bigint_param("looks_at"))
    .subquery("newest")
)
_due = sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(LATER_THAN_ALL)))
_of_newest = (
    with_access(
        sa.select(
            *(tasks.c[name].label(f"task_{name}") for name in ("id", "title", "priority", "deadline", "updated_at")),
            columns.c.title.label("column_title"),
        )
        .select_from(_newest.join(tasks, tasks.c.id == _newest.c.task_id))
        .join(columns, columns.c.id == tasks.c.column_id)
        .where(tasks.c.deleted_at.is_(None)),
        tasks.c.repository_id,
    )
    .where(projects.c.archive.is_(sa.false()), sa.or_(is_insider(_person), is_client))
    .limit(bigint_param("limit"))
)
_open = _of_newest.where(tasks.c.completed_at.is_(None)).order_by(_due, tasks.c.id)
_finished = _of_newest.where(tasks.c.completed_at.is_not(None)).order_by(tasks.c.completed_at.desc(), tasks.c.id)
_open_due = _open.where(tasks.c.deadline >= bigint_param("due_since"))


async def list_assigned(
    reader: Reader, user: Account, limit: int, *, finished: bool = False, due_since: int | None = None
) -> list[AssignedTask]:
    """List open tasks in unarchived projects that the user can see. Tasks without a deadline come last.

    With `due_since`, list only those whose deadline is at or after it. With `finished`, list finished tasks instead,
    most recently finished first.
    """
    statement = _finished if finished else _open if due_since is None else _open_due
    params = {"user_id": user.id, "limit": limit, "looks_at": ASSIGNMENTS_MAX, "due_since": due_since}
    return [
        AssignedTask(
            id=row["task_id"],
            title=row["task_title"],
            priority=row["task_priority"],
            deadline=row["task_deadline"],
            updated_at=row["task_updated_at"],
            column=row["column_title"],
            repository=repository_of(row, user.id, "project_"),
        )
        for row in await reader.fetch_all(statement, params)
    ]
