"""The tasks that a form offers: those that changed last, or those that have the words somebody searched for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from workhook.core.errors import NotFound
from workhook.web.frame.places import Visit
from workhook.work.board.tasks import actions, listing
from workhook.work.board.tasks.matching import QUERY_MAX_CHARS, words_of
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.access import Access

OPEN_MAX, FINISHED_MAX = 200, 100
FIELD = "task_q"


class TaskChoice(NamedTuple):
    """`asked`: the words that were searched for. `more`: there are tasks that are not offered."""

    asked: str
    tasks: Sequence[Task]
    finished: Sequence[Task] = ()
    more: bool = False

    @property
    def found(self) -> bool:
        return bool(self.tasks or self.finished)


def words_asked(visit: Visit) -> tuple[str, str]:
    """Return the search for tasks in the address, as it was typed and as words (`words_of`)."""
    asked = visit.query(FIELD).strip()[:QUERY_MAX_CHARS]
    return asked, words_of(asked)


async def offer_tasks(visit: Visit, access: Access, chosen: str = "", *, finished: bool = True) -> TaskChoice:
    """Return the open tasks of a project, and the `finished` ones. `chosen` is offered in any case."""
    (open_tasks, more_open), (done, more_done) = await asyncio.gather(
        _find(visit, access, finished=False, limit=OPEN_MAX),
        _find(visit, access, finished=True, limit=FINISHED_MAX if finished else 0),
    )
    if chosen and all(each.id != chosen for each in (*open_tasks, *done)):
        with suppress(NotFound):
            project_id = access.repository.project_id
            task = await actions.get_task(visit.database, visit.actor, chosen, project_id=project_id)
            (open_tasks if task.completed_at is None else done).append(task)
    return TaskChoice(words_asked(visit)[0], open_tasks, done, more_open or more_done)


async def _find(visit: Visit, access: Access, *, finished: bool, limit: int) -> tuple[list[Task], bool]:
    """Return the tasks that changed last, and whether there are more."""
    asked, words = words_asked(visit)
    if not limit or (asked and not words):
        return [], False
    wanted = {"finished": finished, **({"q": words} if words else {})}
    page = await listing.list_tasks(visit.database, access, wanted, sort="-updated_at", after=None, limit=limit + 1)
    found = [task for task, _ in page.tasks]
    return found[:limit], len(found) > limit or page.cut or page.last_seen is not None
