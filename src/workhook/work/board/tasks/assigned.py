"""The tasks that are assigned to somebody, in whatever project: what is due first comes first.

Who has lost their place in a project may still be on its tasks. So each task is asked for together with its project, as
the person may see it now. Of everything that was ever assigned to the person only the newest are looked at, so that a
page costs the same for somebody who has finished tens of thousands.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.identity.queries import repository_of
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.board.tasks.field_types import Level
from workhook.work.board.tasks.schemas import LATER_THAN_ALL, columns, task_assignees, tasks
from workhook.work.kernel.access import is_client, is_insider, with_access

LOOKS_AT_MOST = 4_000
"""Of the newest that were assigned to the person, finished or not."""


class AssignedTask(msgspec.Struct, frozen=True):
    """`deadline` and `updated_at`: milliseconds since the epoch."""

    id: str
    title: str
    priority: Level | None
    deadline: int | None
    updated_at: int
    column: str
    repository: Repository


_person = big("user_id")
_newest = (
    sa.select(task_assignees.c.task_id)
    .where(task_assignees.c.user_id == _person)
    .order_by(task_assignees.c.task_id.desc())
    .limit(big("looks_at"))
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
    .limit(big("limit"))
)
_open = _of_newest.where(tasks.c.completed_at.is_(None)).order_by(_due, tasks.c.id)
_finished = _of_newest.where(tasks.c.completed_at.is_not(None)).order_by(tasks.c.completed_at.desc(), tasks.c.id)
_open_due = _open.where(tasks.c.deadline >= big("due_since"))


async def list_assigned(reader: Reader, user: Account, limit: int) -> list[AssignedTask]:
    """Open tasks of projects that the user sees and that are not archived. Those without a deadline come last."""
    params = {"user_id": user.id, "limit": limit, "looks_at": LOOKS_AT_MOST}
    return [_assigned_of(row, user) for row in await reader.fetch_all(_open, params)]


async def list_assigned_finished(reader: Reader, user: Account, limit: int) -> list[AssignedTask]:
    """As `list_assigned`, but finished ones, the last that was finished first."""
    params = {"user_id": user.id, "limit": limit, "looks_at": LOOKS_AT_MOST}
    return [_assigned_of(row, user) for row in await reader.fetch_all(_finished, params)]


async def list_assigned_due(reader: Reader, user: Account, since: int, limit: int) -> list[AssignedTask]:
    """`list_assigned`, but only those whose deadline is at `since` or later."""
    params = {"user_id": user.id, "limit": limit, "looks_at": LOOKS_AT_MOST, "due_since": since}
    return [_assigned_of(row, user) for row in await reader.fetch_all(_open_due, params)]


def _assigned_of(row: Row, user: Account) -> AssignedTask:
    return AssignedTask(
        id=row["task_id"],
        title=row["task_title"],
        priority=row["task_priority"],
        deadline=row["task_deadline"],
        updated_at=row["task_updated_at"],
        column=row["column_title"],
        repository=repository_of(row, user.id, "project_"),
    )
