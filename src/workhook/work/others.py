"""What others have done stays when a client deletes what is its own: before that, it is asked here whether they have.

The refusal says the same whatever was found: a client does not learn of private comments or of time.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.core.errors import Conflict
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.access import Access
from workhook.work.comments.tables import file_comment_replies, file_comments, task_comments
from workhook.work.timesheets.schemas import timesheets

_of_tasks = sa.union_all(
    sa.select(task_comments.c.task_id).where(
        any_of(task_comments.c.task_id, "task_ids"), task_comments.c.user_id != big("user_id")
    ),
    sa.select(timesheets.c.task_id).where(
        any_of(timesheets.c.task_id, "task_ids"), timesheets.c.user_id != big("user_id")
    ),
)
_of_file = sa.union_all(
    sa.select(file_comments.c.file_id).where(
        file_comments.c.file_id == sa.bindparam("file_id"), file_comments.c.user_id != big("user_id")
    ),
    sa.select(file_comments.c.file_id)
    .join_from(file_comments, file_comment_replies, file_comment_replies.c.file_comment_id == file_comments.c.id)
    .where(file_comments.c.file_id == sa.bindparam("file_id"), file_comment_replies.c.user_id != big("user_id")),
)


async def require_none_on_tasks(tx: Transaction, access: Access, names: Mapping[str, str]) -> None:
    """Before tasks of one project are deleted, which are locked. `names`: what the message calls each, by its id.

    Raises `Conflict` for a client.
    """
    if access.is_client and names:
        params = {"task_ids": sorted(names), "user_id": access.user.id}
        found = {row["task_id"] for row in await tx.fetch_all(_of_tasks, params)}
        _refuse([name for task_id, name in names.items() if task_id in found])


async def require_none_on_file(tx: Transaction, access: Access, file_id: str) -> None:
    """Before a file is deleted, which is locked. Raises `Conflict` for a client."""
    if access.is_client:
        row = await tx.fetch_one(_of_file, {"file_id": file_id, "user_id": access.user.id})
        _refuse(["The file"] if row is not None else [])


def _refuse(names: list[str]) -> None:
    if names:
        why = f"{names[0]}: others have worked on it, so a client cannot delete it"
        raise Conflict(f"{why}; ask a member of the team to delete it.", code="worked_on")
