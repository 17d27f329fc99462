"""Whether the server has any task at all."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage import Reader
from workhook.work.board.tasks.schemas import tasks

_any = sa.select(tasks.c.id).limit(1)


async def has_any_task(reader: Reader) -> bool:
    """Of any project, those in the trash too."""
    return await reader.fetch_one(_any) is not None
