"""What pages need that show a list of all projects together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from workhook.web.frame.places import Visit
from workhook.work.board.projects.listing import find_visible, list_newest
from workhook.work.history.across.walks import AcrossPage

T = TypeVar("T")
Key = tuple[Any, ...]

OPTIONS_MAX = 500
"""Projects in the field with which a list is narrowed."""

LOOKS = 5
"""How often a page looks further, where too few of the rows that it has looked at fit."""


async def fill_page(
    ask: Callable[[Sequence[object] | None], Awaitable[AcrossPage[T]]], after: Key | None, limit: int
) -> AcrossPage[T]:
    """What `ask` finds behind a key, and behind where it stopped, until there are `limit` rows."""
    rows: list[tuple[T, Key]] = []
    found = AcrossPage[T]([])
    for _ in range(LOOKS):
        found = await ask(after)
        rows += found.rows
        after = found.last_seen
        if after is None or len(rows) >= limit:
            break
    return AcrossPage(rows, found.cut, found.last_seen)


class ProjectOption(NamedTuple):
    """`is_guest`: the visitor is a client there."""

    id: str
    title: str
    owner: str
    is_guest: bool


async def project_options(visit: Visit) -> list[ProjectOption]:
    """By title, of the newest that the visitor sees, and of the one that the address names."""
    found = await list_newest(visit.database, visit.actor, limit=OPTIONS_MAX)
    chosen = visit.query("project_id")
    if chosen and all(each.id != chosen for each in found):
        found += (await find_visible(visit.database, visit.actor, [chosen])).values()
    options = [
        ProjectOption(each.id, each.title, each.repository.owner.login, each.repository.role is None) for each in found
    ]
    return sorted(options, key=lambda each: (each.title.casefold(), each.id))
