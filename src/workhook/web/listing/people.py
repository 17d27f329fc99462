"""The people of a project, of whom the reader may choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workhook.http import lists
from workhook.web.frame.places import Visit
from workhook.work.access import Access
from workhook.work.clients.api import list_clients
from workhook.work.members.api import list_members

PEOPLE_MAX = lists.PER_PAGE_MAX


async def logins_of(visit: Visit, access: Access) -> list[str]:
    """The members and clients of the project by their logins, the first hundred of each. A client learns only of
    itself."""
    if access.is_client:
        return [visit.actor.user.login]
    query = lists.ListQuery(per_page=PEOPLE_MAX)
    project_id = access.repository.project_id
    members = (await list_members(visit.call, project_id, query)).body.members
    clients: Sequence[Any] = (await list_clients(visit.call, project_id, query)).body.clients
    return list(dict.fromkeys([*(each.login for each in members), *(each.username for each in clients)]))
