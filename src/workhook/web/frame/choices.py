"""The projects that a list across projects can be narrowed to, as its form shows them."""

from __future__ import annotations

from typing import NamedTuple

from workhook.web.frame.places import Visit
from workhook.work.projects.listing import list_newest

OPTIONS_MAX = 500


class ProjectOption(NamedTuple):
    """`is_guest`: the visitor is a client there."""

    id: str
    title: str
    owner: str
    is_guest: bool


async def project_options(visit: Visit) -> list[ProjectOption]:
    """By title, of the newest that the visitor sees."""
    found = await list_newest(visit.database, visit.actor, limit=OPTIONS_MAX)
    options = [
        ProjectOption(each.id, each.title, each.repository.owner.login, each.repository.role is None) for each in found
    ]
    return sorted(options, key=lambda each: (each.title.casefold(), each.id))
