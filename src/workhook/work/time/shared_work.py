"""Checks that clients do not delete anything that others have worked on.

The error is the same for all kinds of work, so a client does not learn of private comments or time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from workhook.core.errors import Conflict, compose
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.kernel.access import Access
from workhook.work.time.timesheets.schemas import timesheets


def _by_others(thing_id: sa.ColumnElement[Any], table: sa.Table, joined: sa.FromClause | None = None) -> sa.Select[Any]:
    """Select the IDs (of the parameter `ids`) for which the table has rows by others."""
    found = sa.select(thing_id.label("id")).where(any_of(thing_id, "ids"), table.c.user_id != bigint_param("user_id"))
    return found if joined is None else found.select_from(joined)


_on_tasks = sa.union_all(*(_by_others(table.c.task_id, table) for table in (task_comments, timesheets)))
_replied = file_comments.join(file_comment_replies, file_comment_replies.c.file_comment_id == file_comments.c.id)
_on_files = sa.union_all(
    _by_others(file_comments.c.file_id, file_comments),
    _by_others(file_comments.c.file_id, file_comment_replies, _replied),
)


async def require_none_on_tasks(tx: Transaction, access: Access, names: Mapping[str, str]) -> None:
    """Raise `Conflict` if a client is about to delete tasks that others have worked on.

    Call this before deleting locked tasks of one project. `names` maps task IDs to their names in messages.
    """
    if access.is_client and names:
        rows = await tx.fetch_all(_on_tasks, {"ids": sorted(names), "user_id": access.user.id})
        found = {row["id"] for row in rows}
        _refuse([name for task_id, name in names.items() if task_id in found])


async def require_none_on_file(tx: Transaction, access: Access, file_id: str) -> None:
    """Raise `Conflict` if a client is about to delete a file that others have worked on. The file must be locked."""
    if access.is_client and await tx.fetch_one(_on_files, {"ids": [file_id], "user_id": access.user.id}):
        _refuse(["The file"])


def _refuse(names: list[str]) -> None:
    if names:
        sentence = "{}: others have worked on it, so a client cannot delete it; ask a team member to delete it."
        raise Conflict(compose(sentence, names[0]), code="worked_on")
