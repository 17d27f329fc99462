"""How many comments tasks have."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.work.discussion.comments.schemas import task_comments
from workhook.work.kernel.access import Access

_counted = (
    sa.select(task_comments.c.task_id, sa.func.count().label("comments"))
    .where(any_of(task_comments.c.task_id, "task_ids"))
    .group_by(task_comments.c.task_id)
)
_counted_open = _counted.where(task_comments.c.private.is_(sa.false()))


async def count_on_tasks(reader: Reader, access: Access, task_ids: Sequence[str]) -> dict[str, int]:
    """The number of comments by the task's id, of tasks that have any; a client's without the private ones. The tasks
    are of the project of `access`."""
    statement = _counted_open if access.is_client else _counted
    rows = await reader.fetch_all(statement, {"task_ids": task_ids})
    return {row["task_id"]: row["comments"] for row in rows}
