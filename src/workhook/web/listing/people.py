"""The people of a project, of whom the reader may choose."""

from __future__ import annotations

from workhook.storage import Reader
from workhook.web.frame.names import Names
from workhook.work.board.tasks.choices import list_people, list_team
from workhook.work.kernel.access import Access


async def logins_of(reader: Reader, access: Access) -> dict[str, str]:
    """The names of those whom the reader can assign by their logins, the oldest accounts first; at most
    `choices.PEOPLE_MAX`. A client learns of the team and of itself."""
    return Names(await list_people(reader, access)).by_login


async def team_of(reader: Reader, access: Access) -> dict[str, str]:
    """As `logins_of`, without clients: those who can have time."""
    return Names(await list_team(reader, access)).by_login
