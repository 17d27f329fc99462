"""What somebody can choose from for a task: people who see the project, and labels that its tasks have."""

from __future__ import annotations

from itertools import islice

import sqlalchemy as sa

from workhook.core import json
from workhook.identity.tables import accounts
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.access import Access
from workhook.work.people import PersonShape, person_of_row
from workhook.work.tasks import assignees
from workhook.work.tasks.schemas import tasks

PEOPLE_MAX = LABELS_MAX = 200
LOOKS_AT = 300  # tasks, the last that were changed: whoever chooses a label mostly wants one that is in use

_people = assignees.people_of_project.limit(PEOPLE_MAX)
_team = assignees.people_of_project.where(sa.or_(assignees.on_team, accounts.c.id == big("caller_id")))
_no_clients = assignees.people_of_project.where(assignees.on_team).limit(PEOPLE_MAX)
_labels = (
    sa.select(tasks.c.labels)
    .where(tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None))
    .order_by(tasks.c.updated_at.desc(), tasks.c.id.desc())
    .limit(LOOKS_AT)
)


async def list_people(reader: Reader, access: Access) -> list[PersonShape]:
    """Those whom the caller can assign, the oldest accounts first; at most 200. A client sees the team and itself."""
    params = {"repository_id": access.repository.id}
    if access.is_client:
        rows = await reader.fetch_all(_team.limit(PEOPLE_MAX), {**params, "caller_id": access.user.id})
    else:
        rows = await reader.fetch_all(_people, params)
    return [person_of_row(row) for row in rows]


async def list_team(reader: Reader, access: Access) -> list[PersonShape]:
    """The people of the project who are no clients, the oldest accounts first; at most 200. Not for clients."""
    rows = await reader.fetch_all(_no_clients, {"repository_id": access.repository.id})
    return [person_of_row(row) for row in rows]


async def list_labels(reader: Reader, access: Access) -> list[str]:
    """The labels of the tasks that were changed last, at most 200, in the order of the alphabet."""
    rows = await reader.fetch_all(_labels, {"repository_id": access.repository.id})
    found: dict[str, None] = {}
    for row in rows:
        if len(found) >= LABELS_MAX:
            break
        found.update(dict.fromkeys(json.decode(row["labels"])))
    return sorted(islice(found, LABELS_MAX), key=str.casefold)
