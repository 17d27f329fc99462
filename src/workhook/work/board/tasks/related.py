"""The tasks that a task has to do with, for its page: by their titles, and whether they are completed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import sqlalchemy as sa

from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.board.tasks.schemas import tasks

_named = sa.select(tasks.c.id, tasks.c.title, tasks.c.completed_at).where(
    any_of(tasks.c.id, "ids"), tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None)
)


class RelatedTask(msgspec.Struct, frozen=True):
    id: str
    title: str
    is_completed: bool


async def find_related(reader: Reader, repository_id: int, ids: Collection[str]) -> Mapping[str, RelatedTask]:
    """Those of the tasks that are in the project and not in the trash, by their ids."""
    if not ids:
        return {}
    rows = await reader.fetch_all(_named, {"ids": sorted(ids), "repository_id": repository_id})
    return {row["id"]: RelatedTask(row["id"], row["title"], row["completed_at"] is not None) for row in rows}
