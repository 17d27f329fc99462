"""Related tasks, deadlines and other facts about tasks for pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Literal

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.core.zones import end_of
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
    """Find the tasks that are in the project and not in the trash, by their ids."""
    if not ids:
        return {}
    rows = await reader.fetch_all(_named, {"ids": sorted(ids), "repository_id": repository_id})
    return {row["id"]: RelatedTask(row["id"], row["title"], row["completed_at"] is not None) for row in rows}


Urgency = Literal["", "warn", "bad"]
"""`bad`: overdue. `warn`: due within a day. Empty: due later, without a deadline, or completed."""


def urgency(deadline: int | None, *, is_completed: bool, now: int, zone: tzinfo) -> Urgency:
    """Return how urgent a task is. `deadline` and `now` are milliseconds; a deadline that is a day ends with the day in
    the zone."""
    if deadline is None or is_completed:
        return ""
    left = end_of(deadline, zone) - now
    return "bad" if left <= 0 else "warn" if left <= DAY_MS else ""


_any = sa.select(tasks.c.id).limit(1)


async def has_any_task(reader: Reader) -> bool:
    """Tell whether the server has any task, the trash included."""
    return await reader.fetch_one(_any) is not None
