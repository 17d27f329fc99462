"""The values offered when editing a task: people who can see the project, and labels of its tasks."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from workhook.core import json
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks import assignees
from workhook.work.board.tasks.schemas import tasks
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import PersonShape, person_of_row

PEOPLE_MAX = 500
LABELS_MAX = 200
RECENT_TASKS_MAX = 2000  # number of most recently changed tasks to scan

_people = assignees.people_of_project.limit(PEOPLE_MAX)
_team_and_caller = assignees.team_and_caller.limit(PEOPLE_MAX)
_team = assignees.team_of_project.limit(PEOPLE_MAX)
_last = (
    sa.select(tasks.c.labels)
    .where(tasks.c.repository_id == bigint_param("repository_id"), tasks.c.deleted_at.is_(None))
    .order_by(tasks.c.updated_at.desc(), tasks.c.id.desc())
    .limit(RECENT_TASKS_MAX)
    .subquery("last")
)
_labels = sa.select(_last.c.labels, sa.func.count().label("tasks")).group_by(_last.c.labels)


async def list_people(reader: Reader, access: Access) -> list[PersonShape]:
    """List the people whom the caller can assign, oldest account first, at most `PEOPLE_MAX`.

    Clients see only the team and themselves.
    """
    params = {"repository_id": access.repository.id}
    if access.is_client:
        rows = await reader.fetch_all(_team_and_caller, {**params, "caller_id": access.user.id})
    else:
        rows = await reader.fetch_all(_people, params)
    return [person_of_row(row) for row in rows]


async def list_team(reader: Reader, access: Access) -> list[PersonShape]:
    """List the project's people except its clients, oldest account first, at most `PEOPLE_MAX`. Not for clients."""
    rows = await reader.fetch_all(_team, {"repository_id": access.repository.id})
    return [person_of_row(row) for row in rows]


class Labels(list[str]):
    """Labels in alphabetical order. `is_complete` is true if the tasks have no others."""

    is_complete = True


async def list_labels(reader: Reader, access: Access) -> Labels:
    """Return the most frequent labels of the `RECENT_TASKS_MAX` most recently changed tasks, at most `LABELS_MAX`."""
    rows = await reader.fetch_all(_labels, {"repository_id": access.repository.id})
    number: Counter[str] = Counter()
    for row in rows:
        for label in json.decode(row["labels"]):
            number[label] += row["tasks"]
    found = Labels(sorted((label for label, _ in number.most_common(LABELS_MAX)), key=str.casefold))
    found.is_complete = len(number) <= LABELS_MAX and sum(row["tasks"] for row in rows) < RECENT_TASKS_MAX
    return found
